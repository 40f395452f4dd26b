"""What silver is held against, as data, and the reconciliation that change data capture gives: every message has its fate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.config_quality import OnChange
from framework.contracts.actions import TableName
from framework.contracts.quality import MOST_KEYS, Severity
from framework.contracts.tables import CHANGES, MESSAGE_AT, QUARANTINE
from framework.layer import Run
from framework.quality.finding import Finding
from framework.quality.rules import Rule, digest, rule_of, told_apart
from framework.quality.subject import Past, Subject
from silver import change_rules
from silver.batch import MESSAGES_TABLE
from silver.derived import CHANGES_TABLE, COUNTS_SCHEMA, COUNTS_TABLE, PENDING_TABLE, QUARANTINE_TABLE
from silver.epochs import Halt, read_history
from silver.reconciliation import Ledger, place_text, reconciled

KINDS = (
    "row", "ddl", "truncate", "heartbeat", "transaction", "tombstone", "half", "duplicate", "quarantined", "excluded"
)  # fmt: skip
RULES = (
    *(Rule(f"not_null({name})", "not_null", (name,)) for name in (*MESSAGE_AT, "batch", "kind")),
    Rule("accepted(kind)", "accepted", ("kind",), values=KINDS),
    Rule("rows_are_whole", "sql", text="kind <> 'row' OR (change_id IS NOT NULL AND op IS NOT NULL AND `table` IS NOT NULL)"),
    Rule("rows_have_images", "sql", text="kind <> 'row' OR op = 'delete' OR `after` IS NOT NULL"),
)
QUARANTINED = Rule("nothing_quarantined", "quarantined", severity=Severity.WARN)
POSITIONS = Rule("positions_go_on", "positions")
WAITING = Rule("halves_that_wait", "waiting", severity=Severity.WARN)


def expectations(run: Run, past: Past) -> Sequence[Subject]:
    """The change table with its reconciliation, quarantine, waiting halves, and whether each source goes on and is fresh."""
    version = run.lake.version(run.spark, CHANGES_TABLE)
    if version is None:
        return ()
    quality = run.config.quality
    halts = read_history(run.spark, run.lake).halts()
    found = [_source(run, name, halts.get(name)) for name in sorted(run.config.sources) if quality.defaults or name in quality.sources]
    if quality.defaults or quality.reconciliation or change_rules.entries(quality, OnChange.WARN):
        found += [_changes(run, past, version)]
    if quality.defaults:
        found += [_quarantine(run), _pending(run)]
    return found


def _changes(run: Run, past: Past, version: int) -> Subject:
    lake, name = run.lake, TableName(None, None, "changes")
    quality = run.config.quality
    warnings = change_rules.entries(quality, OnChange.WARN)
    warned = tuple(replace(rule_of(e), kind="sql", columns=(), text=f"NOT _breaks_{i}") for i, e in enumerate(warnings))
    rules = told_apart(
        (*(RULES if quality.defaults else ()), *(replace(r, name=f"change {r.name}", severity=Severity.WARN) for r in warned))
    )
    suite = digest(rules, warnings, lake.version(run.spark, MESSAGES_TABLE), quality.reconciliation)
    plain = Subject("silver", None, name)
    shape = {rule.name for rule in RULES}
    has_failed = any(r.success is False and r.rule in shape for r in past.results.get(plain.place, ()))
    since = -1 if has_failed else past.batch(plain.place)
    new = F.sum(F.when(F.col("batch") > since, F.col("rows")))
    top = lake.rows(run.spark, COUNTS_TABLE, COUNTS_SCHEMA).agg(F.max("batch"), new).first()
    batch, size = (int(top[0]), int(top[1] or 0)) if top and top[0] is not None else (-1, 0)

    def rows(spark: SparkSession) -> DataFrame:
        changes = lake.read(spark, CHANGES_TABLE).where(F.col("batch") > since)
        return changes.select("*", *(change_rules.breaks(entry).alias(f"_breaks_{i}") for i, entry in enumerate(warnings)))

    def measured(spark: SparkSession) -> Sequence[Finding]:
        return reconciled(Ledger(spark, run, past, plain, since)) if quality.reconciliation else ()

    return Subject(
        "silver", None, name, rules, rows, (*MESSAGE_AT, "kind"), measured=measured, size=size, version=version, batch=batch, suite=suite
    )


def _quarantine(run: Run) -> Subject:
    def measured(spark: SparkSession) -> Sequence[Finding]:
        open_rows = run.lake.rows(spark, QUARANTINE_TABLE, QUARANTINE).where("NOT is_resolved")
        reasons = {row[0]: row[1] for row in open_rows.groupBy("reason").count().collect()}
        failed = sum(reasons.values())
        place = F.concat(place_text(), F.lit(": "), F.col("reason"))
        rows = open_rows.select(place.alias("key")).orderBy("key").limit(MOST_KEYS).collect() if failed else []
        observed = ", ".join(f"{reason}: {count:,}" for reason, count in sorted(reasons.items())) or "none"
        return (Finding(QUARANTINED, failed, failed, tuple(row[0] for row in rows), observed, "mainstem replay" if failed else None),)

    name = TableName(None, None, "quarantine")
    version = run.lake.version(run.spark, QUARANTINE_TABLE)
    return Subject("silver", None, name, measured=measured, version=version, suite=digest((QUARANTINED,)))


def _pending(run: Run) -> Subject:
    def measured(spark: SparkSession) -> Sequence[Finding]:
        age = F.max("event_time").cast("long") - F.min("event_time").cast("long")
        row = run.lake.rows(spark, PENDING_TABLE, CHANGES).agg(F.count("*"), age, F.min("event_time").cast("string")).first()
        count, oldest = (int(row[0]), row[2]) if row else (0, None)
        return (Finding(WAITING, count, 0, (), f"{count:,} halves wait" + (f", the oldest of {oldest} UTC" if count else "")),)

    name = TableName(None, None, "pending")
    version = run.lake.version(run.spark, PENDING_TABLE)
    return Subject("silver", None, name, measured=measured, version=version, suite=digest((WAITING,)))


def _source(run: Run, source: str, halt: Halt | None) -> Subject:
    """Whether the source goes on, and how new its newest event is; heartbeats count: one that has nothing to tell is idle, not stale."""
    limit = run.config.quality.freshness_of(source)
    fresh = Rule("freshness", "freshness", limit=limit)
    rules = (*((POSITIONS,) if run.config.quality.defaults else ()), *((fresh,) if limit else ()))

    def measured(spark: SparkSession) -> Sequence[Finding]:
        return [_positions(halt) if rule is POSITIONS else _fresh(spark, run, source, rule) for rule in rules]

    return Subject("source", source, None, measured=measured, suite=digest(rules))


def _positions(halt: Halt | None) -> Finding:
    """A position below an earlier one with a later time stops a source before anything is applied in a wrong order."""
    if halt is None:
        return Finding(POSITIONS, 0, 0, (), "no position has begun anew")
    keys = tuple(f"{stop.topic}/{stop.partition}/{stop.offset}: {stop.reason}" for stop in halt.stops)[:MOST_KEYS]
    return Finding(POSITIONS, 0, len(halt.stops), keys, f"stopped in epoch {halt.epoch}", halt.stops[0].detail)


def _fresh(spark: SparkSession, run: Run, source: str, rule: Rule) -> Finding:
    counts = run.lake.rows(spark, COUNTS_TABLE, COUNTS_SCHEMA).where(F.col("source") == source)
    age = F.unix_timestamp(F.current_timestamp()) - F.unix_timestamp(F.max("max_event_time"))
    row = counts.agg(age, F.max("max_event_time").cast("string")).first()
    if row is None or row[0] is None or rule.limit is None:
        return Finding(rule, 0, 1, (source,), "no event yet")
    failed = int(row[0] > rule.limit.total_seconds())
    keys = (source,) if failed else ()
    return Finding(rule, 1, failed, keys, f"newest event {row[1]} UTC", f"{timedelta(seconds=int(row[0]))} old")
