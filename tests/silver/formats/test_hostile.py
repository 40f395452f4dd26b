"""Whatever stands in a field, a key or a header:
each message of a batch has an outcome, and the good ones beside it theirs.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pytest

from framework.contracts.quarantine_reasons import Reason
from silver.changes.decode import SourcePlan, arrow_decoder
from silver.changes.staged_rows import Row, plain_rows
from silver.formats import FORMATS
from tests.amounts import IS_LARGE
from tests.silver.changes.test_decode import MESSAGES
from tests.silver.formats.test_time import TEXTS, spoiled
from tests.silver.recorded import Sample, recordings, sample_of

SEED = 20240301
MOST = 2_000 if IS_LARGE else 300
"""Cases of one format; a schema block has a thousand members."""
TOPICS = ("orders", "mainstem.seed:x/1", "a" * 300, "\x00", "é😀", "${env:HOME}", "../x", "")
ODD = (
    b"null", b"true", b"-0", b"{}", b"[]", b'""', b'"\\u0000"', b'"\\ud800"', b'"\\udc00\\ud800"', b"1e400",
    b"-1", b"99999999999999999999",
    b"9" * 99, b"9223372036854775807", b"-9223372036854775808", b"253402300800000",
    b'"253402300799999999999"', b'"9999-12-31T23:59:60Z"',
    b'"mainstem"', b'"${env:HOME}"', b'"\\u2028"', b'[{"a":null},null]', b'{"":{"":""}}',
    b'"ALTER TABLE t ADD c int"', b"\xff", b"}",
)  # fmt: skip

Case = tuple[bytes | None, bytes | None, list[dict[str, object]] | None]


def cases(good: Sample, draw: random.Random) -> Iterator[Case]:
    texts = [*(text(60) for text in TEXTS.values()), TEXTS["arrays in arrays with an end"](9_000), *ODD]
    for text in texts:
        yield from ((value, good.key, None) for value in spoiled(good.document, text))
        yield good.value((b'"cell"', text)), good.key, None
        yield good.value((text, b'"cell"')), good.key, None
        for key in (text, b'{"id":' + text + b"}", b'{"schema":{},"payload":{"id":' + text + b"}}"):
            yield good.value(), key, None
            yield None, key, None
        for name in (
            "__debezium.op",
            "__op",
            "mainstem.seed",
            "mainstem.forgotten",
            "mainstem.too_long",
            "",
            "\x00",
        ):
            yield good.value(), good.key, [{"key": name, "value": text}, {"key": name, "value": None}]
    for _ in range(200):
        value = bytearray(good.value())
        for _ in range(draw.randint(1, 6)):
            value[draw.randrange(len(value))] = draw.randrange(256)
        yield bytes(value), draw.randbytes(draw.randint(0, 30)), [{"key": "x", "value": draw.randbytes(9)}]
        yield draw.randbytes(draw.randint(0, 80)), None, None


def outcomes(good: Sample, messages: list[Case]) -> list[Row]:
    rows = [
        ("feed", TOPICS[n % 8 if n % 2 else 0], 0, n, None, key, value, headers, None, None)
        for n, (value, key, headers) in enumerate(messages)
    ]
    columns = [pa.array(column, f.type) for column, f in zip(zip(*rows, strict=True), MESSAGES, strict=True)]
    plan = SourcePlan(good.format, good.context, 1, lambda *_: False, 10**9)
    found = arrow_decoder({"feed": plan})([pa.RecordBatch.from_arrays(columns, schema=MESSAGES)])
    return [row for batch in found for row in plain_rows(pa.Table.from_batches([batch]))]


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_every_message_of_a_hostile_batch_has_an_outcome(name: str) -> None:
    good = sample_of(name)
    (plain,) = outcomes(good, [(good.value(), good.key, None)])
    messages: list[Case] = []
    draw = random.Random(f"{SEED} {name}")
    every = list(cases(good, draw))
    for case in draw.sample(every, min(len(every), MOST)):
        messages += (case, (good.value(), good.key, None))
    rows = outcomes(good, messages)
    assert {row["offset"] for row in rows} | {
        row["paired_with"]["offset"] for row in rows if row["paired_with"]
    } == set(range(len(messages)))
    broken = Counter(row["detail"] for row in rows if row["reason"] == Reason.DECODER_ERROR)
    assert not broken
    after = [row["after"] for row in rows if row["offset"] % 2 and row["ordinal"] == 0]
    assert after == [plain["after"]] * (len(messages) // 2)


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_recorded_messages_with_hostile_members_have_outcomes(name: str) -> None:
    draw, good, messages = random.Random(f"{SEED} {name}"), sample_of(name), list[Case]()
    for message, _ in recordings(name):
        try:
            document = json.loads(message.value or b"")
        except ValueError:
            continue
        messages += [(value, message.key, None) for value in spoiled(document, draw.choice(ODD))]
    rows = outcomes(good, messages)
    partners = {row["paired_with"]["offset"] for row in rows if row["paired_with"]}
    assert {row["offset"] for row in rows} | partners == set(range(len(messages)))
    assert not Counter(row["detail"] for row in rows if row["reason"] == Reason.DECODER_ERROR)
