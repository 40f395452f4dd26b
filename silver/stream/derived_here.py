"""Which tables agree with the changes of a source, found in this process where the changes are few.

Of most tables that follow from replaced changes nothing is to be corrected, and Spark needs seconds to find
that out. Each function compares a table with what its counterpart in `silver/stream/rederivation.py` would
write. Where it cannot tell, the table does not count as one that agrees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from framework.contracts.table_names import (
    BATCHES_TABLE,
    CHANGES_TABLE,
    PENDING_TABLE,
    QUARANTINE_TABLE,
    STATEMENTS_TABLE,
)
from framework.contracts.table_schemas import CHANGES, MESSAGE_ID, QUARANTINE
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.local_tables import in_micros
from framework.lakehouse.recent_rows import few_rows
from framework.spark.local_frame import parsed
from silver.batches import batch_counts, changes_table, pending
from silver.batches.outcome_places import Message, Outcome, is_complete, messages_in, outcomes_in
from silver.batches.run_state import RunState
from silver.changes.batch_summary import counts_by_batch
from silver.changes.staged_rows import column_values
from silver.epochs.event_clock import AHEAD
from silver.stream.checkpoint import counted_from

_AHEAD = AHEAD // timedelta(microseconds=1)
_Clocks = Mapping[int | None, int | None]
"""When the newest message of each batch landed, in microseconds."""


@dataclass(frozen=True, slots=True)
class _Source:
    """The changes of a source (CHANGES), their outcomes, the BEFORE halves among them, and `ops/batches`."""

    name: str
    changes: pa.Table
    outcomes: Sequence[Outcome]
    partners: frozenset[Message]
    log: pa.Table
    clocks: _Clocks


def tables_that_agree(spark: SparkSession, state: RunState, source: str) -> frozenset[str]:
    """The tables that surely agree with the changes of a source; none where the changes are many."""
    lake = state.lake
    read = _read(spark, lake, source)
    if read is None:
        return frozenset()
    found: Mapping[str, Callable[[], bool]] = {
        QUARANTINE_TABLE: lambda: _quarantine_agrees(lake, read),
        PENDING_TABLE: lambda: _pending_agrees(lake, read),
        STATEMENTS_TABLE: lambda: _statements_agree(spark, lake, read),
        BATCHES_TABLE: lambda: _counts_agree(read, counted_from(spark, lake)),
    }
    return frozenset(name for name, agrees in found.items() if agrees())


def _read(spark: SparkSession, lake: Lakehouse, source: str) -> _Source | None:
    changes = few_rows(lake, CHANGES_TABLE, CHANGES)
    log = few_rows(lake, BATCHES_TABLE, parsed(spark, batch_counts.COUNTS_SCHEMA))
    if changes is None or log is None:
        return None
    changes, log = (rows.filter(pc.field("source") == source) for rows in (changes, log))
    outcomes = outcomes_in(changes)
    if not all(map(is_complete, messages_in(outcomes))):  # earlier releases wrote no epoch, or no offset
        return None
    log = in_micros(log, ("max_event_time", "max_ingested_at"))
    clocks: dict[int | None, int | None] = {}
    for batch, clock in column_values(log, "batch", "max_ingested_at"):
        clocks[batch] = _greatest((clocks.get(batch), clock))
    partners = frozenset(outcome.partner for outcome in outcomes if outcome.partner is not None)
    return _Source(source, changes, outcomes, partners, log, clocks)


def _quarantine_agrees(lake: Lakehouse, read: _Source) -> bool:
    """Whether the open rows of quarantine are those that the changes say are refused."""
    held = few_rows(lake, QUARANTINE_TABLE, QUARANTINE)
    if held is None:
        return False
    decided: dict[tuple[Any, ...], int] = {}
    for one in read.outcomes:
        if one.kind != "quarantined" and one.is_of_first_landing and one.batch is not None:
            key = (*one.message, one.ordinal)
            decided[key] = max(one.batch, decided.get(key, one.batch))
    implied = {
        at
        for one in read.outcomes
        for at in [(*one.message, one.ordinal)]
        if one.kind == "quarantined"
        and one.message not in read.partners
        and (at not in decided or (one.batch is not None and decided[at] < one.batch))
    }
    places: dict[bool | None, set[tuple[Any, ...]]] = {True: set(), False: set(), None: set()}
    for is_resolved, *place in column_values(held, "is_resolved", *MESSAGE_ID, "ordinal"):
        if place[0] == read.name:
            places[is_resolved].add(tuple(place))
    return places[False] == implied and not places[True] & implied


def _pending_agrees(lake: Lakehouse, read: _Source) -> bool:
    """Whether the halves that wait are those of the changes, as these have them, from their event times."""
    held = few_rows(lake, PENDING_TABLE, CHANGES)
    if held is None:
        return False
    settled = {one.message for one in read.outcomes if one.settles_half} | read.partners
    times: list[int | None] = in_micros(read.changes, ("event_time",)).column("event_time").to_pylist()
    waiting: list[int] = []
    for row, (one, time) in enumerate(zip(read.outcomes, times, strict=True)):
        if one.kind != "half" or one.half is None or one.message in settled:
            continue
        limit = _limit(read.clocks, one.batch)
        if time is None or (limit is not None and time > limit):
            return False
        waiting.append(row)
    made = read.changes.take(pa.array(waiting, pa.int64()))
    return _cells(made) == _cells(held.filter(pc.field("source") == read.name))


def _cells(halves: pa.Table) -> dict[Message, tuple[Any, ...]]:
    """What the halves that wait have of their outcomes, by message."""
    width = len(MESSAGE_ID)
    values = column_values(halves, *MESSAGE_ID, *pending.READ_AGAIN)
    return {tuple(row[:width]): row[width:] for row in values}


def _statements_agree(spark: SparkSession, lake: Lakehouse, read: _Source) -> bool:
    """Whether `ops/statements` has the statements and truncates of the changes."""
    is_statement = pc.field("kind").isin(["ddl", "truncate"])
    made = read.changes.filter(is_statement).select(changes_table.STATEMENTS.names)
    if not lake.exists(spark, STATEMENTS_TABLE):
        return not made.num_rows
    held = few_rows(lake, STATEMENTS_TABLE, changes_table.STATEMENTS)
    return held is not None and _counted(held.filter(pc.field("source") == read.name)) == _counted(made)


def _counts_agree(read: _Source, since: int) -> bool:
    """Whether the counts of `ops/batches` from a batch on are those of the changes."""
    sums, ends = batch_counts.SUMS, batch_counts.ENDS
    width = len(batch_counts.COUNTED_BY)
    made = {row[:width]: row[width:] for row in _counts(read)}
    logged: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    live = read.log.filter(pc.field("batch") >= since)
    for row in column_values(live, *batch_counts.COUNTED_BY, *sums, *ends):
        logged.setdefault(row[:width], []).append(row[width:])
    counted = {at: _joined(rows, len(sums)) for at, rows in logged.items()}
    return made == {at: values for at, values in counted.items() if any(values)}  # others count no row


def _counts(read: _Source) -> Iterator[tuple[Any, ...]]:
    """COUNTED_BY, SUMS and ENDS of all batches."""
    rows = in_micros(read.changes, ("event_time",))
    limits = {batch: _limit(read.clocks, batch) for batch in rows.column("batch").unique().to_pylist()}
    newest: list[int | None] = []
    for batch, time in column_values(rows, "batch", "event_time"):
        limit = limits[batch]
        newest.append(None if time is None or (limit is not None and time > limit) else time)
    found = counts_by_batch(rows, pa.array(newest, pa.int64()))
    return column_values(found, *batch_counts.COUNTED_BY, *batch_counts.SUMS, *batch_counts.ENDS)


def _joined(rows: Sequence[tuple[Any, ...]], sums: int) -> tuple[Any, ...]:
    """The counts of one group over all of its rows in the log."""
    columns = list(zip(*rows, strict=True))
    added = [sum(value or 0 for value in column) for column in columns[:sums]]
    found: list[Any] = [
        _least(column) if name.startswith("min_") else _greatest(column)
        for name, column in zip(batch_counts.ENDS, columns[sums:], strict=True)
    ]
    return (*added, *found)


def _least(values: Iterable[Any]) -> Any:
    return min((value for value in values if value is not None), default=None)


def _greatest(values: Iterable[Any]) -> Any:
    return max((value for value in values if value is not None), default=None)


def _limit(clocks: _Clocks, batch: int | None) -> int | None:
    """The newest event time of a batch that counts (`event_clock.believable`)."""
    clock = clocks.get(batch)
    return None if clock is None else clock + _AHEAD


def _counted(rows: pa.Table) -> Counter[str]:
    return Counter(map(repr, rows.select(sorted(rows.column_names)).to_pylist()))
