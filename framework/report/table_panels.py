"""The panel of each table: its columns, checks, trend, last changes, and the command that traces a row. Pure.

A page shows the tables that need attention first; what it leaves out is counted, and is in the report's JSON.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from framework.contracts.quality import QualityResult
from framework.report.model import (
    BadValues,
    CheckCount,
    Column,
    PastRun,
    Report,
    SchemaChange,
    Table,
    TableResult,
)
from framework.report.summary import TableFacts, table_facts
from framework.report.trend_layout import Trend, applied_trend
from framework.text import row_trace

MOST_TABLES = 1_000
MOST_PANELS = 200
_MOST_COLUMNS = 100
_MOST_RUNS = 5
_MOST_SCHEMA_CHANGES = 5
_MOST_BARS = 20
_MOST_PASSED = 20
_PLAIN = re.compile(r"[A-Za-z0-9_.-]+")
_LONG_AGO = datetime.min.replace(tzinfo=UTC)

Subject = tuple[str | None, str | None, str | None, str | None]
"""Source, database, schema and table."""


@dataclass(frozen=True, slots=True)
class RunChange:
    """What one run did to a table."""

    finished_at: datetime
    result: TableResult


@dataclass(frozen=True, slots=True)
class Panel:
    """All that the page shows of one table. The numbers named `more_…` count what the panel leaves out."""

    anchor: str
    facts: TableFacts
    columns: tuple[Column, ...]
    more_columns: int
    failed: tuple[QualityResult, ...]
    more_failed: int
    passed: tuple[QualityResult, ...]
    more_passed: int
    trend: Trend | None
    runs: tuple[RunChange, ...]
    schema_changes: tuple[SchemaChange, ...]
    bad_values: tuple[BadValues, ...]
    trace: str | None


@dataclass(frozen=True, slots=True)
class ShownTables:
    """The tables of a page in their order, with their panels; `more` are the tables that it leaves out."""

    tables: tuple[TableFacts, ...]
    panels: tuple[Panel, ...]
    more: int


def shown_tables(report: Report) -> ShownTables:
    """The tables that the page shows, at most MOST_TABLES, and the panels of at most MOST_PANELS of them."""
    facts = table_facts(report)
    checks = _checks_by_table(report)

    def urgency(line: TableFacts) -> tuple[bool, bool, bool, float]:
        mine = checks[_subject(line.table)]
        return (
            line.table.state != "parked",
            all(check.success for check in mine.listed) and all(more.success for more in mine.more),
            not (line.behind or line.bad_values or line.waiting),
            -(line.table.event_time or _LONG_AGO).timestamp(),
        )

    urgent = sorted(range(len(facts)), key=lambda at: urgency(facts[at]))
    shown = [facts[at] for at in sorted(urgent[:MOST_TABLES])]
    detailed = [facts[at] for at in sorted(urgent[:MOST_PANELS])]
    names = Counter(line.table.table_key.name for line in detailed)
    runs = _runs_by_table(report.runs, names)
    anchors: set[str] = set()
    panels = tuple(
        _panel(report, line, _anchor(line.table, names, anchors), checks[_subject(line.table)], runs)
        for line in detailed
    )
    return ShownTables(tuple(shown), panels, len(facts) - len(shown))


@dataclass(frozen=True, slots=True)
class _Checks:
    """The newest checks of a table, and how many the report's list leaves out."""

    listed: list[QualityResult] = field(default_factory=list)
    more: list[CheckCount] = field(default_factory=list)


def _checks_by_table(report: Report) -> defaultdict[Subject, _Checks]:
    found: defaultdict[Subject, _Checks] = defaultdict(_Checks)
    for check in report.checks or ():
        if _is_of_table(check):
            found[check.source, check.database, check.schema, check.table].listed.append(check)
    for more in report.more_checks:
        if _is_of_table(more):
            found[more.source, more.database, more.schema, more.table].more.append(more)
    return found


def _is_of_table(check: QualityResult | CheckCount) -> bool:
    return check.layer == "gold" or check.database is not None


def _panel(
    report: Report,
    facts: TableFacts,
    anchor: str,
    checks: _Checks,
    runs: dict[str, list[RunChange]],
) -> Panel:
    table = facts.table
    mine = runs.get(table.table_key.name, [])
    passed = [check for check in checks.listed if check.success]
    more_passed = sum(more.rows for more in checks.more if more.success)
    of_table = (change for change in report.schema_changes if change.table_key == table.table_key)
    return Panel(
        anchor,
        facts,
        table.columns[:_MOST_COLUMNS],
        max(table.column_count - _MOST_COLUMNS, 0) if table.columns else 0,
        tuple(check for check in checks.listed if not check.success),
        sum(more.rows for more in checks.more) - more_passed,
        tuple(passed[:_MOST_PASSED]),
        max(len(passed) - _MOST_PASSED, 0) + more_passed,
        applied_trend([(run.finished_at, _rows(run.result)) for run in mine[:_MOST_BARS]]),
        tuple(mine[:_MOST_RUNS]),
        tuple(change for _, change in zip(range(_MOST_SCHEMA_CHANGES), of_table, strict=False)),
        tuple(bad for bad in report.bad_values if bad.table_key == table.table_key),
        trace_command(table, checks.listed),
    )


def trace_command(table: Table, checks: Iterable[QualityResult] = ()) -> str | None:
    """The command that shows the life of a row: a row that fails a check, else any, for the reader to name.

    None for a table without columns.
    """
    names = table.keys or tuple(column.name for column in table.columns[:1])
    texts = (key for check in checks if check.success is False for key in check.failing_keys)
    kinds = {column.name: column.type for column in table.columns}
    return row_trace.trace_command(table.table_key.name, names, texts, kinds)


def _runs_by_table(runs: Sequence[PastRun], names: Iterable[str]) -> dict[str, list[RunChange]]:
    """What the runs did to tables of these names, newest first, without runs that did nothing to them."""
    found: dict[str, list[RunChange]] = {name: [] for name in names}
    for run in runs:
        for result in run.tables:
            if result.name in found and (_rows(result) or result.notes or result.state != "ok"):
                found[result.name].append(RunChange(run.finished_at, result))
    return found


def _rows(result: TableResult) -> int:
    return result.inserted + result.updated + result.deleted


def _subject(table: Table) -> Subject:
    key = table.table_key
    return key.source, key.database, key.schema, key.table


def _anchor(table: Table, names: Counter[str], taken: set[str]) -> str:
    """A name for links to the panel: `table-shop.orders`, with the source where two have such a table."""
    name = table.table_key.name
    parts = [table.table_key.source, name] if names[name] > 1 else [name]
    whole = "-".join(parts)
    anchor = f"table-{whole if _PLAIN.fullmatch(whole) else '-'.join(_PLAIN.findall(whole))}"
    found, at = anchor, 2
    while found in taken:
        found, at = f"{anchor}-{at}", at + 1
    taken.add(found)
    return found
