"""What silver is held against, as data, and the reconciliation that change data capture gives: every message has its fate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.config import Layout
from framework.config_quality import OnChange
from framework.contracts.actions import TableName
from framework.contracts.quality import MOST_KEYS, Severity
from framework.contracts.tables import MESSAGE_AT, QUARANTINE
from framework.layer import Run
from framework.quality.finding import Finding
from framework.quality.rules import Rule, digest, rule_of, told_apart
from framework.quality.subject import Past, Subject
from silver import change_rules
from silver.batch import MESSAGES_TABLE
from silver.derived import CHANGES_TABLE, COUNTS_SCHEMA, COUNTS_TABLE, PENDING_TABLE, QUARANTINE_TABLE
from silver.epochs import read_history

KINDS = (
    "row", "ddl", "truncate", "heartbeat", "transaction", "tombstone", "half", "duplicate", "quarantined", "excluded"
)  # fmt: skip
RULES = (
    *(Rule(f"not_null({name})", "not_null", (name,)) for name in (*MESSAGE_AT, "batch", "kind")),
    Rule("accepted(kind)", "accepted", ("kind",), values=KINDS),
    Rule("rows_are_whole", "sql", text="kind <> 'row' OR (change_id IS NOT NULL AND op IS NOT NULL AND `table` IS NOT NULL)"),
    Rule("rows_have_images", "sql", text="kind <> 'row' OR op = 'delete' OR `after` IS NOT NULL"),
)
ACCOUNTED = Rule("every_message_has_a_fate", "accounted")
TRACEABLE = Rule("every_fate_has_its_message", "traceable")
ONCE = Rule("every_message_once", "accounted")
GAPS = Rule("offsets_without_gaps", "offset_gaps", severity=Severity.WARN)
TRANSACTIONS = Rule("transactions_complete", "transactions", severity=Severity.WARN)
QUARANTINED = Rule("nothing_quarantined", "quarantined", severity=Severity.WARN)
WAITING = Rule("halves_that_wait", "waiting", severity=Severity.WARN)


def expectations(run: Run, past: Past) -> Sequence[Subject]:
    """The change table with its reconciliation, quarantine, waiting halves, and each source's freshness."""
    version = run.lake.version(run.spark, CHANGES_TABLE)
    if version is None:
        return ()
    quality = run.config.quality
    found = [_freshness(run, source, limit) for source, limit in sorted(quality.sources.items()) if source in run.config.sources]
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

    def reconciled(spark: SparkSession) -> Sequence[Finding]:
        return _reconciled(_Ledger(spark, run, past, plain, since)) if quality.reconciliation else ()

    return Subject(
        "silver", None, name, rules, rows, (*MESSAGE_AT, "kind"), measured=reconciled, size=size, version=version, batch=batch, suite=suite
    )


@dataclass(frozen=True, slots=True)
class _Ledger:
    """What is reconciled: the messages and fates since `since`, or all of them."""

    spark: SparkSession
    run: Run
    past: Past
    subject: Subject
    since: int

    def messages(self) -> DataFrame:
        """All messages of configured sources that do not stand still."""
        stopped = list(read_history(self.spark, self.run.lake).halts())
        read = self.run.lake.read(self.spark, MESSAGES_TABLE)
        return read.where(F.col("source").isin(*self.run.config.sources) & ~F.col("source").isin(*stopped))

    def fates(self) -> DataFrame:
        """The coordinates that fates speak of, once each."""
        changes = self.run.lake.read(self.spark, CHANGES_TABLE)
        if self.since >= 0:
            changes = changes.where(F.col("batch") > self.since)
        met = changes.where("paired_with IS NOT NULL").select("source", "paired_with.*")
        return changes.select(*MESSAGE_AT).unionByName(met).distinct()


def _reconciled(ledger: _Ledger) -> list[Finding]:
    """Messages without a fate, fates without a message, messages landed twice, gaps between offsets, open transactions.

    Looks at what is new; at everything where the totals do not add up.
    """
    spark, lake = ledger.spark, ledger.run.lake
    total = lake.read(spark, MESSAGES_TABLE).count()
    last = ledger.past.of(ledger.subject.place, ACCOUNTED.name)
    started = ledger.past.started_at(ledger.subject.place)
    everything = _Ledger(spark, ledger.run, ledger.past, ledger.subject, -1)
    known = ledger.past.results.get(ledger.subject.place, ())
    if last is None or started is None or any(not r.success for r in known if r.kind in (ACCOUNTED.kind, TRACEABLE.kind)):
        return _compared(everything, ledger.messages(), total)
    fresh = lake.read(spark, MESSAGES_TABLE).where(F.col("ingested_at") >= F.lit(started))
    fates = lake.rows(spark, COUNTS_TABLE, COUNTS_SCHEMA).agg(F.sum("rows")).first()
    is_even = last.checked_count + fresh.count() == total and fates is not None and fates[0] == lake.read(spark, CHANGES_TABLE).count()
    if not is_even:
        return _compared(everything, ledger.messages(), total)
    return _compared(ledger, ledger.messages().where(F.col("ingested_at") >= F.lit(started)), total)


def _compared(ledger: _Ledger, messages: DataFrame, total: int) -> list[Finding]:
    landed = messages.groupBy(*MESSAGE_AT).count().withColumn("is_landed", F.lit(True))
    both = landed.join(ledger.fates().withColumn("has_fate", F.lit(True)), list(MESSAGE_AT), "full_outer")
    lost, unknown = F.col("has_fate").isNull(), F.col("is_landed").isNull()
    row = both.agg(F.count_if(lost), F.count_if(unknown), F.count_if(_is_twice(ledger)), F.count("is_landed")).first()
    lost_count, unknown_count, twice_count, seen = (int(row[i]) for i in range(4)) if row else (0, 0, 0, 0)
    lost_rows, unknown_rows = both.where(lost), both.where(unknown)
    if lost_count and ledger.since >= 0:  # older messages may have had their fates before
        ever = _Ledger(ledger.spark, ledger.run, ledger.past, ledger.subject, -1)
        lost_rows = lost_rows.join(ever.fates(), list(MESSAGE_AT), "left_anti")
        lost_count = lost_rows.count()
    if unknown_count:  # messages of earlier runs that were taken up again, and those of sources that stand still
        everything = ledger.run.lake.read(ledger.spark, MESSAGES_TABLE).select(*MESSAGE_AT)
        unknown_rows = unknown_rows.join(everything, list(MESSAGE_AT), "left_anti")
        unknown_count = unknown_rows.count()
    return [
        Finding(ACCOUNTED, total, lost_count, _coordinates(lost_rows, lost_count), f"{seen:,} messages, {lost_count:,} without a fate"),
        Finding(TRACEABLE, seen, unknown_count, _coordinates(unknown_rows, unknown_count), f"{unknown_count:,} fates without a message"),
        Finding(
            ONCE, seen, twice_count, _coordinates(both.where(_is_twice(ledger)), twice_count), f"{twice_count:,} coordinates landed twice"
        ),
        _gaps(landed, ledger),
        *_transactions(ledger),
    ]


def _is_twice(ledger: _Ledger) -> Column:
    """Coordinates that landed more than once where that is a fault.

    Dumps of layout `kcat` may overlap, and a source in a later epoch may number its messages anew.
    """
    told = [name for name, source in ledger.run.config.sources.items() if source.layout is Layout.KCAT or source.epoch > 1]
    return (F.col("count") > 1) & ~F.col("source").isin(*told)


def _gaps(landed: DataFrame, ledger: _Ledger) -> Finding:
    """Offsets of a broker's partition that no message has; of files an empty line has a number and is no message."""
    kafka = [name for name, source in ledger.run.config.sources.items() if source.kafka is not None]
    if not kafka:
        return Finding(GAPS, 0, 0, (), "no source has a broker's offsets")
    spans = landed.where(F.col("source").isin(*kafka)).groupBy("source", "topic", "partition")
    gaps = spans.agg((F.max("offset") - F.min("offset") + 1 - F.count("*")).alias("gap"), F.count("*").alias("n")).collect()
    failed = sum(row["gap"] for row in gaps)
    keys = tuple(sorted(f"{r['source']}/{r['topic']}/{r['partition']}: {r['gap']}" for r in gaps if r["gap"]))[:MOST_KEYS]
    detail = "compacted topics and transactions of producers leave gaps too" if failed else None
    return Finding(GAPS, sum(row["n"] for row in gaps), failed, keys, f"{failed:,} offsets without a message", detail)


def _transactions(ledger: _Ledger) -> list[Finding]:
    """Transactions whose END counts more changes than silver holds; none where the feed has no such messages."""
    counts = ledger.run.lake.rows(ledger.spark, COUNTS_TABLE, COUNTS_SCHEMA)
    if counts.where(F.col("batch").__gt__(ledger.since) & (F.col("kind") == "transaction")).isEmpty():
        return []
    changes = ledger.run.lake.read(ledger.spark, CHANGES_TABLE)
    ends = changes.where((F.col("batch") > ledger.since) & (F.col("kind") == "transaction")).select(*MESSAGE_AT, "transaction_id")
    raw = ledger.run.lake.read(ledger.spark, MESSAGES_TABLE).select(*MESSAGE_AT, F.col("value").cast("string").alias("text"))
    count = F.coalesce(F.get_json_object("text", "$.event_count"), F.get_json_object("text", "$.payload.event_count")).try_cast("bigint")
    told = ends.join(raw, list(MESSAGE_AT)).select("source", "transaction_id", count.alias("told")).where("told IS NOT NULL").distinct()
    fates = changes.where("transaction_id IS NOT NULL AND kind <> 'transaction'").groupBy("source", "transaction_id")
    held = fates.agg(F.count_distinct("topic", "partition", "offset", "ordinal").alias("held"))
    short = told.join(held, ["source", "transaction_id"], "left").select("*", F.coalesce("held", F.lit(0)).alias("n"))
    open_rows = short.where("n < told")
    failed = open_rows.count()
    rows = open_rows.orderBy("source", "transaction_id").limit(MOST_KEYS).collect() if failed else []
    keys = tuple(f"{row['source']}/{row['transaction_id']}: {row['n']} of {row['told']}" for row in rows)
    return [Finding(TRANSACTIONS, told.count(), failed, keys, f"{failed:,} transactions lack changes")]


def _quarantine(run: Run) -> Subject:
    def measured(spark: SparkSession) -> Sequence[Finding]:
        open_rows = run.lake.rows(spark, QUARANTINE_TABLE, QUARANTINE).where("NOT is_resolved")
        reasons = {row[0]: row[1] for row in open_rows.groupBy("reason").count().collect()}
        failed = sum(reasons.values())
        place = F.concat(_place(), F.lit(": "), F.col("reason"))
        rows = open_rows.select(place.alias("key")).orderBy("key").limit(MOST_KEYS).collect() if failed else []
        observed = ", ".join(f"{reason}: {count:,}" for reason, count in sorted(reasons.items())) or "none"
        return (Finding(QUARANTINED, failed, failed, tuple(row[0] for row in rows), observed, "mainstem replay" if failed else None),)

    name = TableName(None, None, "quarantine")
    version = run.lake.version(run.spark, QUARANTINE_TABLE)
    return Subject("silver", None, name, measured=measured, version=version, suite=digest((QUARANTINED,)))


def _pending(run: Run) -> Subject:
    def measured(spark: SparkSession) -> Sequence[Finding]:
        age = F.max("event_time").cast("long") - F.min("event_time").cast("long")
        row = run.lake.read(spark, PENDING_TABLE).agg(F.count("*"), age, F.min("event_time").cast("string")).first()
        count, oldest = (int(row[0]), row[2]) if row else (0, None)
        return (Finding(WAITING, count, 0, (), f"{count:,} halves wait" + (f", the oldest of {oldest} UTC" if count else "")),)

    name = TableName(None, None, "pending")
    version = run.lake.version(run.spark, PENDING_TABLE)
    return Subject("silver", None, name, measured=measured, version=version, suite=digest((WAITING,)))


def _freshness(run: Run, source: str, limit: timedelta) -> Subject:
    """The source's newest event, heartbeats included: a source that has nothing to tell is idle, not stale."""
    rule = Rule("freshness", "freshness", limit=limit)

    def measured(spark: SparkSession) -> Sequence[Finding]:
        counts = run.lake.rows(spark, COUNTS_TABLE, COUNTS_SCHEMA).where(F.col("source") == source)
        age = F.unix_timestamp(F.current_timestamp()) - F.unix_timestamp(F.max("max_event_time"))
        row = counts.agg(age, F.max("max_event_time").cast("string")).first()
        if row is None or row[0] is None:
            return (Finding(rule, 0, 1, (source,), "no event yet"),)
        failed = int(row[0] > limit.total_seconds())
        keys = (source,) if failed else ()
        return (Finding(rule, 1, failed, keys, f"newest event {row[1]} UTC", f"{timedelta(seconds=int(row[0]))} old"),)

    return Subject("source", source, None, measured=measured, suite=digest((rule,)))


def _coordinates(rows: DataFrame, count: int) -> tuple[str, ...]:
    if not count:
        return ()
    return tuple(row[0] for row in rows.select(_place().alias("key")).orderBy("key").limit(MOST_KEYS).collect())


def _place() -> Column:
    parts = [F.coalesce(F.col(f"`{name}`").cast("string"), F.lit("null")) for name in MESSAGE_AT]
    return reduce(lambda a, b: F.concat(a, F.lit("/"), b), parts)
