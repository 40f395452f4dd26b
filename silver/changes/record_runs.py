"""Which messages of a partition are one record of the source's log, or one transaction, written as a whole.

Equal rows of a table without a key are different rows if they are of one delivery of a record. Between them
there may be the record's rows of other tables, and tombstones. A row meets only rows of its table when
duplicates are decided, so this module notes beside it where its run begins and ends in the Arrow batch.
What other Arrow batches and earlier batches have of the record, `silver/batches/known_runs.py` adds.

Rows of a snapshot without a position are one record, too: up to the next message with a position, or to a
mark of the writer (a transaction, a statement). A heartbeat, or a message that cannot be read, ends none.

    offset   position   row                run and end of the rows without a key
    7        5          a, table one       7 to 9
    8        5          x, table two
    9        5          a, table one       7 to 9
    10       6          b, table one       10 to 10
    11       5          a, table one       11 to 11: the record again
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from framework.contracts.events import ControlKind, Op
from silver.changes.staged_rows import Row

KINDS_WITHOUT_POSITION = ("row", "duplicate", "excluded", "quarantined")
"""The kinds of outcomes of messages that may be rows of a snapshot without a position."""
Place = tuple[str, int, int]
"""Topic, partition and offset of a message."""


def note_runs(rows: Iterable[Row]) -> None:
    """Give each row of a record, if its table has no key, the offsets at which its run begins and ends."""
    rows = list(rows)
    if not any(row.get("is_of_record") for row in rows):
        return
    partitions: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if row["offset"] is None or row["kind"] == "duplicate":  # quarantined, or landed again
            continue
        at = (row["source"], row["topic"], row["partition"], row["epoch"], row["restart"])
        partitions.setdefault(at, []).append(row)
    for members in partitions.values():
        members.sort(key=lambda row: (row["offset"], row["ordinal"]))
        start, last, record = 0, -2, None
        run: list[Row] = []
        for row in members:
            is_next, mine = row["offset"] <= last + 1, record_of(row)
            is_same = mine is not None and mine == record
            if not (is_next and (is_same or row["kind"] == ControlKind.TOMBSTONE)):
                _note(run, start, last)
                start, record, run = row["offset"], mine, []
            last = row["offset"]
            run.append(row)
        _note(run, start, last)


def record_of(row: Row) -> str | None:
    """The position of the row's record, empty for a snapshot without a position; None where it has none."""
    if row["position"] is not None:
        return str(row["position"])
    may_be_read = row["kind"] in KINDS_WITHOUT_POSITION and row["op"] in (None, Op.READ)
    return "" if may_be_read or row["kind"] == ControlKind.HEARTBEAT else None


def _note(run: Iterable[Row], start: int, end: int) -> None:
    for row in run:
        if row.get("is_of_record"):
            row["run"], row["run_end"] = start, end


def deliveries(members: Iterable[Row]) -> dict[Place, Place]:
    """For each message the first one of its delivery: runs that meet or overlap are one delivery.

    Rows of a part of a position have it in `delivery`, as `split_groups` adds it.
    """
    members = list(members)
    if members and members[0].get("delivery") is not None:
        return {
            (row["topic"], row["partition"], row["offset"]): (row["topic"], row["partition"], row["delivery"])
            for row in members
        }
    spans = {
        (row["topic"], row["partition"], *_span(row["run"], row["run_end"], row["offset"]), row["offset"])
        for row in members
    }
    found: dict[Place, Place] = {}
    first, reached = ("", 0, 0), -2
    for topic, partition, start, end, offset in sorted(spans):
        if (topic, partition) != first[:2] or start > reached + 1:
            first, reached = (topic, partition, start), end
        reached = max(reached, end)
        found[topic, partition, offset] = first
    return found


def _span(start: int | None, end: int | None, offset: int) -> tuple[int, int]:
    """Where the run of a message begins and ends, as far as it is known."""
    return (offset if start is None else start, offset if end is None else end)
