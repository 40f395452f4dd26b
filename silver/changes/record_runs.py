"""Which messages of a partition are one record of the source's log, or one transaction, written as a whole.

Equal rows of a table without a key are different rows if they are of one delivery of a record. Between them
there may be the record's rows of other tables, and tombstones. A row meets only rows of its table when
duplicates are decided, so this module notes beside it where its run began in the Arrow batch.

    offset   position   row                run of the rows without a key
    7        5          a, table one       7
    8        5          x, table two       7
    9        5          a, table one       7
    10       6          b, table one       10
    11       5          a, table one       11: the record again
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from framework.contracts.events import ControlKind
from silver.changes.staged_rows import Row

Place = tuple[str, int, int]
"""Topic, partition and offset of a message."""


def note_runs(rows: Iterable[Row]) -> None:
    """Give each row of a record, if its table has no key, the offset at which the record's run begins."""
    rows = list(rows)
    if not any(row.get("is_of_record") for row in rows):
        return
    partitions: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if row["offset"] is None:  # quarantined
            continue
        at = (row["source"], row["topic"], row["partition"], row["epoch"], row["restart"])
        partitions.setdefault(at, []).append(row)
    for members in partitions.values():
        members.sort(key=lambda row: (row["offset"], row["ordinal"]))
        start, last, position = 0, -2, None
        for row in members:
            is_next = row["offset"] <= last + 1
            if not (is_next and (row["position"] == position or row["kind"] == ControlKind.TOMBSTONE)):
                start, position = row["offset"], row["position"]
            last = row["offset"]
            if row.get("is_of_record"):
                row["run"] = start


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
        (row["topic"], row["partition"], row["offset"] if row["run"] is None else row["run"], row["offset"])
        for row in members
    }
    found: dict[Place, Place] = {}
    first, end = ("", 0, 0), -2
    for topic, partition, start, offset in sorted(spans):
        if (topic, partition) != first[:2] or start > end + 1:
            first, end = (topic, partition, start), offset
        end = max(end, offset)
        found[topic, partition, offset] = first
    return found
