"""Which positions may start again, among few changes: what `resets.suspect_sources` finds, without Spark."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql.types import TimestampType

from framework.contracts.events import Op
from framework.contracts.full_loads import WITHOUT_POSITION, epoch_part
from silver.changes.staged_rows import column_values, plain_rows
from silver.epochs.event_clock import newest_believable
from silver.epochs.resets import NO_TIME, SHORTEST

_NAMES = (
    "source",
    "database",
    "schema",
    "table",
    "sequence",
    "committed",
    "kind",
    "op",
    "reason",
    "event_time",
)
_OF_LOG = frozenset({Op.INSERT, Op.UPDATE, Op.DELETE})
_SECOND = 1_000_000
_Group = tuple[str | None, ...]
_Reach = tuple[str | None, str | None]
"""The lowest position that a change may have fallen to, and the highest one."""


def suspects_among(
    rows: pa.Table,
    landed_at: datetime | None,
    extents: Sequence[tuple[Any, ...]],
    waits: Mapping[str, timedelta],
) -> set[str]:
    """The sources of a batch whose positions may start again.

    Args:
        rows: Outcomes (STAGED) that are not halves.
        landed_at: When the newest of their messages landed; later times count as no time.
        extents: How far each table has come: rows with the columns of EXTENTS.
        waits: The sources to check, with the time that they let halves wait.
    """
    short = {source for source, wait in waits.items() if wait < SHORTEST}
    slots: dict[_Group, dict[int, _Reach]] = {}
    for group, at, lowest, highest in (
        *_of_changes(rows, newest_believable(landed_at), waits.keys() - short),
        *_of_extents(extents, waits.keys() - short),
    ):
        mine = slots.setdefault(group, {})
        slot = (
            NO_TIME if at is None else math.floor(at / _SECOND / (waits[str(group[0])].total_seconds() * 0.9))
        )
        low, high = mine.get(slot, (None, None))
        mine[slot] = _least(low, lowest), max(high or "", highest)
    return short | {str(group[0]) for group, mine in slots.items() if _falls(mine)}


_Point = tuple[_Group, int | None, str | None, str]


def _of_changes(rows: pa.Table, newest: int | None, sources: Collection[str]) -> Iterator[_Point]:
    """The group, time, lowest and highest position of each row change with a position."""
    times = [row["event_time"] for row in plain_rows(rows.select(["event_time", "before", "after"]))]
    named = column_values(rows, *_NAMES[:-1])
    for (*table, sequence, committed, kind, op, reason), time in zip(named, times, strict=True):
        is_row = kind == "row" or (kind == "excluded" and reason is None)
        if table[0] not in sources or not is_row or op not in _OF_LOG or sequence is None:
            continue
        if re.match(WITHOUT_POSITION, sequence) is None:
            at = None if time is None or (newest is not None and time > newest) else time
            yield (*table, epoch_part(sequence)), at, sequence if committed is None else committed, sequence


def _of_extents(extents: Sequence[tuple[Any, ...]], sources: Collection[str]) -> Iterator[_Point]:
    to_micros = TimestampType().toInternal
    for source, database, schema, table, top, newest, *_ in extents:
        if source in sources and top is not None:
            group = (source, database, schema, table, epoch_part(top))
            yield group, None if newest is None else to_micros(newest), None, top


def _least(one: str | None, other: str | None) -> str | None:
    return min((text for text in (one, other) if text is not None), default=None)


def _falls(slots: Mapping[int, _Reach]) -> bool:
    """Whether a position is below one of an earlier slot."""
    before = ""
    for slot, (lowest, highest) in sorted(slots.items(), key=lambda found: found[0]):
        if slot > NO_TIME and lowest is not None and lowest < before:
            return True
        before = max(before, highest or "")
    return False
