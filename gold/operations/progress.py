"""The progress of each table: whether it is applied, fresh, and not stopped by a gate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from framework.contracts.ddl_actions import TableName
from framework.contracts.expectations import CheckTarget, Finding, KnownFindings, Rule
from framework.contracts.table_names import BATCHES_TABLE
from framework.pipeline.layer import Run
from framework.quality.batch_log import (
    APPLIED_KINDS,
    Extent,
    Place,
    age,
    batch_log,
    keep_batches,
    moment_text,
)
from framework.quality.memory import memory_of
from framework.quality.rules import digest, rule_of, unique_by_name
from framework.spark.local_frame import local_frame
from framework.text.formatting import quantity
from gold.planning.table_state import State, TableState

APPLIED = Rule("applied", "applied")
GATE = Rule("applied", "gate", is_gate=True)


class Clock:
    """How far silver has come, by table and by source, heartbeats included; one job for a run at most."""

    __slots__ = ("_newest", "_now", "_of")

    def __init__(self, run: Run, states: Mapping[tuple[str, TableName], TableState]) -> None:
        memory = memory_of(run)
        log = batch_log(memory)
        applied: dict[Place, int] = {place: state.batch for place, state in states.items()}
        found = log.with_progress(applied) if log is not None else None
        if found is None or log is None:
            found, top, rows = _read_extents(run, states)
            keep_batches(memory, top, rows, found)
        else:
            keep_batches(memory, log.top, log.rows, found)
        self._of, self._now = found, datetime.now(UTC)
        self._newest = newest_of_sources(found)

    def table(self, state: TableState) -> Extent:
        """How many batches the table has not applied, and its newest event."""
        return self._of.get((state.source, state.name), Extent())

    def age(self, extent: Extent) -> int | None:
        """The age of the newest event in seconds."""
        return None if extent.newest is None else age(extent.newest, self._now)

    def source_age(self, source: str) -> int | None:
        """The age of the source's newest event of any table, in seconds."""
        newest = self._newest.get(source)
        return None if newest is None else age(newest, self._now)


def newest_of_sources(extents: Mapping[Place, Extent]) -> dict[str, int]:
    """The newest event of each source that has one."""
    found: dict[str, int] = {}
    for (source, _), extent in extents.items():
        if extent.newest is not None:
            found[source] = max(extent.newest, found.get(source, extent.newest))
    return found


def _read_extents(
    run: Run, states: Mapping[tuple[str, TableName], TableState]
) -> tuple[dict[Place, Extent], int, int]:
    """The extent of each table by all of `ops/batches`, the newest batch, and the rows of all batches."""
    counts = _with_progress(run.lake.read(run.spark, BATCHES_TABLE), states.values())
    waiting = F.when(F.col("is_waiting"), F.col("batch"))
    grouped = counts.groupBy("source", "database", "schema", "table").agg(
        F.unix_micros(F.max("max_event_time")),
        F.count_distinct(waiting),
        F.coalesce(F.max(waiting), F.lit(-1)),
        F.max("batch"),
        F.sum("rows"),
    )
    found: dict[Place, Extent] = {}
    top, total = -1, 0
    for source, database, schema, table, newest, behind, last, batch, rows in grouped.collect():
        name = TableName(database, schema, table) if table is not None else None
        state = states.get((source, name)) if name else None
        found[(source, name)] = Extent(newest, state.batch if state else -1, behind, last)
        top, total = max(top, batch), total + rows
    return found, top, total


def _with_progress(counts: DataFrame, states: Iterable[TableState]) -> DataFrame:
    """Adds `is_waiting` to rows of `ops/batches`: whether their table has not applied their changes yet.

    A table without a state has applied nothing.
    """
    rows = [
        (state.source, state.name.database, state.name.schema, state.name.table, state.batch)
        for state in states
    ]
    schema = "source string, database string, schema string, `table` string, applied bigint"
    progress = local_frame(counts.sparkSession, rows, schema)
    mine = [counts[name].eqNullSafe(progress[name]) for name in ("source", "database", "schema", "table")]
    is_waiting = F.col("kind").isin(*APPLIED_KINDS) & (F.col("batch") > F.coalesce("applied", F.lit(-1)))
    joined = counts.join(F.broadcast(progress), mine, "left")
    return joined.select(*(counts[name] for name in counts.columns), is_waiting.alias("is_waiting"))


def progress_target(run: Run, state: TableState, clock: Clock) -> CheckTarget:
    """Whether the table is applied, fresh, and passes its gates; from logs alone, in every run."""
    entries = [rule_of(entry) for entry in run.config.quality.rules_of(state.name) if entry.freshness]
    rules = (APPLIED, *unique_by_name(entries))
    extent = clock.table(state)

    def findings() -> list[Finding]:
        fresh = (_fresh(rule, state, extent, clock) for rule in unique_by_name(entries))
        return [_applied(state, extent.behind), *fresh]

    return CheckTarget(
        "source",
        state.source,
        state.name,
        own_findings=lambda _: findings(),
        known_findings=lambda: KnownFindings(findings()),
        suite=digest(rules),
    )


def _applied(state: TableState, behind: int) -> Finding:
    is_parked = state.state is State.PARKED
    batches = quantity(behind, "batch", "batches")
    through = (
        f"verified through {state.sequence} at {_format_moment(state.event_time)}"
        if state.sequence
        else "nothing applied"
    )
    reason = (state.reason or "").replace("\n", " ")
    if is_parked and state.gate_keys is not None:
        return Finding(
            GATE,
            state.changes_applied,
            1,
            state.gate_keys,
            f"parked, {batches} behind",
            reason,
        )
    if not is_parked:
        return Finding(
            APPLIED,
            state.changes_applied,
            0,
            (),
            f"{through}; {batches} behind; {quantity(state.late, 'late change')}",
        )
    return Finding(
        APPLIED,
        state.changes_applied,
        1,
        (),
        f"parked, {batches} behind",
        reason,
    )


def _fresh(rule: Rule, state: TableState, extent: Extent, clock: Clock) -> Finding:
    """A table without changes is as fresh as its source, unless it has not applied what silver has."""
    ages = [clock.age(extent), *(() if extent.behind else (clock.source_age(state.source),))]
    seconds = min((a for a in ages if a is not None), default=None)
    if seconds is None or rule.limit is None:
        return Finding(rule, 0, 1, (state.name.dotted,), "no event yet")
    failed = int(seconds > rule.limit.total_seconds())
    keys = (state.name.dotted,) if failed else ()
    return Finding(
        rule,
        1,
        failed,
        keys,
        f"newest event {moment_text(extent.newest) if extent.newest is not None else None} UTC",
        f"the source is {timedelta(seconds=seconds)} behind the clock",
    )


def _format_moment(moment: datetime | None) -> str:
    return moment.isoformat(sep=" ") if moment else "an unknown time"
