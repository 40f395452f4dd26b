"""Finds halves in adjacent messages: they are one update, even if others share the position."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from framework.contracts.events import Half
from silver.changes.change_id import change_id
from silver.changes.pairing import merge_halves, own_key
from silver.changes.staged_rows import Row
from silver.decoding.encoding_modes import evidence_text

SHARED_POSITIONS = evidence_text("positions", frozenset({"shared"}))
"""Evidence about a source: several updates of a table have one position."""
_Half = tuple[int, str, int]
"""The offset of a half, its side, and its index among the rows."""


def merge_adjacent(rows: list[Row | None], positions: Iterable[Sequence[int]]) -> None:
    """Merge BEFORE halves with the AFTER halves in the next messages.

    A merged update takes the place of its AFTER half, and None that of its BEFORE half. Halves that are left
    get their ids, and evidence where they are of several updates.

    Args:
        rows: The rows, halves of updates among them.
        positions: The indexes of the halves of each position.
    """
    for places in positions:
        if len(places) == 2:
            first, second = rows[places[0]], rows[places[1]]
            if first is not None and second is not None and _is_pair(first, second):
                rows[places[0]], rows[places[1]] = None, merge_halves(first, second)
                continue
        halves = [with_id(row) for place in places if (row := rows[place]) is not None]
        _note_shared_position(halves)
        for at, partner in _adjacent_pairs(rows, places) if len(places) > 1 else ():
            before, after = rows[at], rows[partner]
            if before is not None and after is not None:
                rows[at], rows[partner] = None, merge_halves(before, after)


def with_id(half: Row) -> Row:
    """The row with its id. A BEFORE half is without one at first: most are merged, and have none then."""
    if half["change_id"] is None:
        half["change_id"] = change_id(half)
    return half


def _adjacent_pairs(rows: Sequence[Row | None], places: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The indexes of BEFORE halves and of the AFTER halves in the next message, among the halves at `places`.

    Where another adjacent half could take the place of one of them, the pairing decides about all of them.
    """
    partitions: dict[tuple[Any, ...], list[_Half]] = {}
    for place in places:
        row = rows[place]
        if row is not None:
            partitions.setdefault((row["topic"], row["partition"], own_key(row)), []).append(
                (row["offset"], row["half"], place)
            )
    for halves in partitions.values():
        yield from _pairs_in(sorted(halves))


def _note_shared_position(halves: Sequence[Row]) -> None:
    """Note as evidence on the halves of a position that they are of several updates, if they are."""
    sides = {row["half"] for row in halves}
    if len(halves) > len(sides) and len({(row["half"], row["change_id"]) for row in halves}) > len(sides):
        for row in halves:
            row["evidence"] = SHARED_POSITIONS


def _is_pair(first: Row, second: Row) -> bool:
    """Whether two halves, the only ones of a position, are one update in adjacent messages."""
    return (
        first["offset"] + 1 == second["offset"]
        and first["half"] == Half.BEFORE
        and second["half"] == Half.AFTER
        and first["topic"] == second["topic"]
        and first["partition"] == second["partition"]
        and own_key(first) == own_key(second)
    )


def _pairs_in(halves: Sequence[_Half]) -> Iterator[tuple[int, int]]:
    sides = [None, *(side for _, side, _ in halves), None]
    for at, ((offset, side, place), (next_offset, next_side, next_place)) in enumerate(pairwise(halves)):
        is_alone = sides[at] != Half.BEFORE and sides[at + 3] != Half.AFTER
        if is_alone and (side, next_side) == (Half.BEFORE, Half.AFTER) and next_offset == offset + 1:
            yield place, next_place
