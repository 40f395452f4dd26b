"""Whether transactions are complete: silver has as many changes as their END message counts.

A run judges the transactions that end in its new changes. One that lacks changes is carried on by its name,
which is a failing key of the last verdict, and is counted again where new changes are its own. Verdicts name
few of many; the others are carried on as a number until a new change may be theirs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.contracts.expectations import Finding, Rule
from framework.contracts.quality import MOST_KEYS, QualityResult, Severity
from framework.contracts.table_names import BATCHES_TABLE, CHANGES_TABLE, MESSAGES_TABLE
from framework.contracts.table_schemas import MESSAGE_AT
from framework.lakehouse.commits import OVERWRITE, operations
from framework.pipeline.layer import Run
from framework.spark.local_frame import local_frame
from framework.text.formatting import quantity
from silver.batches.batch_counts import COUNTS_SCHEMA

TRANSACTIONS = Rule("transactions_complete", "transactions", severity=Severity.WARN)
_NAME = ("source", "transaction_id")
_ANNOUNCED = "source string, transaction_id string, announced bigint"
_KEY = re.compile(r"(?P<name>.*): (?P<present>[0-9]+) of (?P<announced>[0-9]+)", re.DOTALL)
_REPLACED = frozenset({"MERGE", "DELETE", "UPDATE", "RESTORE", OVERWRITE})
"""The operations that change rows which were counted."""
_MOST_TOPICS = 50
_MOST_OPEN = 1_000


class Lack(NamedTuple):
    """A transaction that lacks changes: how many silver has, and how many its END counts."""

    source: str
    name: str
    present: int
    announced: int

    @property
    def key(self) -> str:
        """The failing key."""
        return f"{self.source}/{self.name}: {self.present} of {self.announced}"


@dataclass(frozen=True, slots=True)
class Lacks:
    """The transactions that lack changes: those with names, and how many `others` there are."""

    named: tuple[Lack, ...] = ()
    others: int = 0

    def __bool__(self) -> bool:
        return bool(self.named or self.others)

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.named) + self.others

    def told(self, complete: int = 0) -> Finding:
        """The finding for these and so many complete transactions."""
        lack = quantity(self.count, "transaction lacks changes", "transactions lack changes")
        keys = tuple(one.key for one in sorted(self.named)[:MOST_KEYS])
        return Finding(TRANSACTIONS, complete + self.count, self.count, keys, lack)


def lacks_of(last: QualityResult | None, sources: Iterable[str]) -> Lacks:
    """The transactions of these sources that lacked changes when the rule was last judged."""
    if last is None or last.success is not False:
        return Lacks()
    names = tuple(sources)
    found = [_lack(key, names) for key in last.failing_keys]
    return Lacks(
        tuple(one for one in found if one is not None), max(last.failed_count - len(last.failing_keys), 0)
    )


def _lack(key: str, sources: Iterable[str]) -> Lack | None:
    """The transaction that a failing key names; None where its source is none of these."""
    said = _KEY.fullmatch(key)
    source = max((name for name in sources if key.startswith(f"{name}/")), key=len, default=None)
    if said is None or source is None:
        return None
    name = said["name"].removeprefix(f"{source}/")
    return Lack(source, name, int(said["present"]), int(said["announced"]))


def transactions_found(
    spark: SparkSession, run: Run, since: int, last: QualityResult | None
) -> list[Finding]:
    """The finding on transactions that end after the batch `since` or lacked changes before.

    Nothing if no transaction ends there, and none lacked changes.
    """
    changes = run.lake.read(spark, CHANGES_TABLE)
    lacks = Lacks() if since < 0 else lacks_of(last, run.config.sources)
    if lacks and (_are_replaced(spark, run, last) or (lacks.others and _may_be_of_others(changes, since))):
        since, lacks = -1, Lacks()
    counts = run.lake.rows(spark, BATCHES_TABLE, COUNTS_SCHEMA)
    if counts.where((F.col("batch") > since) & (F.col("kind") == "transaction")).isEmpty() and not lacks:
        return []
    new = changes.where(F.col("batch") > since)
    again = _with_new_changes(lacks.named, new)
    announced = _announced(spark, run, new).unionByName(
        local_frame(spark, [(one.source, one.name, one.announced) for one in again], _ANNOUNCED)
    )
    announced = announced.distinct()
    open_rows = short_transactions(announced, new)
    if since >= 0 and not open_rows.isEmpty():  # transactions that began in an earlier batch
        announced_open = open_rows.select(*_NAME, "announced")
        open_rows = short_transactions(announced_open, changes_of(announced_open, changes))
    failed = open_rows.count()
    rows = open_rows.orderBy(*_NAME).limit(MOST_KEYS).collect() if failed else []
    named = [Lack(row["source"], row["transaction_id"], row["n"], row["announced"]) for row in rows]
    carried = [one for one in lacks.named if one not in again]
    found = Lacks((*named, *carried), lacks.others + failed - len(named))
    return [found.told(announced.count() - failed)]


def _are_replaced(spark: SparkSession, run: Run, last: QualityResult | None) -> bool:
    """Whether earlier changes may be others than when the rule was last judged: replayed, or forgotten."""
    if last is None or last.version is None:
        return True
    done = operations(spark, run.lake.location(CHANGES_TABLE), last.version, last.started_at)
    return done is None or not done.isdisjoint(_REPLACED)


def _may_be_of_others(changes: DataFrame, since: int) -> bool:
    """Whether new changes belong to transactions that ended before them."""
    new = changes.where((F.col("batch") > since) & F.col("transaction_id").isNotNull())
    ends = new.where("kind = 'transaction'").select(*_NAME)
    open_ = new.where("kind <> 'transaction'").select(*_NAME).distinct().join(ends, list(_NAME), "left_anti")
    names = {row["transaction_id"] for row in open_.limit(_MOST_OPEN + 1).collect()}
    if not names or len(names) > _MOST_OPEN:
        return bool(names)
    ended = changes.where((F.col("batch") <= since) & (F.col("kind") == "transaction"))
    return not ended.where(F.col("transaction_id").isin(*names)).isEmpty()


def _with_new_changes(lacks: Iterable[Lack], new: DataFrame) -> list[Lack]:
    """Those of the transactions to which new changes belong."""
    names = {one.name for one in lacks}
    if not names:
        return []
    rows = new.where(F.col("transaction_id").isin(*names)).select(*_NAME).distinct().collect()
    touched = {(row["source"], row["transaction_id"]) for row in rows}
    return [one for one in lacks if (one.source, one.name) in touched]


def _announced(spark: SparkSession, run: Run, new: DataFrame) -> DataFrame:
    """How many changes the END messages among the new changes count, for each transaction."""
    is_end = (F.col("kind") == "transaction") & F.col("source").isin(*run.config.sources)
    ends = new.where(is_end).select(*MESSAGE_AT, "transaction_id")
    messages = near(run.lake.read(spark, MESSAGES_TABLE), ends)
    raw = messages.select(*MESSAGE_AT, F.col("value").cast("string").alias("text"))
    count = F.coalesce(
        F.get_json_object("text", "$.event_count"), F.get_json_object("text", "$.payload.event_count")
    ).try_cast("bigint")
    counted = ends.join(raw, list(MESSAGE_AT)).select(*_NAME, count.alias("announced"))
    return counted.where("announced IS NOT NULL")


def changes_of(transactions: DataFrame, changes: DataFrame) -> DataFrame:
    """The changes of these transactions, which are few: only those are grouped and sent between tasks."""
    return changes.join(F.broadcast(transactions.select(*_NAME).distinct()), list(_NAME), "left_semi")


def short_transactions(announced: DataFrame, changes: DataFrame) -> DataFrame:
    """The transactions with fewer changes than announced."""
    outcomes = changes.where("transaction_id IS NOT NULL AND kind <> 'transaction'").groupBy(*_NAME)
    present = outcomes.agg(F.count_distinct("topic", "partition", "offset", "ordinal").alias("present"))
    found = announced.join(present, list(_NAME), "left").select(
        "*", F.coalesce("present", F.lit(0)).alias("n")
    )
    return found.where("n < announced")


def near(messages: DataFrame, wanted: DataFrame) -> DataFrame:
    """Messages that include the wanted ones, restricted so that Delta's statistics skip most files."""
    spans = (
        wanted.groupBy("topic")
        .agg(F.min("offset").alias("low"), F.max("offset").alias("high"))
        .limit(_MOST_TOPICS + 1)
        .collect()
    )
    if len(spans) > _MOST_TOPICS or not spans:
        return messages
    is_near = (
        F.col("topic").eqNullSafe(row["topic"]) & F.col("offset").between(row["low"], row["high"])
        for row in spans
    )
    return messages.where(reduce(lambda a, b: a | b, is_near))
