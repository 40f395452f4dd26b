"""No message has an event time that the process of a run cannot show: Python's times are the years 1 to 9999,
less a day in some zones. One such time would stop every batch that has it.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache, reduce
from operator import getitem

import pyarrow as pa
import pytest

from framework.contracts.events import Op, RowChange
from silver.batches.contents import contents_of
from silver.changes.decode import SourcePlan, arrow_decoder
from silver.changes.staged_rows import plain_rows
from silver.decoding.format import Context, Format
from silver.formats import FORMATS
from silver.formats.debezium import DebeziumOptions
from tests.silver.changes.test_decode import CONTEXT, MESSAGES
from tests.silver.formats.test_time import MARK, marked_sample
from tests.silver.recorded import sample_of

EARLY = ("0001-01-01 00:00:00.000000", "0001-01-01T00:00:00Z", "0001-01-01T00:00:00", "0001-01-02 23:59:59")
LATE = ("9999-12-31 23:59:59.999999", "9999-12-31T23:59:59Z", "9999-12-31T23:59:59", "9999-12-30 00:00:01")
COUNTS = (-62_135_596_800, -62_135_510_400, 253_402_300_799, 253_402_128_001)
TIMES = [
    *(f'"{text}"' for text in (*EARLY, *LATE)),
    *(str(count * unit) for count in COUNTS for unit in (1, 1_000, 1_000_000, 1_000_000_000)),
]
FIRST, LAST = -62_135_424_000_000_000, 253_402_128_000_999_999
"""3 January of the year 1, and the first second of 30 December 9999."""


@pytest.fixture(params=["UTC", "Asia/Shanghai", "America/New_York"])
def _zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The zone of the process, in which Spark makes Python's times."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield
    time.tzset()


@lru_cache
def outcomes(name: str) -> list[pa.RecordBatch]:
    """What becomes of the format's sample with each of TIMES in the place of each of its members."""
    good = sample_of(name)
    values = [value.replace(MARK, text.encode()) for value in marked_sample(name) for text in TIMES]
    return decoded(good.format, good.context, good.key, *values)


def decoded(
    fmt: Format, context: Context, key: bytes | None, *values: bytes | None, stamp: int | None = None
) -> list[pa.RecordBatch]:
    rows = [("feed", "topic", 0, n, stamp, key, value, None, None, None) for n, value in enumerate(values)]
    columns = [
        pa.array(cells, field.type) for cells, field in zip(zip(*rows, strict=True), MESSAGES, strict=True)
    ]
    batch = pa.RecordBatch.from_arrays(columns, schema=MESSAGES)
    return list(arrow_decoder({"feed": SourcePlan(fmt, context, 1, lambda *_: False, 10**9)})([batch]))


@pytest.mark.usefixtures("_zone")
@pytest.mark.parametrize("name", sorted(FORMATS))
def test_every_event_time_can_be_shown(name: str) -> None:
    found = outcomes(name)
    times = [row["event_time"] for row in plain_rows(pa.Table.from_batches(found))]
    assert len(times) >= len(TIMES)
    assert [moment for moment in times if moment is not None and not FIRST <= moment <= LAST] == []
    contents_of(found, None)


@pytest.mark.parametrize("text", [*EARLY[:2], *LATE[:2]])
@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("ogg", ("op_ts",)),
        ("dms", ("metadata", "timestamp")),
        ("dms", ("metadata", "commit-timestamp")),
        ("oms_shareplex", ("meta", "time")),
    ],
)
def test_a_message_with_such_a_time_is_refused_alone(name: str, path: tuple[str, ...], text: str) -> None:
    good = sample_of(name)
    document = copy.deepcopy(good.document)
    *above, member = path
    values = []
    for sent in (text, "2024-02-29T10:00:00"):
        reduce(getitem, above, document)[member] = sent
        values.append(json.dumps(document).encode())
    assert fates(decoded(good.format, good.context, good.key, *values)) == [
        ("quarantined", "bad_position", None),
        ("row", None, 1_709_200_800_000_000),
    ]


@pytest.mark.parametrize("moment", [FIRST - 1, LAST + 1])
def test_a_format_that_hands_over_such_a_time_is_not_believed(moment: int) -> None:
    event = RowChange(Op.INSERT, None, None, "t", None, None, {"id": "1"}, {}, (1,), moment)
    made = replace(FORMATS["canal"], decode=lambda *_: (event,))
    assert fates(decoded(made, CONTEXT, None, b"{}")) == [("quarantined", "bad_position", None)]


def test_a_tombstone_of_such_a_time_is_a_delete_without_a_time() -> None:
    """The time is that of its record, not one of the source."""
    context = replace(CONTEXT, options=DebeziumOptions(tombstones="delete"))
    key = b'{"id": 1}'
    for stamp, moment in ((LAST + 1, None), (LAST, LAST)):
        found = decoded(FORMATS["debezium"], context, key, None, stamp=stamp)
        assert fates(found) == [("row", None, moment)]


def fates(batches: list[pa.RecordBatch]) -> list[tuple[str, str | None, int | None]]:
    rows = plain_rows(pa.Table.from_batches(batches))
    return [(row["kind"], row["reason"], row["event_time"]) for row in rows]
