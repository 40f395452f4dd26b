"""Gaps between the offsets of a broker, kept from run to run."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pyarrow as pa

from silver.operations.offset_spans import Partition, Span, joined_spans, told
from silver.operations.offset_spans import spans_of as spans_by_number

PLACE = ("feed", "t", 0, 1)


def spans_of(messages: Sequence[tuple[str, str, int, int, int]]) -> dict[Partition, Span]:
    places = sorted({(source, topic, partition, epoch) for source, topic, partition, _, epoch in messages})
    rows = [
        {"place": places.index((source, topic, partition, epoch)), "offset": offset}
        for source, topic, partition, offset, epoch in messages
    ]
    schema = pa.schema([("place", pa.int32()), ("offset", pa.int64())])
    return spans_by_number(pa.Table.from_pylist(rows, schema), places)


def test_a_span_has_the_offsets_between_its_ends_that_have_no_message() -> None:
    assert spans_of([("feed", "t", 0, offset, 1) for offset in (3, 5, 5, 6)]) == {PLACE: Span(3, 6, 1)}


def test_new_offsets_behind_the_known_ones_add_their_gaps() -> None:
    assert joined_spans({PLACE: Span(3, 6, 1)}, {PLACE: Span(7, 9, 0)}) == {PLACE: Span(3, 9, 1)}
    assert joined_spans({PLACE: Span(3, 6, 1)}, {PLACE: Span(9, 12, 2)}) == {PLACE: Span(3, 12, 5)}
    assert joined_spans({}, {PLACE: Span(9, 12, 2)}) == {PLACE: Span(9, 12, 2)}


def test_offsets_that_may_fill_a_gap_are_not_told() -> None:
    assert joined_spans({PLACE: Span(3, 6, 1)}, {PLACE: Span(4, 9, 1)}) is None


def test_a_gap_is_named_with_its_partition() -> None:
    found = told({PLACE: Span(3, 6, 1), ("feed", "t", 1, 1): Span(0, 0, 0)}, 4)
    assert (found.failed, found.checked, found.keys) == (1, 4, ("feed/t/0: 1",))
    assert told({PLACE: Span(3, 6, 0)}, 4).failed == 0


def test_spans_that_are_kept_are_those_of_all_messages() -> None:
    """Drawn offsets, which land in drawn portions."""
    source = random.Random(7)
    for _ in range(200):
        offsets = sorted(source.sample(range(20), source.randrange(1, 12)))
        messages = [("feed", "t", source.randrange(2), offset, 1) for offset in offsets]
        cut = source.randrange(len(messages) + 1)
        found = joined_spans(spans_of(messages[:cut]), spans_of(messages[cut:]))
        assert found == spans_of(messages)
