"""What silver is checked against: rules, reconciliation, quarantine, waiting halves, and the sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.config.quality import OnChange
from framework.contracts.ddl_actions import TableName
from framework.contracts.expectations import CheckTarget, Finding, PreviousResults, Rule
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
from framework.quality.rules import digest, rule_of, unique_by_name
from framework.text.formatting import quantity
from silver.batches import quality_rules
from silver.batches.batch_counts import COUNTS_SCHEMA
from silver.batches.landings import SourceEpochs, read_source_epochs
from silver.epochs.history import StoppedSource
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
    known = read_source_epochs(run.spark, run.lake, run.config)
    stopped_sources = known.history.stopped_sources()
    found = [
        _source(run, name, stopped_sources.get(name))
        for name in sorted(run.config.sources)
        if quality.defaults or name in quality.sources
    ]
    if quality.defaults or quality.reconciliation or quality_rules.change_rules(quality, OnChange.WARN):
        found += [_changes(run, past, version, known)]
    if quality.defaults:
        found += [_quarantine(run), _pending(run)]
    return found


def _changes(run: Run, past: PreviousResults, version: int, known: SourceEpochs) -> CheckTarget:
    lake, name = run.lake, TableName(None, None, "changes")
    quality = run.config.quality
    warnings = quality_rules.change_rules(quality, OnChange.WARN)
    warned = tuple(
        replace(rule_of(e), kind="sql", columns=(), text=f"NOT _breaks_{i}") for i, e in enumerate(warnings)
    )
    rules = unique_by_name(
        (
            *(RULES if quality.defaults else ()),
            *(replace(r, name=f"change {r.name}", severity=Severity.WARN) for r in warned),
        )
    )
    suite = digest(rules, warnings, lake.version(run.spark, MESSAGES_TABLE), quality.reconciliation)
    plain = CheckTarget("silver", None, name)
    shape = {rule.name for rule in RULES}
    has_failed = any(r.success is False and r.rule in shape for r in past.results.get(plain.id, ()))
    since = -1 if has_failed else past.batch(plain.id)
    new = F.sum(F.when(F.col("batch") > since, F.col("rows")))
    top = lake.rows(run.spark, BATCHES_TABLE, COUNTS_SCHEMA).agg(F.max("batch"), new).first()
    batch, size = (int(top[0]), int(top[1] or 0)) if top and top[0] is not None else (-1, 0)

    def rows(spark: SparkSession) -> DataFrame:
        changes = lake.read(spark, CHANGES_TABLE).where(F.col("batch") > since)
        return changes.select(
            "*", *(quality_rules.breaks(entry).alias(f"_breaks_{i}") for i, entry in enumerate(warnings))
        )

    def measured(spark: SparkSession) -> Sequence[Finding]:
        return reconciled(Ledger(spark, run, past, plain, since, known)) if quality.reconciliation else ()

    return CheckTarget(
        "silver",
        None,
        name,
        rules,
        rows,
        (*MESSAGE_AT, "kind"),
        own_findings=measured,
        size=size,
        version=version,
        batch=batch,
        suite=suite,
    )


def _quarantine(run: Run) -> CheckTarget:
    def measured(spark: SparkSession) -> Sequence[Finding]:
        open_rows = run.lake.rows(spark, QUARANTINE_TABLE, QUARANTINE).where("NOT is_resolved")
        reasons = {row[0]: row[1] for row in open_rows.groupBy("reason").count().collect()}
        failed = sum(reasons.values())
        place = F.concat(place_text(), F.lit(": "), F.col("reason"))
        rows = (
            open_rows.select(place.alias("key")).orderBy("key").limit(MOST_KEYS).collect() if failed else []
        )
        observed = ", ".join(f"{reason}: {count:,}" for reason, count in sorted(reasons.items())) or "none"
        return (
            Finding(
                QUARANTINED,
                failed,
                failed,
                tuple(row[0] for row in rows),
                observed,
                "mainstem replay" if failed else None,
            ),
        )

    name = TableName(None, None, "quarantine")
    version = run.lake.version(run.spark, QUARANTINE_TABLE)
    return CheckTarget(
        "silver", None, name, own_findings=measured, version=version, suite=digest((QUARANTINED,))
    )


def _pending(run: Run) -> CheckTarget:
    def measured(spark: SparkSession) -> Sequence[Finding]:
        age = F.max("event_time").cast("long") - F.min("event_time").cast("long")
        row = (
            run.lake.rows(spark, PENDING_TABLE, CHANGES)
            .agg(F.count("*"), age, F.min("event_time").cast("string"))
            .first()
        )
        count, oldest = (int(row[0]), row[2]) if row else (0, None)
        return (
            Finding(
                WAITING,
                count,
                0,
                (),
                quantity(count, "half waits", "halves wait")
                + (f", the oldest of {oldest} UTC" if count else ""),
            ),
        )

    name = TableName(None, None, "pending")
    version = run.lake.version(run.spark, PENDING_TABLE)
    return CheckTarget("silver", None, name, own_findings=measured, version=version, suite=digest((WAITING,)))


def _source(run: Run, source: str, stopped: StoppedSource | None) -> CheckTarget:
    """Whether the source goes on, and how new its newest event is.

    Heartbeats count, so an idle source is not stale.
    """
    limit = run.config.quality.freshness_of(source)
    fresh = Rule("freshness", "freshness", limit=limit)
    rules = (*((POSITIONS,) if run.config.quality.defaults else ()), *((fresh,) if limit else ()))

    def measured(spark: SparkSession) -> Sequence[Finding]:
        return [
            _positions(stopped) if rule is POSITIONS else _fresh(spark, run, source, rule) for rule in rules
        ]

    return CheckTarget("source", source, None, own_findings=measured, suite=digest(rules))


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


def _fresh(spark: SparkSession, run: Run, source: str, rule: Rule) -> Finding:
    counts = run.lake.rows(spark, BATCHES_TABLE, COUNTS_SCHEMA).where(F.col("source") == source)
    age = F.unix_timestamp(F.current_timestamp()) - F.unix_timestamp(F.max("max_event_time"))
    row = counts.agg(age, F.max("max_event_time").cast("string")).first()
    if row is None or row[0] is None or rule.limit is None:
        return Finding(rule, 0, 1, (source,), "no event yet")
    failed = int(row[0] > rule.limit.total_seconds())
    keys = (source,) if failed else ()
    return Finding(
        rule, 1, failed, keys, f"newest event {row[1]} UTC", f"{timedelta(seconds=int(row[0]))} old"
    )
