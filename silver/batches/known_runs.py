"""Which messages are one delivery of a record, in this batch and in earlier ones.

While messages are decoded, `silver/changes/record_runs.py` sees one Arrow batch. A record may go on in
another one, in another batch, and in messages of other tables that are not decoded again. So its runs are put
together here, from all messages of the record: also from those of excluded tables, from duplicates, from rows
that a rule refused, and from the tombstones between them.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from silver.changes.pairing import NEW, REPEATED
from silver.values.sequence import epoch_sql, is_snapshot_sql, without_tie_sql

_RECORD = ["source", "position"]
_PARTITION = ["source", "topic", "partition", "epoch"]
_PLACE = [*_RECORD, "topic", "partition", "offset"]
_IS_TOMBSTONE = "kind = 'tombstone'"


@dataclass(frozen=True, slots=True)
class History:
    """What is known of earlier messages.

    Attributes:
        changes: Earlier changes that new ones may repeat (CHANGES); None where there are none.
        outcomes: All outcomes of messages near the new ones, but none of a message that landed again (CHANGES
            and `is_replaced`: whether the message is decoded again); None where none can matter.
    """

    changes: DataFrame | None = None
    outcomes: DataFrame | None = None


NO_HISTORY = History()


def with_own_positions(outcomes: DataFrame) -> DataFrame:
    """Rows of `silver/changes`, each with its `position`; null for those without one."""
    of_sequence = F.when(~F.expr(is_snapshot_sql("sequence")), F.expr(without_tie_sql("sequence")))
    return outcomes.withColumn("position", F.coalesce("position", of_sequence))


def messages_of(rows: DataFrame) -> DataFrame:
    """The messages with a position (the rows have `position`), and the tombstones.

    `start` and `end` are the first and the last offset of the run, as far as it is known.
    """
    ends = ("run", "run_end") if "run" in rows.columns else ("offset", "offset")
    start, end = (
        F.coalesce(name, "offset").alias(to) for name, to in zip(ends, ("start", "end"), strict=True)
    )
    is_tombstone = F.expr(_IS_TOMBSTONE)
    epoch = F.when(is_tombstone, F.col("epoch")).otherwise(F.expr(epoch_sql("position"))).alias("epoch")
    chosen = rows.where(is_tombstone | F.col("position").isNotNull())
    return chosen.select(*_PLACE, epoch, start, end, is_tombstone.alias("is_tombstone"))


def with_repeated(members: DataFrame, outcomes: DataFrame) -> DataFrame:
    """The members, and the earlier duplicates that are equal to new rows of records (`origin` REPEATED).

    Duplicates have no images; they get those of the new row with the same id.

    Args:
        members: New and known rows (STAGED with `_group` and `origin`).
        outcomes: Earlier outcomes in the same columns, of messages that are not decoded again.
    """
    own = F.struct("op", "before", "after")
    first = F.min_by(own, F.struct("topic", "partition", "offset", "ordinal"))
    new = members.where((F.col("origin") == NEW) & F.col("run").isNotNull())
    images = new.groupBy("_group", "change_id").agg(first.alias("own")).select("_group", "change_id", "own.*")
    duplicates = outcomes.where((F.col("kind") == "duplicate") & ~_has_key()).drop("op", "before", "after")
    repeated = duplicates.join(images, ["_group", "change_id"]).withColumn("origin", F.lit(REPEATED))
    return members.unionByName(repeated.select(members.columns))


def with_runs(members: DataFrame, messages: DataFrame, *, are_few: bool) -> DataFrame:
    """The members with the `run` and `run_end` that all messages of their records give.

    Of earlier rows those of records get a run; earlier duplicates of others are left out.

    Args:
        members: New and earlier rows (STAGED with `_group` and `origin`).
        messages: What `messages_of` gives of the new rows and of earlier outcomes, of all tables.
        are_few: Whether the groups of the members are few.
    """
    records = members.where((F.col("origin") == NEW) & F.col("run").isNotNull()).select(*_RECORD).distinct()
    records = F.broadcast(records) if are_few else records
    places = messages.where("NOT is_tombstone").join(records, _RECORD, "left_semi").drop("is_tombstone")
    spans = places.unionByName(_tombstones_behind(places, messages.where("is_tombstone")))
    of_record = [*_RECORD, "topic", "partition"]
    in_order = Window.partitionBy(*of_record).orderBy("start", "end", "offset")
    reached = F.max("end").over(in_order.rowsBetween(Window.unboundedPreceding, -1))
    begins = F.coalesce(F.col("start") > reached + 1, F.lit(True))
    number = F.sum(begins.cast("int")).over(in_order.rowsBetween(Window.unboundedPreceding, 0))
    of_run = Window.partitionBy(*of_record, "_run")
    ends = (F.min("start").over(of_run).alias("_first"), F.max("end").over(of_run).alias("_last"))
    runs = spans.withColumn("_run", number).select(*_PLACE, *ends).where("offset IS NOT NULL").distinct()
    is_of_record = ~_has_key() & ((F.col("origin") != NEW) | F.col("run").isNotNull())
    found = members.join(runs, _PLACE, "left").withColumns(
        {
            "run": F.when(is_of_record, F.coalesce("_first", "run")),
            "run_end": F.when(is_of_record, F.coalesce("_last", "run_end")),
        }
    )
    return found.where((F.col("origin") != REPEATED) | F.col("run").isNotNull()).select(members.columns)


def _tombstones_behind(places: DataFrame, tombstones: DataFrame) -> DataFrame:
    """The tombstones that follow a message of a record directly, as a part of its run without `offset`.

    Args:
        places: Messages of records, as `messages_of` gives them.
        tombstones: Tombstones in the same columns, near and far.
    """
    extents = places.groupBy(*_PARTITION).agg(F.min("offset").alias("low"), F.max("offset").alias("high"))
    near = tombstones.select(*_PARTITION, "offset").join(extents, _PARTITION)
    near = near.where("offset > low AND offset < high").select(*_PARTITION, "offset").distinct()
    nth = F.row_number().over(Window.partitionBy(*_PARTITION).orderBy("offset"))
    stretches = (
        near.withColumn("_stretch", F.col("offset") - nth)
        .groupBy(*_PARTITION, "_stretch")
        .agg(F.min("offset").alias("start"), F.max("offset").alias("end"))
    )
    before = places.select(*_PARTITION, "position", (F.col("offset") + 1).alias("start")).distinct()
    behind = stretches.join(before, [*_PARTITION, "start"])
    return behind.withColumn("offset", F.lit(None).cast("bigint")).select(*places.columns)


def _has_key() -> Column:
    return F.coalesce(F.size("keys") > 0, F.lit(False))
