"""Reconciliation: every message has its fate and every fate its message, offsets and transactions are complete."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from framework.config import Layout
from framework.contracts.quality import MOST_KEYS, Severity
from framework.contracts.tables import MESSAGE_AT
from framework.layer import Run
from framework.quality.finding import Finding
from framework.quality.rules import Rule
from framework.quality.subject import Past, Subject
from silver.batch import MESSAGES_TABLE
from silver.checkpoint import counted_from
from silver.derived import CHANGES_TABLE, COUNTS_SCHEMA, COUNTS_TABLE
from silver.epochs import read_history

ACCOUNTED = Rule("every_message_has_a_fate", "accounted")
TRACEABLE = Rule("every_fate_has_its_message", "traceable")
ONCE = Rule("every_message_once", "accounted")
GAPS = Rule("offsets_without_gaps", "offset_gaps", severity=Severity.WARN)
TRANSACTIONS = Rule("transactions_complete", "transactions", severity=Severity.WARN)
_MOST_TOPICS = 50
_PARTITION = ("source", "topic", "partition")


@dataclass(frozen=True, slots=True)
class Ledger:
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


def reconciled(ledger: Ledger) -> list[Finding]:
    """Messages without a fate, fates without a message, messages landed twice, gaps between offsets, open transactions.

    Looks at what is new; at everything where the totals do not add up.
    """
    spark, lake = ledger.spark, ledger.run.lake
    total = lake.read(spark, MESSAGES_TABLE).count()
    last = ledger.past.of(ledger.subject.place, ACCOUNTED.name)
    started = ledger.past.started_at(ledger.subject.place)
    everything = Ledger(spark, ledger.run, ledger.past, ledger.subject, -1)
    known = ledger.past.results.get(ledger.subject.place, ())
    if last is None or started is None or any(not r.success for r in known if r.kind in (ACCOUNTED.kind, TRACEABLE.kind)):
        return _compared(everything, ledger.messages(), total)
    fresh = lake.read(spark, MESSAGES_TABLE).where(F.col("ingested_at") >= F.lit(started))
    live = lake.rows(spark, COUNTS_TABLE, COUNTS_SCHEMA).where(F.col("batch") >= counted_from(spark, lake))
    fates = live.agg(F.sum("rows")).first()
    is_even = last.checked_count + fresh.count() == total and fates is not None and fates[0] == lake.read(spark, CHANGES_TABLE).count()
    if not is_even:
        return _compared(everything, ledger.messages(), total)
    return _compared(ledger, ledger.messages().where(F.col("ingested_at") >= F.lit(started)), total)


def _compared(ledger: Ledger, messages: DataFrame, total: int) -> list[Finding]:
    landed = messages.groupBy(*MESSAGE_AT).count().withColumn("is_landed", F.lit(True))
    both = landed.join(ledger.fates().withColumn("has_fate", F.lit(True)), list(MESSAGE_AT), "full_outer")
    lost, unknown = F.col("has_fate").isNull(), F.col("is_landed").isNull()
    row = both.agg(F.count_if(lost), F.count_if(unknown), F.count_if(_is_twice(ledger)), F.count("is_landed")).first()
    lost_count, unknown_count, twice_count, seen = (int(row[i]) for i in range(4)) if row else (0, 0, 0, 0)
    lost_rows, unknown_rows = both.where(lost), both.where(unknown)
    if lost_count and ledger.since >= 0:  # older messages may have had their fates before
        ever = Ledger(ledger.spark, ledger.run, ledger.past, ledger.subject, -1)
        lost_rows = lost_rows.join(ever.fates(), list(MESSAGE_AT), "left_anti")
        lost_count = lost_rows.count()
    if unknown_count:  # messages of earlier runs that were taken up again, and those of sources that stand still
        everything = ledger.run.lake.read(ledger.spark, MESSAGES_TABLE).select(*MESSAGE_AT)
        unknown_rows = unknown_rows.join(_near(everything, unknown_rows), list(MESSAGE_AT), "left_anti")
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


def _near(messages: DataFrame, wanted: DataFrame) -> DataFrame:
    """The messages among which the wanted ones are, so few that Delta's statistics leave most files alone."""
    spans = wanted.groupBy("topic").agg(F.min("offset").alias("low"), F.max("offset").alias("high")).limit(_MOST_TOPICS + 1).collect()
    if len(spans) > _MOST_TOPICS or not spans:
        return messages
    is_near = (F.col("topic").eqNullSafe(row["topic"]) & F.col("offset").between(row["low"], row["high"]) for row in spans)
    return messages.where(reduce(lambda a, b: a | b, is_near))


def _is_twice(ledger: Ledger) -> Column:
    """Coordinates that landed more than once where that is a fault.

    Dumps of layout `kcat` may overlap, and a source in a later epoch may number its messages anew.
    """
    told = [name for name, source in ledger.run.config.sources.items() if source.layout is Layout.KCAT or source.epoch > 1]
    return (F.col("count") > 1) & ~F.col("source").isin(*told)


def _gaps(landed: DataFrame, ledger: Ledger) -> Finding:
    """Offsets of a broker's partition that no message has; of files an empty line has a number and is no message."""
    kafka = [name for name, source in ledger.run.config.sources.items() if source.kafka is not None]
    if not kafka:
        return Finding(GAPS, 0, 0, (), "no source has a broker's offsets")
    last = ledger.past.of(ledger.subject.place, GAPS.name)
    everything = ledger.messages().where(F.col("source").isin(*kafka))
    if ledger.since < 0 or last is None or last.failed_count:
        spans = _spans(everything)
    else:
        fresh = _spans(landed.where(F.col("source").isin(*kafka)))
        spans = [*(s for s in fresh if s["gap"] == 0), *_beside(everything, fresh)]
    failed = sum(max(row["gap"], 0) for row in spans)
    keys = tuple(sorted(f"{r['source']}/{r['topic']}/{r['partition']}: {r['gap']}" for r in spans if r["gap"] > 0))[:MOST_KEYS]
    detail = "compacted topics and transactions of producers leave gaps too" if failed else None
    return Finding(GAPS, sum(row["n"] for row in spans), failed, keys, f"{failed:,} offsets without a message", detail)


def _spans(messages: DataFrame) -> list[Row]:
    """Of each partition its lowest offset, and how many offsets up to the highest have no message."""
    offset = F.col("offset")
    missing = F.max(offset) - F.min(offset) + 1 - F.count_distinct(offset)
    return messages.groupBy(*_PARTITION).agg(missing.alias("gap"), F.count("*").alias("n"), F.min(offset).alias("low")).collect()


def _beside(messages: DataFrame, fresh: Sequence[Row]) -> list[Row]:
    """The whole spans of those partitions whose fresh messages do not begin right behind an earlier one, or have gaps.

    A partition whose earlier messages have no gap has none now if the fresh ones have none and begin where those end.
    """
    behind = messages.where(F.col("offset").isin(*(row["low"] - 1 for row in fresh))).select(*_PARTITION, "offset").distinct().collect()
    known = {(row["source"], row["topic"], row["partition"], row["offset"]) for row in behind}
    open_ = [row for row in fresh if row["gap"] or (row["source"], row["topic"], row["partition"], row["low"] - 1) not in known]
    if not open_:
        return []
    topics = messages.where(F.col("topic").isin(*{row["topic"] for row in open_}))
    mine = {(row["source"], row["topic"], row["partition"]) for row in open_}
    return [row for row in _spans(topics) if (row["source"], row["topic"], row["partition"]) in mine]


def _transactions(ledger: Ledger) -> list[Finding]:
    """Transactions whose END counts more changes than silver holds; none where the feed has no such messages."""
    counts = ledger.run.lake.rows(ledger.spark, COUNTS_TABLE, COUNTS_SCHEMA)
    if counts.where(F.col("batch").__gt__(ledger.since) & (F.col("kind") == "transaction")).isEmpty():
        return []
    changes = ledger.run.lake.read(ledger.spark, CHANGES_TABLE)
    ends = changes.where((F.col("batch") > ledger.since) & (F.col("kind") == "transaction")).select(*MESSAGE_AT, "transaction_id")
    messages = _near(ledger.run.lake.read(ledger.spark, MESSAGES_TABLE), ends)
    raw = messages.select(*MESSAGE_AT, F.col("value").cast("string").alias("text"))
    count = F.coalesce(F.get_json_object("text", "$.event_count"), F.get_json_object("text", "$.payload.event_count")).try_cast("bigint")
    told = ends.join(raw, list(MESSAGE_AT)).select("source", "transaction_id", count.alias("told")).where("told IS NOT NULL").distinct()
    open_rows = _short(told, changes.where(F.col("batch") > ledger.since))
    if ledger.since >= 0 and not open_rows.isEmpty():  # those that began in an earlier batch
        open_rows = _short(open_rows.select("source", "transaction_id", "told"), changes)
    failed = open_rows.count()
    rows = open_rows.orderBy("source", "transaction_id").limit(MOST_KEYS).collect() if failed else []
    keys = tuple(f"{row['source']}/{row['transaction_id']}: {row['n']} of {row['told']}" for row in rows)
    return [Finding(TRANSACTIONS, told.count(), failed, keys, f"{failed:,} transactions lack changes")]


def _short(told: DataFrame, changes: DataFrame) -> DataFrame:
    """The transactions of which these changes are fewer than was told."""
    fates = changes.where("transaction_id IS NOT NULL AND kind <> 'transaction'").groupBy("source", "transaction_id")
    held = fates.agg(F.count_distinct("topic", "partition", "offset", "ordinal").alias("held"))
    found = told.join(held, ["source", "transaction_id"], "left").select("*", F.coalesce("held", F.lit(0)).alias("n"))
    return found.where("n < told")


def _coordinates(rows: DataFrame, count: int) -> tuple[str, ...]:
    if not count:
        return ()
    return tuple(row[0] for row in rows.select(place_text().alias("key")).orderBy("key").limit(MOST_KEYS).collect())


def place_text() -> Column:
    """A message's coordinates as people read them."""
    parts = [F.coalesce(F.col(f"`{name}`").cast("string"), F.lit("null")) for name in MESSAGE_AT]
    return reduce(lambda a, b: F.concat(a, F.lit("/"), b), parts)
