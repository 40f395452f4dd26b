"""What silver is checked against: rules, reconciliation, quarantine, waiting halves, and the sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.config.quality import OnChange
from framework.contracts import dismissals
from framework.contracts.ddl_actions import TableName
from framework.contracts.expectations import CheckTarget, Finding, KnownFindings, PreviousResults, Rule
from framework.contracts.quality import MOST_KEYS, Severity
from framework.contracts.table_names import (
    BATCHES_TABLE,
    CHANGES_TABLE,
    MESSAGES_TABLE,
    PENDING_TABLE,
    QUARANTINE_TABLE,
)
from framework.contracts.table_schemas import CHANGES, MESSAGE_AT, QUARANTINE
from framework.pipeline.layer import Run
from framework.quality.batch_log import BatchLog, age, batch_log, keep_batches, moment_text
from framework.quality.memory import memory_of
from framework.quality.rules import digest, rule_of
from framework.text.formatting import quantity
from silver.batches import quality_rules
from silver.batches.batch_counts import COUNTS_SCHEMA
from silver.batches.source_epochs import SourceEpochs, read_source_epochs
from silver.epochs.history import StoppedSource
from silver.operations.new_outcomes import known_findings
from silver.operations.reconciliation import Ledger, place_text, reconciled

KINDS = (
    "row", "ddl", "truncate", "heartbeat", "transaction", "tombstone", "half", "duplicate", "quarantined",
    "excluded",
)  # fmt: skip
RULES = (
    *(Rule(f"not_null({name})", "not_null", (name,)) for name in (*MESSAGE_AT, "batch", "kind")),
    Rule("accepted(kind)", "accepted", ("kind",), values=KINDS),
    Rule(
        "rows_are_whole",
        "sql",
        text="kind <> 'row' OR (change_id IS NOT NULL AND op IS NOT NULL AND `table` IS NOT NULL)",
    ),
    Rule("rows_have_images", "sql", text="kind <> 'row' OR op = 'delete' OR `after` IS NOT NULL"),
)
QUARANTINED = Rule("nothing_quarantined", "quarantined", severity=Severity.WARN)
POSITIONS = Rule("positions_go_on", "positions")
WAITING = Rule("halves_that_wait", "waiting", severity=Severity.WARN)


def expectations(run: Run, past: PreviousResults) -> Sequence[CheckTarget]:
    """The checks of the change table, quarantine and waiting halves, and of each source: stopped or stale."""
    version = run.lake.version(run.spark, CHANGES_TABLE)
    if version is None:
        return ()
    quality = run.config.quality
    known, log = read_source_epochs(run.spark, run.lake, run.config), batch_log(memory_of(run))
    stopped_sources = known.history.stopped_sources()
    found = [
        _source(run, name, stopped_sources.get(name), log)
        for name in sorted(run.config.sources)
        if quality.defaults or name in quality.sources
    ]
    if quality.defaults or quality.reconciliation or quality_rules.change_rules(quality, OnChange.WARN):
        found += [_changes(run, past, version, known, log)]
    if quality.defaults:
        found += [_quarantine(run), _pending(run)]
    return found


def _changes(
    run: Run, past: PreviousResults, version: int, known: SourceEpochs, log: BatchLog | None
) -> CheckTarget:
    lake, name = run.lake, TableName(None, None, "changes")
    quality = run.config.quality
    warnings = quality_rules.change_rules(quality, OnChange.WARN)
    named = {rule.name: rule for rule in map(rule_of, warnings)}
    warned = (
        Rule(f"change {name}", "sql", severity=Severity.WARN, text=f"NOT _breaks_{i}")
        for i, name in enumerate(named)
    )
    rules = (*(RULES if quality.defaults else ()), *warned)
    suite = digest(rules, warnings, lake.version(run.spark, MESSAGES_TABLE), quality.reconciliation)
    plain = CheckTarget("silver", None, name)
    shape = {rule.name for rule in RULES}
    has_failed = any(
        r.is_unmeasured or (r.success is False and r.rule in shape) for r in past.results.get(plain.id, ())
    )
    since = -1 if has_failed else past.batch(plain.id)
    memory = memory_of(run)
    batch, size = _extent(run, since, log)
    marks = {table: memory.table(table) for table in (MESSAGES_TABLE, CHANGES_TABLE)}
    reads = {table: found.mark for table, found in marks.items() if found is not None}

    def rows(spark: SparkSession) -> DataFrame:
        changes = lake.read(spark, CHANGES_TABLE).where(F.col("batch") > since)
        broken = quality_rules.breaks_by_name(warnings)
        return changes.select("*", *(broken[name].alias(f"_breaks_{i}") for i, name in enumerate(named)))

    def measured(spark: SparkSession) -> Sequence[Finding]:
        if not quality.reconciliation:
            return ()
        return reconciled(Ledger(spark, run, past, replace(plain, size=size), since, known))

    target = CheckTarget(
        "silver",
        None,
        name,
        rules,
        rows,
        (*MESSAGE_AT, "kind"),
        own_findings=measured,
        reads=reads if len(reads) == len(marks) else {},
        size=size,
        version=version,
        batch=batch,
        suite=suite,
    )

    def known_of_all() -> KnownFindings | None:
        findings = known_findings(memory, target, known, log, RULES if since >= 0 or memory.is_first else ())
        return None if findings is None else KnownFindings(findings)

    return replace(target, known_findings=known_of_all)


def _extent(run: Run, since: int, log: BatchLog | None) -> tuple[int, int]:
    """The newest batch, and how many rows of the change table are after the batch `since`, or about that."""
    if log is None:
        new = F.sum(F.when(F.col("batch") > since, F.col("rows")))
        counts = run.lake.rows(run.spark, BATCHES_TABLE, COUNTS_SCHEMA)
        top = counts.agg(F.max("batch"), new, F.sum("rows")).first()
        if top is None or top[0] is None:
            return -1, 0
        keep_batches(memory_of(run), int(top[0]), int(top[2]))
        return int(top[0]), int(top[1] or 0)
    if log.extents is None:
        keep_batches(memory_of(run), log.top, log.rows)
    return log.top, log.rows if since < 0 else sum(row["rows"] for row in log.new if row["batch"] > since)


def _quarantine(run: Run) -> CheckTarget:
    name = TableName(None, None, "quarantine")
    version = run.lake.version(run.spark, QUARANTINE_TABLE)
    target = CheckTarget("silver", None, name, version=version, suite=digest((QUARANTINED,)))
    if version is None or run.lake.is_empty_by_log(run.spark, QUARANTINE_TABLE):
        return replace(target, known_findings=lambda: KnownFindings([_quarantined({}, ())]))

    def measured(spark: SparkSession) -> Sequence[Finding]:
        open_rows = run.lake.rows(spark, QUARANTINE_TABLE, QUARANTINE).where(dismissals.IS_OPEN)
        reasons = {row[0]: row[1] for row in open_rows.groupBy("reason").count().collect()}
        place = F.concat(place_text(), F.lit(": "), F.col("reason"))
        keys = open_rows.select(place.alias("key")).orderBy("key").limit(MOST_KEYS)
        return [_quarantined(reasons, [row[0] for row in keys.collect()] if reasons else ())]

    return replace(target, own_findings=measured)


def _quarantined(reasons: Mapping[str, int], keys: Sequence[str]) -> Finding:
    failed = sum(reasons.values())
    observed = ", ".join(f"{reason}: {count:,}" for reason, count in sorted(reasons.items())) or "none"
    action = "mainstem replay, or mainstem dismiss" if failed else None
    return Finding(QUARANTINED, failed, failed, tuple(keys), observed, action)


def _pending(run: Run) -> CheckTarget:
    name = TableName(None, None, "pending")
    version = run.lake.version(run.spark, PENDING_TABLE)
    target = CheckTarget("silver", None, name, version=version, suite=digest((WAITING,)))
    if version is None or run.lake.is_empty_by_log(run.spark, PENDING_TABLE):
        return replace(target, known_findings=lambda: KnownFindings([_waiting(0, None)]))

    def measured(spark: SparkSession) -> Sequence[Finding]:
        halves = run.lake.rows(spark, PENDING_TABLE, CHANGES)
        row = halves.agg(F.count("*"), F.min("event_time").cast("string")).first()
        return [_waiting(int(row[0]), row[1]) if row else _waiting(0, None)]

    return replace(target, own_findings=measured)


def _waiting(count: int, oldest: str | None) -> Finding:
    since = f", the oldest of {oldest} UTC" if count else ""
    return Finding(WAITING, count, 0, (), quantity(count, "half waits", "halves wait") + since)


def _source(run: Run, source: str, stopped: StoppedSource | None, log: BatchLog | None) -> CheckTarget:
    """Whether the source goes on, and how new its newest event is.

    Heartbeats count, so an idle source is not stale.
    """
    limit = run.config.quality.freshness_of(source)
    fresh = Rule("freshness", "freshness", limit=limit)
    rules = (*((POSITIONS,) if run.config.quality.defaults else ()), *((fresh,) if limit else ()))

    def found(newest: int | None) -> list[Finding]:
        return [_positions(stopped) if rule is POSITIONS else _fresh(newest, source, rule) for rule in rules]

    def known() -> KnownFindings | None:
        if limit and (log is None or log.extents is None):
            return None
        return KnownFindings(found(log.newest_event(source) if limit and log else None))

    def measured(_: SparkSession) -> list[Finding]:
        counts = run.lake.rows(run.spark, BATCHES_TABLE, COUNTS_SCHEMA).where(F.col("source") == source)
        row = counts.agg(F.unix_micros(F.max("max_event_time"))).first()
        return found(row[0] if row else None)

    return CheckTarget(
        "source", source, None, own_findings=measured, known_findings=known, suite=digest(rules)
    )


def _positions(stopped: StoppedSource | None) -> Finding:
    """The stops of the source: a position below an earlier one, with a later time, stops it."""
    if stopped is None:
        return Finding(POSITIONS, 0, 0, (), "no position has begun anew")
    keys = tuple(f"{stop.topic}/{stop.partition}/{stop.offset}: {stop.reason}" for stop in stopped.stops)[
        :MOST_KEYS
    ]
    return Finding(
        POSITIONS, 0, len(stopped.stops), keys, f"stopped in epoch {stopped.epoch}", stopped.stops[0].detail
    )


def _fresh(newest: int | None, source: str, rule: Rule) -> Finding:
    if newest is None or rule.limit is None:
        return Finding(rule, 0, 1, (source,), "no event yet")
    seconds = age(newest, datetime.now(UTC))
    failed = int(seconds > rule.limit.total_seconds())
    keys = (source,) if failed else ()
    observed = f"newest event {moment_text(newest)} UTC"
    return Finding(rule, 1, failed, keys, observed, f"{timedelta(seconds=seconds)} old")
