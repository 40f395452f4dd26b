"""Which halves of updates repeat others at their position, and which follow each other as one update."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from framework.contracts.events import Half
from silver.changes.change_id import key_values
from silver.changes.same_position import image_cells, own_key
from silver.changes.staged_rows import Row

_SIDES = ("before", "after")


@dataclass(slots=True)
class SeenImages:
    """The images at a position: which halves are repeats.

    Attributes:
        every: The sides and images of all halves so far.
        lone: Those of halves that are in no whole update.
        pairs: The images of whole updates so far.
        whole: The sides and images of updates that were whole when they were decoded, also of later ones.
    """

    every: set[object]
    lone: set[object]
    pairs: set[object]
    whole: set[object]

    @classmethod
    def of(cls, known: Iterable[Row], updates: Iterable[Row]) -> SeenImages:
        """The images of known changes, and of updates that were whole when they were decoded."""
        whole: set[object] = {(side, image_cells(row, side)) for row in updates for side in _SIDES}
        found = cls(set(), set(), set(), whole)
        for row in known:
            if row["half"] is None:
                found.add_pair(row, row)
            else:
                found.add_lone((row,))
        return found

    def add_pair(self, before: Row, after: Row) -> None:
        """Take the halves of an update into account, which may be one row."""
        images = image_cells(before, "before"), image_cells(after, "after")
        self.pairs.add(images)
        self.every |= {(side, image) for side, image in zip(_SIDES, images, strict=True) if image is not None}

    def add_lone(self, halves: Iterable[Row]) -> None:
        """Take halves into account that are in no whole update."""
        found = {(row["half"], image_cells(row, row["half"])) for row in halves}
        self.every |= found
        self.lone |= found

    def judge(self, part: Sequence[Row]) -> Judged:
        """Which halves repeat others.

        Two halves that follow each other as those of one update repeat one, or are a new one: also if one of
        them looks like a half of another update.
        """
        if len(part) == 2:
            before, after = part
            sides = {("before", image_cells(before, "before")), ("after", image_cells(after, "after"))}
            if self.lone.isdisjoint(sides):
                is_repeat = (image_cells(before, "before"), image_cells(after, "after")) in self.pairs
                known = len(self.every & sides)
                self.add_pair(before, after)
                if is_repeat or known == 2:
                    return Judged(repeats=part)
                return Judged(couples=[(before, after)])
        repeats: list[Row] = []
        others: list[Row] = []
        for row in part:
            is_repeat = (row["half"], image_cells(row, row["half"])) in self.every | self.whole
            (repeats if is_repeat else others).append(row)
            if not is_repeat:
                self.add_lone((row,))
        return Judged(repeats=repeats, others=others)


@dataclass(frozen=True, slots=True)
class Judged:
    """Halves that repeat others, pairs that are certain, and halves whose partners are still to be found."""

    repeats: Sequence[Row] = ()
    couples: Sequence[tuple[Row, Row]] = ()
    others: Sequence[Row] = ()


def _sides(line: Iterable[Row | None], whole: Iterable[Row]) -> Iterator[str | None]:
    """The side of each half of a line; null for one of a whole update, and for a repeated AFTER half.

    An AFTER half with the image of another one is repeated if no BEFORE half is directly before it.
    """
    results = {image_cells(row, "after") for row in whole}
    last: str | None = None
    for row in line:
        last_but_one, last = last, None if row is None else row["half"]
        is_again = row is not None and last == Half.AFTER and image_cells(row, "after") in results
        yield None if is_again and last_but_one != Half.BEFORE else last
        if row is not None and last == Half.AFTER:
            results.add(image_cells(row, "after"))


def parts_of(halves: Sequence[Row], whole: Sequence[Row]) -> list[list[Row]]:
    """The halves, one by one, but two together where a BEFORE half and its AFTER half follow each other.

    They do if their messages are adjacent, and neither is beside another half of its key that could take its
    place (see `silver/changes/adjacent_halves.py`). `whole` are whole updates, whose halves may be there.
    """
    lines: dict[object, list[tuple[tuple[Any, ...], Row | None]]] = {}
    for row in halves:
        place = (row["topic"], row["partition"], own_key(row))
        lines.setdefault(place, []).append(((row["offset"], row["ordinal"], row["half"]), row))
    for key, found in halves_by_key(whole).items():
        for topic, partition, offset, side in found:
            if (topic, partition, key) in lines:
                lines[topic, partition, key].append(((offset, 0, side), None))
    parts: list[list[Row]] = []
    for line in lines.values():
        in_order = [row for _, row in sorted(line, key=lambda item: item[0])]
        sides = [None, *_sides(in_order, whole), None, None]
        is_taken = False
        for at, (one, two) in enumerate(pairwise([*in_order, None])):
            is_alone = sides[at] != Half.BEFORE and sides[at + 3] != Half.AFTER
            is_pair = is_alone and sides[at + 1 : at + 3] == [Half.BEFORE, Half.AFTER]
            if one and two and is_pair and one["offset"] + 1 == two["offset"]:
                parts.append([one, two])
                is_taken = True
            elif one and not is_taken:
                parts.append([one])
            else:
                is_taken = False
    return parts


def halves_by_key(known: Iterable[Row]) -> dict[object, list[tuple[Any, ...]]]:
    """The coordinates and sides of the halves of whole updates, by the values of their keys."""
    found: dict[object, list[tuple[Any, ...]]] = {}
    for row in known:
        for side, image in ((Half.AFTER, row["after"]), (Half.BEFORE, row["before"])):
            at = row if side is Half.AFTER else row["paired_with"] or row
            found.setdefault(key_values(row["keys"], image), []).append(
                (at["topic"], at["partition"], at["offset"], str(side))
            )
    return found
