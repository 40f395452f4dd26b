"""The progress of each table: whether it is applied, fresh, and not stopped by a gate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import floor

from pyspark.sql import SparkSession

from framework.contracts.ddl_actions import TableName
from framework.contracts.expectations import CheckTarget, Finding, Rule
from framework.pipeline.layer import Run
from framework.quality.rules import configured, digest, rule_of, unique_by_name
from framework.text.formatting import quantity
from gold.planning.table_state import State, TableState, silver_extents, table_id, waiting_batches

APPLIED = Rule("applied", "applied")
GATE = Rule("applied", "gate", is_gate=True)


@dataclass(frozen=True, slots=True)
class _Extent:
    """Of one table: how many batches wait, its newest event time (text), and the age of that in seconds."""

    behind: int
    newest: str | None
    age: int | None


class Clock:
    """How far silver has come, by table and by source, heartbeats included; one job for a run."""

    __slots__ = ("_of",)

    def __init__(self, run: Run, states: Mapping[tuple[str, TableName], TableState]) -> None:
        extents = silver_extents(run.tables)
        behind = waiting_batches(run.tables, states.values(), extents)
        now = int(datetime.now(UTC).timestamp())
        self._of: dict[tuple[str, TableName | None], _Extent] = {}
        for row in extents:
            place = (row["source"], None if row["table"] is None else table_id(row)[1])
            newest = row["newest"]
            age = None if newest is None else now - floor(newest.timestamp())
            self._of[place] = _Extent(behind.get(table_id(row), 0), _utc_text(newest), age)

    def table(self, state: TableState) -> _Extent:
        """How many batches the table has not applied, and its newest event."""
        return self._of.get((state.source, state.name), _Extent(0, None, None))

    def source_age(self, source: str) -> int | None:
        """The age of the source's newest event of any table, in seconds."""
        return min(
            (e.age for (name, _), e in self._of.items() if name == source and e.age is not None), default=None
        )


def progress_target(run: Run, state: TableState, clock: Clock) -> CheckTarget:
    """Whether the table is applied, fresh, and passes its gates; from logs alone, in every run."""
    entries = [
        rule_of(entry) for entry in configured(run.config.quality.rules, state.name) if entry.freshness
    ]
    rules = (APPLIED, *unique_by_name(entries))
    extent = clock.table(state)

    def own_findings(_: SparkSession) -> Sequence[Finding]:
        return [
            _applied(state, extent.behind),
            *(_fresh(rule, state, extent, clock) for rule in unique_by_name(entries)),
        ]

    return CheckTarget("source", state.source, state.name, own_findings=own_findings, suite=digest(rules))


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


def _fresh(rule: Rule, state: TableState, extent: _Extent, clock: Clock) -> Finding:
    """A table without changes is as fresh as its source, unless it has not applied what silver has."""
    ages = [extent.age] if extent.behind else [extent.age, clock.source_age(state.source)]
    age = min((a for a in ages if a is not None), default=None)
    if age is None or rule.limit is None:
        return Finding(rule, 0, 1, (state.name.dotted,), "no event yet")
    failed = int(age > rule.limit.total_seconds())
    keys = (state.name.dotted,) if failed else ()
    return Finding(
        rule,
        1,
        failed,
        keys,
        f"newest event {extent.newest} UTC",
        f"the source is {timedelta(seconds=age)} behind the clock",
    )


def _utc_text(moment: datetime | None) -> str | None:
    """A time in UTC as Spark writes it, without zeros at the end of its digits."""
    if moment is None:
        return None
    plain = moment.astimezone(UTC).replace(tzinfo=None)
    return plain.isoformat(sep=" ", timespec="microseconds").rstrip("0").rstrip(".")


def _format_moment(moment: datetime | None) -> str:
    return moment.isoformat(sep=" ") if moment else "an unknown time"
