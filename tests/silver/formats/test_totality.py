"""Whatever the bytes are, a decoder answers with events or refuses with a reason; nothing else escapes."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from framework.contracts.events import Column, Control, ControlKind, Event, Half, Op, RowChange, Token
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.decoding.format import Context, Format
from silver.formats import FORMATS
from silver.values.sequence import sequence_of
from tests.amounts import IS_LARGE
from tests.silver.recorded import format_of, recordings, sample_of

ALL = pytest.mark.parametrize("name", sorted(FORMATS))
MANY = settings(
    max_examples=200 if IS_LARGE else 50,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
FEW = settings(MANY, max_examples=60 if IS_LARGE else 30)
ODD: list[Any] = [
    None,
    True,
    0,
    -1,
    1.5,
    10**25,
    "",
    "x",
    "007",
    "\u0001",
    "0000-00-00",
    "null",
    [],
    {},
    [None],
    [{}],
    {"a": 1},
    "é😀",
]


sample = lru_cache(sample_of)


@lru_cache
def recorded(name: str) -> Sequence[tuple[RawMessage, Context]]:
    return list(recordings(name))


@lru_cache
def documents(name: str) -> Sequence[tuple[Any, RawMessage, Context]]:
    """The recorded values that are JSON objects."""
    found = []
    for message, context in recorded(name):
        try:
            document = json.loads(message.value or b"")
        except ValueError:
            continue
        if isinstance(document, dict):
            found.append((document, message, context))
    return found


def decoded(fmt: Format, message: RawMessage, context: Context) -> tuple[Malformed | None, Sequence[Event]]:
    try:
        return None, fmt.decode(message, context)
    except Malformed as error:
        return error, ()


def answer(fmt: Format, message: RawMessage, context: Context) -> None:
    """Decode, and check what every decoder promises of its answer."""
    refusal, events = decoded(fmt, message, context)
    if refusal is not None:
        assert refusal.reason in Reason
        assert refusal.reason is not Reason.DECODER_ERROR
        assert refusal.detail.encode() or not refusal.detail
        return
    assert events
    assert [repr(event) for event in fmt.decode(message, context)] == [repr(event) for event in events]
    for event in events:
        check_event(event, fmt)


def check_event(event: Event, fmt: Format) -> None:
    for name in (event.database, event.schema, event.table, event.transaction_id, event.server):
        assert name is None or isinstance(name, str)
    assert event.keys is None or (
        isinstance(event.keys, tuple) and event.keys and len(set(event.keys)) == len(event.keys)
    )
    if event.position is not None:
        assert sequence_of(1, event.position, None)
    assert event.event_time is None or -62_135_596_800_000_000 <= event.event_time < 253_402_300_800_000_000
    for column in event.columns.values():
        assert isinstance(column, Column)
        assert (column.type is None) != (column.token is None)
        assert column.token is None or column.token in Token
    if isinstance(event, Control):
        assert event.kind in ControlKind
        return
    check_row(event, fmt)


def check_row(event: RowChange, fmt: Format) -> None:
    assert event.op in fmt.ops
    assert event.table
    assert event.half is None or (fmt.halves and event.half in Half)
    images = [image for image in (event.before, event.after) if image is not None]
    assert images
    assert event.op is not Op.DELETE or event.after is None
    for image in images:
        assert set(image) <= set(event.columns)
        for name, text in image.items():
            (name + (text or "")).encode()
    assert all(any(key in image for image in images) for key in event.keys or ())


@ALL
@MANY
@given(value=st.binary(max_size=60), key=st.none() | st.binary(max_size=20))
def test_any_bytes_are_events_or_malformed(name: str, value: bytes, key: bytes | None) -> None:
    fmt = format_of(name)
    _, context = recorded(name)[0]
    answer(fmt, RawMessage("feed", "topic", 0, 0, None, key, value), context)


@ALL
@MANY
@given(data=st.data())
def test_recorded_messages_with_damaged_bytes_are_events_or_malformed(name: str, data: st.DataObject) -> None:
    message, context = data.draw(st.sampled_from(recorded(name)))
    value = message.value or b"{}"
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(value)))
        end = data.draw(st.integers(start, min(len(value), start + 8)))
        value = value[:start] + data.draw(st.binary(max_size=6)) + value[end:]
    answer(format_of(name), RawMessage("feed", "topic", 0, 0, None, message.key, value), context)


@ALL
@MANY
@given(data=st.data())
def test_recorded_messages_with_other_members_are_events_or_malformed(name: str, data: st.DataObject) -> None:
    document, message, context = data.draw(st.sampled_from(documents(name)))
    document = copy.deepcopy(document)
    for _ in range(data.draw(st.integers(1, 3))):
        places = [
            (holder, member)
            for holder in holders(document)
            for member in (holder if isinstance(holder, dict) else range(len(holder)))
        ]
        if not places:
            break
        holder, member = data.draw(st.sampled_from(places))
        if data.draw(st.booleans()):
            holder[member] = copy.deepcopy(data.draw(st.sampled_from([*ODD, document])))
        else:
            del holder[member]
    keys = [
        None,
        message.key,
        b"",
        b"default",
        b"{}",
        b'{"id":1}',
        b'{"payload":null}',
        b'{"schema":{},"payload":{"id":"1"}}',
        b"7",
        b"\xff",
    ]
    key = data.draw(st.sampled_from(keys))
    answer(
        format_of(name), RawMessage("feed", "topic", 0, 0, None, key, json.dumps(document).encode()), context
    )


def holders(node: Any) -> list[Any]:
    inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return [
        *([node] if isinstance(node, dict | list) else []),
        *(found for value in inner for found in holders(value)),
    ]


@ALL
def test_recorded_messages_keep_what_decoders_promise(name: str) -> None:
    for message, context in recorded(name):
        answer(format_of(name), message, context)


@ALL
def test_positions_of_a_format_have_one_length(name: str) -> None:
    lengths = set()
    for message, context in recorded(name):
        try:
            events = format_of(name).decode(message, context)
        except Malformed:
            continue
        lengths |= {len(event.position) for event in events if event.position is not None}
    assert len(lengths) == 1


@ALL
@FEW
@given(text=st.text(max_size=30))
def test_every_text_comes_out_as_it_went_in(name: str, text: str) -> None:
    good = sample(name)
    assert good.after(good.value((b'"cell"', json.dumps(text).encode())))["cell"] == text
    assert good.after(good.value((b'"cell"', json.dumps(text, ensure_ascii=False).encode())))["cell"] == text


NUMBERS = st.from_regex(r"-?(0|[1-9][0-9]{0,60})(\.[0-9]{1,60})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)


@ALL
@FEW
@given(number=NUMBERS)
def test_no_digit_of_a_number_is_lost(name: str, number: str) -> None:
    good = sample(name)
    text = good.after(good.value((b'"cell"', number.encode())))["cell"]
    assert text is not None
    with localcontext() as context:
        context.prec = 2_000
        assert Decimal(text) == Decimal(number)
    mantissa, _, exponent = number.lower().partition("e")
    if not exponent:
        assert text.partition(".")[2] == mantissa.partition(".")[2]
