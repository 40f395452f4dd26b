"""Reconciliation: every message has an outcome and every outcome its message.

Offsets and transactions are complete.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from framework.config.model import Config, Layout
from framework.contracts.expectations import CheckTarget, Finding, PreviousResults, Rule
from framework.contracts.quality import MOST_KEYS
from framework.contracts.table_names import BATCHES_TABLE, CHANGES_TABLE, MESSAGES_TABLE
from framework.contracts.table_schemas import CHANGES, MESSAGE_AT, MESSAGE_ID
from framework.pipeline.layer import Run
from framework.quality.memory import memory_of
from framework.spark.comparison import compare
from framework.spark.tuning import tune_for_rows
from framework.text.formatting import quantity
from silver.batches.batch_counts import COUNTS_SCHEMA
from silver.batches.landings import before_halves_of, identify, identify_all, outcomes_in_epochs
from silver.batches.source_epochs import SourceEpochs
from silver.operations.offset_spans import (
    GAPS,
    NO_BROKER,
    PARTITION,
    Partition,
    Span,
    brokers,
    joined_spans,
    keep_spans,
    kept_spans,
    told,
)
from silver.operations.transactions import TRANSACTIONS, near, transactions_found
from silver.stream.checkpoint import counted_from

ACCOUNTED = Rule("every_message_has_a_fate", "accounted")
TRACEABLE = Rule("every_fate_has_its_message", "traceable")
ONCE = Rule("every_message_once", "accounted")


@dataclass(frozen=True, slots=True)
class Ledger:
    """What is reconciled: the messages and outcomes after the batch `since`, or all of them (-1)."""

    spark: SparkSession
    run: Run
    past: PreviousResults
    subject: CheckTarget
    since: int
    epochs: SourceEpochs

    def everything(self) -> DataFrame:
        """All messages, with their epochs."""
        read = self.run.lake.read(self.spark, MESSAGES_TABLE)
        is_anew = bool(self.epochs.history.sources_by_landing())
        return (identify_all if is_anew else identify)(read, self.run.lake, self.epochs)

    def messages(self) -> DataFrame:
        """All messages of configured sources that are not stopped, with their epochs."""
        stopped = list(self.epochs.history.stopped_sources())
        return self.everything().where(
            F.col("source").isin(*self.run.config.sources) & ~F.col("source").isin(*stopped)
        )

    def outcomes(self) -> DataFrame:
        """The messages (MESSAGE_ID) that have an outcome, each once."""
        changes = outcomes_in_epochs(self.run.lake.rows(self.spark, CHANGES_TABLE, CHANGES), self.epochs)
        if self.since >= 0:
            changes = changes.where(F.col("batch") > self.since)
        return changes.select(*MESSAGE_ID).unionByName(before_halves_of(changes)).distinct()


def reconciled(ledger: Ledger) -> list[Finding]:
    """Messages without an outcome, outcomes without a message, repeated messages, gaps, open transactions.

    Checks what is new, or everything if the totals do not add up.
    """
    spark, lake = ledger.spark, ledger.run.lake
    total = lake.read(spark, MESSAGES_TABLE).count()
    last = ledger.past.of(ledger.subject.id, ACCOUNTED.name)
    started = ledger.past.started_at(ledger.subject.id)
    everything = replace(ledger, since=-1)
    known = ledger.past.results.get(ledger.subject.id, ())
    if (
        last is None
        or started is None
        or any(not r.success for r in known if r.kind in (ACCOUNTED.kind, TRACEABLE.kind))
    ):
        tune_for_rows(spark, total)
        return _compared(everything, ledger.messages(), total)
    fresh = lake.read(spark, MESSAGES_TABLE).where(F.col("ingested_at") >= F.lit(started))
    live = lake.rows(spark, BATCHES_TABLE, COUNTS_SCHEMA).where(F.col("batch") >= counted_from(spark, lake))
    outcomes = live.agg(F.sum("rows")).first()
    fresh_count = fresh.count()
    is_even = (
        last.checked_count + fresh_count == total
        and outcomes is not None
        and outcomes[0] == lake.read(spark, CHANGES_TABLE).count()
    )
    tune_for_rows(spark, max(fresh_count, ledger.subject.size) if is_even else total)
    if not is_even:
        return _compared(everything, ledger.messages(), total)
    return _compared(ledger, ledger.messages().where(F.col("ingested_at") >= F.lit(started)), total)


def _compared(ledger: Ledger, messages: DataFrame, total: int) -> list[Finding]:
    both = compare(messages.select(*MESSAGE_ID), ledger.outcomes())
    landed, lost, unknown = F.col("expected") > 0, F.col("found") == 0, F.col("expected") == 0
    row = both.agg(
        F.count_if(lost), F.count_if(unknown), F.count_if(_is_twice(ledger)), F.count_if(landed)
    ).first()
    lost_count, unknown_count, twice_count, seen = (int(row[i]) for i in range(4)) if row else (0, 0, 0, 0)
    lost_rows, unknown_rows = both.where(lost), both.where(unknown)
    if lost_count and ledger.since >= 0:  # older messages may have earlier outcomes
        tune_for_rows(ledger.spark, total)
        ever = replace(ledger, since=-1)
        lost_rows = lost_rows.join(ever.outcomes(), list(MESSAGE_ID), "left_anti")
        lost_count = lost_rows.count()
    if unknown_count:  # messages of earlier runs that were decoded again, and those of stopped sources
        tune_for_rows(ledger.spark, total)
        everything = ledger.everything().select(*MESSAGE_ID)
        unknown_rows = unknown_rows.join(near(everything, unknown_rows), list(MESSAGE_ID), "left_anti")
        unknown_count = unknown_rows.count()
    return [
        *_told(
            total,
            seen,
            (lost_count, _coordinates(lost_rows, lost_count)),
            (unknown_count, _coordinates(unknown_rows, unknown_count)),
            (twice_count, _coordinates(both.where(_is_twice(ledger)), twice_count)),
        ),
        _gaps(messages, ledger),
        *transactions_found(
            ledger.spark, ledger.run, ledger.since, ledger.past.of(ledger.subject.id, TRANSACTIONS.name)
        ),
    ]


_Failed = tuple[int, tuple[str, ...]]
"""How many messages break a rule, and some of their coordinates."""


def _told(total: int, seen: int, lost: _Failed, unknown: _Failed, twice: _Failed) -> Iterator[Finding]:
    """The findings for so many messages, of which some break a rule; `seen` of all are compared."""
    observed = f"{quantity(seen, 'message')}, {lost[0]:,} without an outcome"
    yield Finding(ACCOUNTED, total, *lost, observed)
    yield Finding(TRACEABLE, seen, *unknown, f"{quantity(unknown[0], 'outcome')} without a message")
    places = quantity(twice[0], "pair of coordinates", "pairs of coordinates")
    yield Finding(ONCE, seen, *twice, f"{places} landed twice")


def all_accounted(total: int, seen: int) -> list[Finding]:
    """The findings where all messages have an outcome, all outcomes a message, and none landed twice."""
    return list(_told(total, seen, (0, ()), (0, ()), (0, ())))


def may_land_twice(config: Config, source: str) -> bool:
    """Whether coordinates of a source may land more than once: in dumps, a table, or a later epoch."""
    found = config.sources[source]
    return found.layout is Layout.KCAT or found.table is not None or found.epoch > 1


def _is_twice(ledger: Ledger) -> Column:
    """Whether coordinates landed more than once where that is a fault.

    Dumps of layout `kcat` may overlap, a table may hold a row several times, and a source in a later epoch
    may number its messages from the start again.
    """
    config = ledger.run.config
    exempt = [name for name in config.sources if may_land_twice(config, name)]
    return (F.col("expected") > 1) & ~F.col("source").isin(*exempt)


def _gaps(messages: DataFrame, ledger: Ledger) -> Finding:
    """Missing offsets of a broker's partitions. In files, an empty line has a number and is no message."""
    kafka = brokers(ledger.run.config)
    if not kafka:
        return NO_BROKER
    memory = memory_of(ledger.run)
    last = ledger.past.of(ledger.subject.id, GAPS.name)
    everything = ledger.messages().where(F.col("source").isin(*kafka))
    if ledger.since >= 0 and last is not None and not (last.failed_count and not memory.is_kept):
        rows = _spans(messages.where(F.col("source").isin(*kafka)).select(*MESSAGE_ID).distinct())
        if not memory.is_kept:
            rows = [*(row for row in rows if row["gap"] == 0), *_beside(everything, rows)]
            return told(_by_partition(rows), sum(row["n"] for row in rows))
        kept = kept_spans(memory, ledger.epochs)
        found = None if kept is None else joined_spans(kept, _by_partition(rows))
        if found is not None:
            keep_spans(memory, ledger.epochs, found)
            return told(found, sum(row["n"] for row in rows))
    rows = _spans(everything)
    keep_spans(memory, ledger.epochs, _by_partition(rows))
    return told(_by_partition(rows), sum(row["n"] for row in rows))


def _spans(messages: DataFrame) -> list[Row]:
    """For each partition its lowest and highest offset, and how many offsets between have no message."""
    offset = F.col("offset")
    missing = F.max(offset) - F.min(offset) + 1 - F.count_distinct(offset)
    span = (missing.alias("gap"), F.count("*").alias("n"), F.min(offset).alias("low"))
    return messages.groupBy(*PARTITION).agg(*span, F.max(offset).alias("high")).collect()


def _by_partition(rows: Sequence[Row]) -> dict[Partition, Span]:
    return {_partition_of(row): Span(row["low"], row["high"], row["gap"]) for row in rows}


def _beside(messages: DataFrame, fresh: Sequence[Row]) -> list[Row]:
    """The spans of partitions whose new messages have gaps or do not follow an earlier message directly.

    A partition without an earlier gap has none now if the new messages have none and begin where the earlier
    ones end.
    """
    behind = (
        messages.where(F.col("offset").isin(*(row["low"] - 1 for row in fresh)))
        .select(*PARTITION, "offset")
        .distinct()
        .collect()
    )
    known = {tuple(row) for row in behind}
    open_ = [row for row in fresh if row["gap"] or (*_partition_of(row), row["low"] - 1) not in known]
    if not open_:
        return []
    topics = messages.where(F.col("topic").isin(*{row["topic"] for row in open_}))
    mine = set(map(_partition_of, open_))
    return [row for row in _spans(topics) if _partition_of(row) in mine]


def _partition_of(row: Row) -> Partition:
    return row["source"], row["topic"], row["partition"], row["epoch"]


def _coordinates(rows: DataFrame, count: int) -> tuple[str, ...]:
    if not count:
        return ()
    return tuple(
        row[0] for row in rows.select(place_text().alias("key")).orderBy("key").limit(MOST_KEYS).collect()
    )


def place_text() -> Column:
    """A message's coordinates as text for people."""
    parts = [F.coalesce(F.col(f"`{name}`").cast("string"), F.lit("null")) for name in MESSAGE_AT]
    return reduce(lambda a, b: F.concat(a, F.lit("/"), b), parts)
