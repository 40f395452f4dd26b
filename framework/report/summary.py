"""Draws conclusions from a report's records: totals, facts of tables and sources, findings. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from framework.contracts.events import KINDS_OF_PAIRS
from framework.report.model import OutcomeCount, Report, Stop, Table, TableKey, Waiting
from framework.text.formatting import quantity

CONTROL_KINDS = ("ddl", "truncate", "heartbeat", "transaction", "tombstone")
APPLIED_KINDS = ("row", "ddl", "truncate")


@dataclass(frozen=True, slots=True)
class Totals:
    """The pipeline in numbers.

    `merged` counts the halves that became changes; `rows` is None if unknown. `messages` are `changes`,
    `control_events`, `duplicates`, `waiting`, `quarantined`, `dismissed`, `excluded`, `merged_halves` (those
    that are part of another message's change), `key_change_halves` and those `without_fate`, less the
    `further_rows` of messages that hold several.
    """

    messages: int | None
    changes: int
    merged: int
    control_events: int
    duplicates: int
    halves: int
    waiting: int
    quarantined: int
    excluded: int
    rows: int | None
    bad_values: int
    late: int
    checks_failed: int
    checks_warned: int
    checks_passed: int
    checks_unjudged: int
    merged_halves: int = 0
    key_change_halves: int = 0
    further_rows: int = 0
    without_fate: int = 0
    dismissed: int = 0


@dataclass(frozen=True, slots=True)
class TableFacts:
    """One table with all known facts. `behind` counts silver batches that gold has not applied."""

    table: Table
    changes: int
    duplicates: int
    waiting: int
    bad_values: int
    behind: int


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """One source.

    `events` are rows of silver of any kind; `age` is the time since the newest event, and `delay` that from
    the newest event to its landing. `is_configured` is False for one that the configuration does not name any
    more.
    """

    name: str
    format: str
    reads: str
    is_configured: bool
    events: int
    changes: int
    quarantined: int
    waiting: int
    waiting_since: datetime | None
    newest_event_at: datetime | None
    newest_ingest_at: datetime | None
    age: timedelta | None
    delay: timedelta | None
    stop: Stop | None


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a reader must know; `section` is the part of the page with the details."""

    level: str
    text: str
    section: str


def parts(report: Report) -> Counter[tuple[str, str]]:
    """The number of messages of each source with each outcome, with their further rows.

    The outcomes are row, merged (part of another message's change), control, duplicate, waiting, quarantined,
    dismissed, excluded and key (the delete half of a key change).
    """
    found: Counter[tuple[str, str]] = Counter()
    for outcome in report.outcomes:
        kind = "control" if outcome.kind in CONTROL_KINDS else outcome.kind
        if kind in ("row", "control", "duplicate", "excluded"):
            found[outcome.table_key.source, kind] += outcome.rows
        if kind in KINDS_OF_PAIRS:
            found[outcome.table_key.source, "merged"] += outcome.merged
    for waiting in report.waiting:
        found[waiting.table_key.source, "waiting"] += waiting.rows
    for refusal in report.refusals:
        found[refusal.source, "quarantined"] += refusal.rows
    for dismissed in report.dismissed:
        found[dismissed.source, "dismissed"] += dismissed.rows
    for account in report.accounts:
        found[account.source, "key"] += account.key_halves
    return +found


def unaccounted(report: Report) -> int | None:
    """How many messages are without an outcome (below zero: too few messages); None if that is unknown."""
    return None if report.messages is None else report.messages - parts(report).total() + _further(report)


def _further(report: Report) -> int:
    return sum(account.further for account in report.accounts)


def totals(report: Report) -> Totals:
    """The sums over all tables and sources."""
    kinds: Counter[str] = Counter()
    for outcome in report.outcomes:
        kinds[outcome.kind] += outcome.rows
    counted = [table.rows for table in report.tables if table.replica is not None]
    checks = _check_counts(report)
    return Totals(
        messages=report.messages,
        changes=kinds["row"],
        merged=2 * sum(outcome.merged for outcome in report.outcomes if outcome.kind == "row"),
        control_events=sum(kinds[kind] for kind in CONTROL_KINDS),
        duplicates=kinds["duplicate"],
        halves=kinds["half"],
        waiting=sum(waiting.rows for waiting in report.waiting),
        quarantined=sum(refusal.rows for refusal in report.refusals),
        excluded=kinds["excluded"],
        rows=None if any(rows is None for rows in counted) else sum(rows or 0 for rows in counted),
        bad_values=_bad_values(report).total(),
        late=sum(table.late for table in report.tables),
        checks_failed=checks[False, True],
        checks_warned=checks[False, False],
        checks_passed=checks[True, True] + checks[True, False],
        checks_unjudged=checks[None, True] + checks[None, False],
        merged_halves=sum(outcome.merged for outcome in report.outcomes if outcome.kind in KINDS_OF_PAIRS),
        key_change_halves=sum(account.key_halves for account in report.accounts),
        further_rows=_further(report),
        without_fate=max(unaccounted(report) or 0, 0),
        dismissed=sum(dismissed.rows for dismissed in report.dismissed),
    )


def _check_counts(report: Report) -> Counter[tuple[bool | None, bool]]:
    """The number of checks by their outcome, and by whether they are of severity error."""
    found = Counter((check.success, check.severity == "error") for check in report.checks or ())
    for more in report.more_checks:
        found[more.success, more.severity == "error"] += more.rows
    return found


def _bad_values(report: Report) -> Counter[TableKey]:
    """The number of bad cells of each table."""
    found: Counter[TableKey] = Counter()
    for group in report.bad_values:
        found[group.table_key] += group.rows
    for more in report.more_bad_values:
        found[more.table_key] += more.rows
    return found


def table_facts(report: Report) -> list[TableFacts]:
    """The facts of each table: parked ones first, then by name."""
    outcomes: dict[object, list[OutcomeCount]] = defaultdict(list)
    for outcome in report.outcomes:
        outcomes[outcome.table_key].append(outcome)
    waiting = {w.table_key: w.rows for w in report.waiting}
    bad = _bad_values(report)
    lines = []
    for table in report.tables:
        mine = outcomes[table.table_key]
        batches = {batch for outcome in mine if outcome.kind in APPLIED_KINDS for batch in outcome.batches}
        lines.append(
            TableFacts(
                table=table,
                changes=sum(outcome.rows for outcome in mine if outcome.kind == "row"),
                duplicates=sum(outcome.rows for outcome in mine if outcome.kind == "duplicate"),
                waiting=waiting.get(table.table_key, 0),
                bad_values=bad[table.table_key],
                behind=sum(batch > table.batch for batch in batches),
            )
        )
    order = {"parked": 0, "dropped": 2}
    return sorted(
        lines,
        key=lambda f: (
            order.get(f.table.state, 1),
            f.table.table_key.name.casefold(),
            f.table.table_key.source,
        ),
    )


def source_facts(report: Report) -> list[SourceFacts]:
    """The facts of each source, stopped ones first."""
    configured = {source.name: source for source in report.sources}
    names = set(configured) | {outcome.table_key.source for outcome in report.outcomes}
    stops = {stop.source: stop for stop in reversed(report.stops)}
    outcomes, waiting = defaultdict[str, list[OutcomeCount]](list), defaultdict[str, list[Waiting]](list)
    for outcome in report.outcomes:
        outcomes[outcome.table_key.source].append(outcome)
    for half in report.waiting:
        waiting[half.table_key.source].append(half)
    refused = Counter[str]()
    for refusal in report.refusals:
        refused[refusal.source] += refusal.rows
    lines = []
    for name in names:
        mine, halves = outcomes[name], waiting[name]
        event_at = max((f.newest_event_at for f in mine if f.newest_event_at is not None), default=None)
        ingest_at = max((f.newest_ingest_at for f in mine if f.newest_ingest_at is not None), default=None)
        source = configured.get(name)
        lines.append(
            SourceFacts(
                name=name,
                format=source.format if source else "",
                reads=source.reads if source else "",
                is_configured=source is not None,
                events=sum(outcome.rows for outcome in mine),
                changes=sum(outcome.rows for outcome in mine if outcome.kind == "row"),
                quarantined=refused[name],
                waiting=sum(w.rows for w in halves),
                waiting_since=_oldest(halves),
                newest_event_at=event_at,
                newest_ingest_at=ingest_at,
                age=None if event_at is None else report.generated_at - event_at,
                delay=None if event_at is None or ingest_at is None else ingest_at - event_at,
                stop=stops.get(name),
            )
        )
    return sorted(lines, key=lambda s: (s.stop is None, s.name.casefold()))


def _oldest(halves: list[Waiting]) -> datetime | None:
    return min((half.oldest_at for half in halves if half.oldest_at is not None), default=None)


def findings(report: Report) -> list[Finding]:
    """What needs attention, the worst first; empty for a healthy pipeline."""
    return sorted(_findings(report), key=lambda finding: finding.level != "fail")


def level(report: Report) -> str:
    """The verdict: fail, warn, ok, or empty for a pipeline that has done nothing yet."""
    found = findings(report)
    if found:
        return found[0].level
    return "ok" if report.runs or report.outcomes else "empty"


def _findings(report: Report) -> Iterator[Finding]:
    sums = totals(report)
    if report.runs and report.runs[0].errors:
        yield Finding(
            "fail", f"the last run ended with {quantity(len(report.runs[0].errors), 'error')}", "runs"
        )
    parked = [table.table_key.name for table in report.tables if table.state == "parked"]
    if parked:
        names = ", ".join(parked[:3]) + (f" and {len(parked) - 3:,} more" if len(parked) > 3 else "")
        yield Finding("fail", f"{quantity(len(parked), 'table')} parked: {names}", "tables")
    for stop in report.stops:
        why = f"SOURCE_RESET, {stop.reason}; `mainstem status` says what to do"
        yield Finding("fail", f"source {stop.source} has stopped: {why}", "freshness")
    if sums.checks_failed:
        yield Finding(
            "fail", f"{quantity(sums.checks_failed, 'quality check')} of severity error failed", "quality"
        )
    if sums.checks_warned:
        yield Finding(
            "warn", f"{quantity(sums.checks_warned, 'quality check')} of severity warn failed", "quality"
        )
    if sums.checks_unjudged:
        yield Finding(
            "warn", f"{quantity(sums.checks_unjudged, 'quality check')} could not be judged", "quality"
        )
    if sums.quarantined:
        yield Finding("warn", f"{quantity(sums.quarantined, 'message')} in quarantine", "quarantine")
    if sums.bad_values:
        told = f"{quantity(sums.bad_values, 'value')} of changes did not fit since the last rebuild"
        yield Finding("warn", told, "bad-values")
    behind = sum(line.behind > 0 and line.table.state != "parked" for line in table_facts(report))
    if behind:
        yield Finding("warn", f"{quantity(behind, 'table')} behind silver", "tables")
