"""Several updates of one row at one position: each has an id of its own, and a place in their order.

Where the position and the key identify an update, two updates of one row have one id if they share a
position. One with the same images is a repeat. Of the others, the first keeps the id and the sequence; each
other one has an id that is made of its images too, and a sequence with a tie-breaker, its AFTER half's
coordinates. The first is the one whose AFTER half comes first, also while that half waits for its other half.

    offset   half                  change        sequence
    1, 2     (1, a), (1, x)        a to x        011.011.03100
    3, 4     (1, x), (1, y)        x to y        011.011.03100.orders.010.014.010
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from framework.contracts.events import Half
from framework.contracts.quarantine_reasons import Reason
from silver.changes.change_id import digest, image_parts, key_values
from silver.changes.staged_rows import Row, as_duplicate, as_refused
from silver.values.sequence import name_part, tied

ImageCells = frozenset[tuple[str, str | None]]
_TOO_LATE = "an update of its row from a later message, at the same position, is stored already"


def image_cells(row: Row, side: str) -> ImageCells | None:
    """The image of one side as a hashable value."""
    return None if row[side] is None else frozenset(row[side].items())


def images_of(row: Row) -> tuple[ImageCells | None, ImageCells | None]:
    """Both images as hashable values."""
    return image_cells(row, "before"), image_cells(row, "after")


def own_key(half: Row) -> tuple[str | None, ...] | None:
    """The values of the key in a half's image; None for tables without a key."""
    return key_values(half["keys"], half["before"] if half["after"] is None else half["after"])


def coordinates_of(row: Row) -> tuple[Any, ...]:
    """The coordinates of a row in the order of the tie-breakers of a sequence."""
    return (name_part(row["topic"]), row["partition"], row["offset"], row["ordinal"])


@dataclass(slots=True)
class _UpdatesAtPosition:
    """The updates of a table at one position that have an id.

    Attributes:
        first: By id, the coordinates of the change that has it; null where it is not committed yet.
        ids: The ids of whole updates, by their images.
        befores: The BEFORE images of whole updates.
        results: The ids of whole updates, by their AFTER images.
        released: AFTER halves that are changes until their other halves come, by their images.
    """

    first: dict[str, tuple[Any, ...] | None] = field(default_factory=dict)
    ids: dict[object, str] = field(default_factory=dict)
    befores: set[object] = field(default_factory=set)
    results: dict[object, str] = field(default_factory=dict)
    released: dict[object, Row] = field(default_factory=dict)

    def note(self, row: Row, at: tuple[Any, ...] | None) -> None:
        """Take a change into account that has its id."""
        self.first.setdefault(row["change_id"], at)
        if row["half"] is None:
            before, after = images_of(row)
            self.ids[before, after] = self.results[after] = row["change_id"]
            self.befores.add(before)

    def repeated(self, row: Row) -> str | None:
        """The id of the change that a decoded update repeats.

        Two halves that others have, each for itself, are where one repeat ends and another begins.
        """
        before, after = images_of(row)
        return self.ids.get((before, after)) or (self.results.get(after) if before in self.befores else None)

    def told_apart(self, row: Row) -> Iterable[Row]:
        """The outcomes of an update with the id of its position and key."""
        if row["change_id"] not in self.first:
            self.note(row, None)
            return (row,)
        earlier = self.first[row["change_id"]]
        if earlier is not None and row["keys"] and coordinates_of(row) < earlier:
            return _refused(row)
        parts = (row["change_id"], *image_parts(row["before"]), *image_parts(row["after"]))
        tie = (row["topic"], row["partition"], row["offset"], row["ordinal"])
        sequence = tied(row["sequence"], row["epoch"] or 1, tie)
        row = {**row, "change_id": digest(parts), "sequence": sequence}
        self.note(row, None)
        return (row,)


def tell_apart(
    known: Sequence[Row], decoded: Iterable[Row], paired: Iterable[Row], waiting: Iterable[Row]
) -> list[Row]:
    """The outcomes of updates and released halves at one position: with ids of their own, or as duplicates.

    Args:
        known: The changes of earlier batches at the position.
        decoded: Updates of this batch that were whole when they were decoded.
        paired: Updates whose halves have met now, and AFTER halves that are released.
        waiting: AFTER halves that go on waiting; each keeps its place before the updates that follow it.
    """
    here = _UpdatesAtPosition()
    complete = {row["change_id"] for row in known if row["half"] is None}
    for row in known:
        here.note(row, coordinates_of(row))
        if row["half"] == Half.AFTER and row["change_id"] not in complete:
            here.released[image_cells(row, "after")] = row
    members = [*((row, "decoded") for row in decoded), *((row, "paired") for row in paired)]
    members += [(row, "waiting") for row in waiting]
    outcomes: list[Row] = []
    for row, what in sorted(members, key=lambda member: coordinates_of(member[0])):
        if what == "waiting":
            here.first.setdefault(row["change_id"], None)
        elif what == "decoded" and (repeated := here.repeated(row)) is not None:
            outcomes.append(as_duplicate({**row, "change_id": repeated}))
        elif what == "decoded" and (lone := here.released.pop(image_cells(row, "after"), None)):
            outcomes.append({**row, "change_id": lone["change_id"], "sequence": lone["sequence"]})
            here.note(outcomes[-1], None)
        else:
            outcomes.extend(here.told_apart(row))
    return outcomes


def _refused(row: Row) -> Iterator[Row]:
    """An update before one that is stored: its place in the order is taken. Each half has its outcome."""
    before = row["paired_with"]
    alone = {**row, "paired_with": None, "half": row["half"] if before is None else str(Half.AFTER)}
    yield as_refused(alone, Reason.AMBIGUOUS_PAIR, _TOO_LATE)
    if before is not None:
        yield as_refused({**alone, **before, "half": str(Half.BEFORE)}, Reason.AMBIGUOUS_PAIR, _TOO_LATE)
