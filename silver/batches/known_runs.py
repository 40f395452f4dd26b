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

from silver.changes.pairing import NEW
from silver.changes.record_runs import KINDS_WITHOUT_POSITION
from silver.changes.staged_rows import OF_FIRST_LANDING
from silver.values.sequence import epoch_sql, is_snapshot_sql, without_tie_sql

_RECORD = ["source", "record"]
_PARTITION = ["source", "topic", "partition", "epoch"]
_PLACE = [*_RECORD, "topic", "partition", "offset"]
_IS_TOMBSTONE = "kind = 'tombstone'"
_EPOCH = f"coalesce({epoch_sql('position')}, {epoch_sql('sequence')}, epoch)"
_KINDS = ", ".join(f"'{kind}'" for kind in KINDS_WITHOUT_POSITION)
_MAY_BE_READ = f"kind IN ({_KINDS}) AND coalesce(op, 'read') = 'read' AND {OF_FIRST_LANDING}"
_RECORD_SQL = (
    "CASE WHEN position IS NOT NULL THEN position"
    f" WHEN kind = 'heartbeat' OR ({_MAY_BE_READ}) THEN concat('epoch ', {_EPOCH}) END"
)
"""What `record_runs` takes for the record of a message; null where it has none."""


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
    """The messages of records (the rows have `position`), and the tombstones.

    `record` is a position, or stands for the rows of a snapshot without one. `start` and `end` are the first
    and the last offset of the run, as far as it is known.
    """
    ends = ("run", "run_end") if "run" in rows.columns else ("offset", "offset")
    start, end = (
        F.coalesce(name, "offset").alias(to) for name, to in zip(ends, ("start", "end"), strict=True)
    )
    is_tombstone = F.expr(_IS_TOMBSTONE)
    chosen = rows.withColumn("record", F.expr(_RECORD_SQL)).where(is_tombstone | F.col("record").isNotNull())
    epoch = F.expr(_EPOCH).alias("epoch")
    return chosen.select(*_PLACE, epoch, start, end, is_tombstone.alias("is_tombstone"))


def with_images_of_repeated(repeated: DataFrame, members: DataFrame, *, are_few: bool) -> DataFrame:
    """Earlier duplicates, which have no images, with those of the new row of a record with their id.

    Those that repeat no such row are left out.

    Args:
        repeated: The duplicates (STAGED).
        members: New rows (STAGED).
        are_few: Whether the groups of the members are few.
    """
    at = F.struct("topic", "partition", "offset", "ordinal")
    first = members.where(F.col("run").isNotNull()).groupBy("change_id")
    images = first.agg(*(F.min_by(name, at).alias(name) for name in ("before", "after")))
    images = F.broadcast(images) if are_few else images
    return repeated.drop("before", "after").join(images, "change_id").select(repeated.columns)


def with_runs(members: DataFrame, messages: DataFrame, *, are_few: bool) -> DataFrame:
    """The members with the `run` and `run_end` that all messages of their records give.

    Earlier rows of a record get a run too.

    Args:
        members: New and earlier rows (STAGED with `_group` and `origin`).
        messages: What `messages_of` gives of the new rows and of earlier outcomes, of all tables.
        are_few: Whether the groups of the members are few.
    """
    columns = members.columns
    members = members.withColumn("record", F.expr(_RECORD_SQL))
    records = members.where((F.col("origin") == NEW) & F.col("run").isNotNull()).select(*_RECORD).distinct()
    records = records.withColumn("_is_record", F.lit(True))
    records = F.broadcast(records) if are_few else records
    near = messages.join(records, _RECORD, "left").where("is_tombstone OR _is_record")
    in_order = Window.partitionBy(*_PARTITION).orderBy("start", "end", "offset")
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    is_behind_gap = F.coalesce(F.col("start") > F.max("end").over(before) + 1, F.lit(True))
    is_other = F.col("record") != F.last("record", ignorenulls=True).over(before)
    begins = is_behind_gap | F.coalesce(is_other, F.lit(False))
    number = F.sum(F.col("_begins").cast("int")).over(in_order.rowsBetween(Window.unboundedPreceding, 0))
    of_run = Window.partitionBy(*_PARTITION, "_run")
    ends = (F.min("start").over(of_run).alias("_first"), F.max("end").over(of_run).alias("_last"))
    near = near.withColumn("_begins", begins).withColumn("_run", number)
    runs = near.select(*_PLACE, *ends).where("record IS NOT NULL").distinct()
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
        .select(columns)
    )
