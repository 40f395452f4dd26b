"""Which messages are one delivery of a record, in this batch and in earlier ones.

While messages are decoded, `silver/changes/record_runs.py` sees one Arrow batch. A record may go on in
another one, in another batch, and in messages of other tables that are not decoded again. So its runs are put
together here, from all messages of the record: also from those of excluded tables, from duplicates, from rows
that a rule refused, and from the tombstones between them.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from silver.changes.pairing import NEW, REPEATED
from silver.values.sequence import epoch_sql, is_snapshot_sql, without_tie_sql

_RECORD = ["source", "position"]
_PARTITION = ["source", "topic", "partition", "epoch"]
_PLACE = [*_RECORD, "topic", "partition", "offset"]
_IS_TOMBSTONE = "kind = 'tombstone'"


@dataclass(frozen=True, slots=True)
class EarlierOutcomes:
    """What is known of earlier messages.

    Attributes:
        changes: Earlier changes that new ones may repeat (CHANGES); None where there are none.
        outcomes: All outcomes of messages near the new ones, but none of a message that landed again (CHANGES
            and `is_replaced`: whether the message is decoded again); None where none can matter.
    """

    changes: DataFrame | None = None
    outcomes: DataFrame | None = None


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


def with_images_of_repeated(members: DataFrame) -> DataFrame:
    """The members, earlier duplicates (REPEATED) with the images of the new row of a record with their id.

    Duplicates have no images. Those that repeat no such row are left out.

    Args:
        members: New and earlier rows (STAGED with `_group` and `origin`).
    """
    is_repeated = F.col("origin") == REPEATED
    at = F.struct("topic", "partition", "offset", "ordinal")
    first = F.when((F.col("origin") == NEW) & F.col("run").isNotNull(), at)
    alike = Window.partitionBy("_group", "change_id")
    images = {
        name: F.when(is_repeated, F.min_by(name, first).over(alike)).otherwise(F.col(name))
        for name in ("before", "after")
    }
    marked = members.withColumn("_is_met", F.max(first.isNotNull()).over(alike)).withColumns(images)
    return marked.where(~is_repeated | F.col("_is_met")).select(members.columns)


def with_runs(members: DataFrame, messages: DataFrame, *, are_few: bool) -> DataFrame:
    """The members with the `run` and `run_end` that all messages of their records give.

    Earlier rows of a record get a run too.

    Args:
        members: New and earlier rows (STAGED with `_group` and `origin`).
        messages: What `messages_of` gives of the new rows and of earlier outcomes, of all tables.
        are_few: Whether the groups of the members are few.
    """
    records = members.where((F.col("origin") == NEW) & F.col("run").isNotNull()).select(*_RECORD).distinct()
    records = records.withColumn("_is_record", F.lit(True))
    records = F.broadcast(records) if are_few else records
    near = messages.join(records, _RECORD, "left").where("is_tombstone OR _is_record")
    in_order = Window.partitionBy(*_PARTITION).orderBy("start", "end", "offset")
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    is_behind_gap = F.coalesce(F.col("start") > F.max("end").over(before) + 1, F.lit(True))
    is_other = F.col("position") != F.last("position", ignorenulls=True).over(before)
    begins = is_behind_gap | F.coalesce(is_other, F.lit(False))
    number = F.sum(F.col("_begins").cast("int")).over(in_order.rowsBetween(Window.unboundedPreceding, 0))
    of_run = Window.partitionBy(*_PARTITION, "_run")
    ends = (F.min("start").over(of_run).alias("_first"), F.max("end").over(of_run).alias("_last"))
    near = near.withColumn("_begins", begins).withColumn("_run", number)
    runs = near.select(*_PLACE, *ends).where("position IS NOT NULL").distinct()
    has_key = F.coalesce(F.size("keys") > 0, F.lit(False))
    is_of_record = ~has_key & ((F.col("origin") != NEW) | F.col("run").isNotNull())
    return (
        members.join(runs, _PLACE, "left")
        .withColumns(
            {
                "run": F.when(is_of_record, F.coalesce("_first", "run")),
                "run_end": F.when(is_of_record, F.coalesce("_last", "run_end")),
            }
        )
        .select(members.columns)
    )
