"""Finds halves in adjacent messages: they are one update, even if others share the position."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from framework.contracts.events import Half
from silver.changes.change_id import key_values
from silver.changes.staged_rows import Row

_Half = tuple[int, str, int]
"""The offset of a half, its side, and its index among the rows."""


def adjacent_pairs(rows: Sequence[Row | None], places: Iterable[int]) -> Iterator[tuple[int, int]]:
    """The indexes of BEFORE halves and of the AFTER halves in the next message, among the halves at `places`.

    Where another adjacent half could take the place of one of them, the pairing decides about all of them.
    """
    partitions: dict[tuple[Any, ...], list[_Half]] = {}
    for place in places:
        row = rows[place]
        if row is not None:
            key = key_values(row["keys"], row["before"] if row["after"] is None else row["after"])
            partitions.setdefault((row["topic"], row["partition"], key), []).append(
                (row["offset"], row["half"], place)
            )
    for halves in partitions.values():
        yield from _pairs_in(sorted(halves))


def _pairs_in(halves: Sequence[_Half]) -> Iterator[tuple[int, int]]:
    sides = [None, *(side for _, side, _ in halves), None]
    for at, ((offset, side, place), (next_offset, next_side, next_place)) in enumerate(pairwise(halves)):
        is_alone = sides[at] != Half.BEFORE and sides[at + 3] != Half.AFTER
        if is_alone and (side, next_side) == (Half.BEFORE, Half.AFTER) and next_offset == offset + 1:
            yield place, next_place
