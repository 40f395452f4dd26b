"""The order inside a partition where positions are only times: the greatest position so far, then the offset.

Writers send all changes of a key to one partition, in the order in which they happened. Their times do not
always rise: they are times of a statement's start, or whole seconds, or a clock steps back. So a sequence
does not begin with the time of its own message, but with the greatest time of the messages up to it in its
partition and epoch; equal times are ordered by offset. So inside a partition the sequences rise with the
offsets.

This module does it for the rows of one Arrow batch. `block` says which rows were ordered together, so that
`silver/batches/partition_progress.py` can raise whole blocks by what came before them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from framework.contracts.full_loads import epoch_part
from silver.changes.staged_rows import Row
from silver.values.sequence import with_position

UNPLACED = 0
"""The `block` of a row whose sequence has not been compared with earlier rows."""


def raise_sequences(rows: Iterable[Row]) -> None:
    """Give each row with a `block` the greatest position of the rows up to it, and the name of its block."""
    partitions: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if row["block"] is not None:
            epoch = epoch_part(row["position"])
            partitions.setdefault((row["source"], row["topic"], row["partition"], epoch), []).append(row)
    for members in partitions.values():
        _raise(members)


def _raise(members: list[Row]) -> None:
    members.sort(key=lambda row: (row["offset"], row["ordinal"]))
    block = hash(tuple(row["offset"] for row in members))  # hashes of numbers are the same in every process
    top: str = ""
    for row in members:
        position: str = row["position"]
        if position >= top:
            top = position
        else:
            row["sequence"] = with_position(row["sequence"], position, top)
        row["block"] = block
