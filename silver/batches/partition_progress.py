"""How far the time of each partition has come, and how that raises the sequences of a batch.

`ops/partitions` keeps, for each batch and partition, the last offset and the greatest position that its
sequences have reached. A batch with higher offsets is raised block by block, without another look at its
rows.

Late messages have offsets among committed ones, whose sequences stay. A late message gets the greatest
position of the messages up to it, but not more than the next committed message has. So the sequences of a
partition always rise with its offsets, in whatever order the messages land, and a message that is decoded
again gets the same sequence. One case is not covered: a segment that repeats messages of an earlier segment
and lands before it. Then the repeated message counts as the change, and the earlier message as its duplicate.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from framework.contracts.table_names import CHANGES_TABLE, PARTITIONS_TABLE
from framework.contracts.table_schemas import CHANGES
from framework.lakehouse.lakehouse import Lakehouse, Transaction
from framework.spark.local_frame import local_frame
from silver.changes.batch_summary import epoch_parts
from silver.changes.staged_rows import STAGED
from silver.values.sequence import epoch_part_sql, tie_sql, without_tie_sql

if TYPE_CHECKING:
    from silver.batches.contents import Contents
    from silver.batches.run_state import RunState

pc: Any = pyarrow.compute
_PARTITIONS_SCHEMA = (
    "batch bigint, source string, topic string, `partition` int, epoch string, last_offset bigint, top string"
)
_PARTITION = ("source", "topic", "partition", "epoch")
_SEGMENT = 4_096
"""How many offsets of a partition one task sorts where messages land late."""

Partition = tuple[str, str, int, str]
"""Source, topic, partition and epoch; the epoch as sequences write it."""


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """The last offset of a partition, and the greatest position up to it."""

    last_offset: int
    position: str

    def __or__(self, other: PartitionProgress) -> PartitionProgress:
        """The progress of both."""
        return PartitionProgress(max(self.last_offset, other.last_offset), max(self.position, other.position))


NO_PROGRESS = PartitionProgress(-1, "")
"""That of a partition without a change."""


@dataclass(frozen=True, slots=True)
class RowBlock:
    """Rows of a partition that were ordered together: their offsets, lowest and greatest own positions."""

    partition: Partition
    name: int
    first_offset: int
    last_offset: int
    lowest: str
    greatest: str


@dataclass(frozen=True, slots=True)
class Plan:
    """How the rows of a batch are changed.

    `floors` are blocks with the lowest position that their sequences may have, `late` the partitions with
    messages that landed late, and `progress` how far each partition has come after the batch.
    """

    floors: Sequence[tuple[RowBlock, str]]
    late: frozenset[Partition]
    progress: Mapping[Partition, PartitionProgress]


def plan_of(blocks: Iterable[RowBlock], tops: Mapping[Partition, PartitionProgress]) -> Plan:
    """Compare the blocks of a batch with the progress of their partitions (`tops`) before it."""
    partitions: dict[Partition, list[RowBlock]] = {}
    for block in blocks:
        partitions.setdefault(block.partition, []).append(block)
    raised: list[tuple[RowBlock, str]] = []
    late: set[Partition] = set()
    reached: dict[Partition, PartitionProgress] = {}
    for partition, members in partitions.items():
        members.sort(key=lambda block: block.first_offset)
        before = tops.get(partition, NO_PROGRESS)
        found, end, top = [], before.last_offset, before.position
        for block in members:
            if block.first_offset <= end:
                late.add(partition)
            if block.lowest < top:
                found.append((block, top))
            end, top = max(end, block.last_offset), max(top, block.greatest)
        if partition not in late:
            raised += found
        if end > before.last_offset:
            reached[partition] = PartitionProgress(end, top)
    return Plan(raised, frozenset(late), reached)


def blocks_of(staged: DataFrame) -> list[RowBlock]:
    """The blocks of decoded rows: one for each partition in each Arrow batch."""
    rows = staged.where("block IS NOT NULL").withColumn("epoch", _epoch("position"))
    extents = (F.min("offset"), F.max("offset"), F.min("position"), F.max("position"))
    return [
        RowBlock((r[0], r[1], r[2], r[3]), *r[4:])
        for r in rows.groupBy(*_PARTITION, "block").agg(*extents).collect()
    ]


def blocks_in(few: pa.Table) -> list[RowBlock]:
    """The same of decoded rows (STAGED) that this process holds."""
    rows = few.filter(pc.is_valid(few.column("block")))
    by = [*_PARTITION, "block"]
    ends: Any = [(name, end) for name in ("offset", "position") for end in ("min", "max")]
    columns: dict[str, Any] = {name: rows.column(name) for name in (*by, "offset", "position")}
    keyed = pa.table({**columns, "epoch": epoch_parts(columns["position"])})
    found = keyed.group_by(by, use_threads=False).aggregate(ends).select([*by, *map("_".join, ends)])
    return [RowBlock(tuple(r[:4]), *r[4:]) for r in zip(*(c.to_pylist() for c in found.columns), strict=True)]


def apply_plan(staged: DataFrame, plan: Plan, committed: DataFrame) -> DataFrame:
    """The rows with sequences in the order of their partitions; `committed` are rows of `silver/changes`."""
    rows = staged
    if plan.floors:
        rows = _with_floors(rows, plan.floors)
    if plan.late:
        is_late = F.broadcast(_partitions(staged.sparkSession, plan.late))
        marked = rows.withColumn("own_epoch", F.col("epoch"))
        marked = marked.withColumn("epoch", F.when(F.col("block").isNotNull(), _epoch("position")))
        late = marked.join(is_late, list(_PARTITION), "left_semi")
        held = _committed_positions(committed).join(is_late, list(_PARTITION), "left_semi")
        rest = marked.join(is_late, list(_PARTITION), "left_anti")
        rows = rest.select(*_restored()).unionByName(_place_between(late, held))
    return rows


def read_progress(
    spark: SparkSession, lake: Lakehouse, changes: str, wanted: Collection[Partition]
) -> dict[Partition, PartitionProgress]:
    """How far these partitions have come; computed from the changes where `ops/partitions` is lost.

    Partitions without a change are left out.
    """
    if not wanted:
        return {}
    if lake.exists(spark, PARTITIONS_TABLE):
        rows = lake.read(spark, PARTITIONS_TABLE).select(*_PARTITION, "last_offset", "top")
    else:
        rows = _progress_of_changes(lake.rows(spark, changes, CHANGES))
    return {(r[0], r[1], r[2], r[3]): PartitionProgress(r[4], r[5]) for r in _of(rows, wanted).collect()}


def _of(progress: DataFrame, wanted: Collection[Partition]) -> DataFrame:
    """The progress of these partitions alone; the least and greatest topic let Delta skip files."""
    topics = [topic for _, topic, _, _ in wanted]
    is_near = F.col("topic").between(min(topics), max(topics))
    names = F.broadcast(_partitions(progress.sparkSession, wanted))
    found = progress.where(is_near).join(names, list(_PARTITION), "left_semi")
    return found.groupBy(*_PARTITION).agg(F.max("last_offset"), F.max("top"))


def _progress_of_changes(changes: DataFrame) -> DataFrame:
    """Rows of `ops/partitions` without `batch`, from rows of `silver/changes`; several for a partition."""
    return _committed_positions(changes).select(
        *_PARTITION, F.col("offset").alias("last_offset"), F.col("committed_position").alias("top")
    )


def restore_progress(changes: DataFrame, lake: Lakehouse, batch: int) -> bool:
    """Write `ops/partitions` from the changes, where it is lost; rows do not pass through this process.

    Returns whether there were changes that are ordered by their partition.
    """
    progress = _progress_of_changes(changes)
    if progress.isEmpty():
        return False
    columns = (F.max("last_offset").alias("last_offset"), F.max("top").alias("top"))
    rows = progress.groupBy(*_PARTITION).agg(*columns)
    lake.append(rows.select(F.lit(batch).cast("long").alias("batch"), "*"), PARTITIONS_TABLE)
    return True


def complete_progress(changes: DataFrame, lake: Lakehouse) -> None:
    """Add to `ops/partitions` what it lacks of these changes, some of which may have been ordered by time.

    A repeat changes nothing. Where `ops/partitions` is missing, it is derived when it is needed.
    """
    spark = changes.sparkSession
    if not lake.exists(spark, PARTITIONS_TABLE):
        return
    saved = lake.read(spark, PARTITIONS_TABLE).groupBy(*_PARTITION)
    held = saved.agg(F.max("last_offset").alias("held_offset"), F.max("top").alias("held_top"))
    columns = (F.max("last_offset").alias("last_offset"), F.max("top").alias("top"))
    found = _progress_of_changes(changes).groupBy(*_PARTITION).agg(*columns)
    is_behind = (F.col("last_offset") > F.col("held_offset")) | (F.col("top") > F.col("held_top"))
    rows = found.join(held, list(_PARTITION), "left").where(F.coalesce(is_behind, F.lit(True)))
    rows = rows.select(F.lit(-1).cast("long").alias("batch"), *_PARTITION, "last_offset", "top")
    if not rows.isEmpty():
        lake.append(rows.coalesce(1), PARTITIONS_TABLE)


def progress_in(committed: DataFrame) -> dict[Partition, PartitionProgress]:
    """How far the committed rows of a batch have brought their partitions."""
    rows = _progress_of_changes(committed).groupBy(*_PARTITION).agg(F.max("last_offset"), F.max("top"))
    return {(r[0], r[1], r[2], r[3]): PartitionProgress(r[4], r[5]) for r in rows.collect()}


def append_progress(
    lake: Lakehouse,
    changes: DataFrame,
    batch: int,
    tops: Mapping[Partition, PartitionProgress],
    transaction: Transaction | None = None,
) -> None:
    """Save the progress of a committed batch, with that of all earlier ones where `ops/partitions` is lost.

    A batch that was not committed has none: its rows may come again with other positions.
    """
    spark = changes.sparkSession
    if not lake.exists(spark, PARTITIONS_TABLE):
        restore_progress(changes, lake, batch)
        return
    rows = [(batch, *partition, top.last_offset, top.position) for partition, top in tops.items()]
    frame = local_frame(spark, rows, _PARTITIONS_SCHEMA).coalesce(1)
    lake.append(frame, PARTITIONS_TABLE, transaction)


def _with_floors(rows: DataFrame, floors: Sequence[tuple[RowBlock, str]]) -> DataFrame:
    """The rows, with sequences raised to the floors of their blocks."""
    data = [(*block.partition[:3], block.name, floor) for block, floor in floors]
    schema = "source string, topic string, `partition` int, block bigint, floor string"
    at = ["source", "topic", "partition", "block"]
    joined = rows.join(F.broadcast(local_frame(rows.sparkSession, data, schema)), at, "left")
    is_below = F.col("floor").isNotNull() & (F.col("sequence") < F.col("floor"))
    sequence = F.when(is_below, F.concat("floor", F.expr(tie_sql("sequence")))).otherwise(F.col("sequence"))
    return joined.withColumn("sequence", sequence).select(*_staged())


def _place_between(late: DataFrame, held: DataFrame) -> DataFrame:
    """Order late rows among committed ones.

    Segments of offsets are compared first, so that no task sorts a whole partition.
    """
    segment = F.floor(F.col("offset") / _SEGMENT).alias("segment")
    mine = late.select(
        "*", segment, F.col("position").alias("own"), F.lit(None).cast("string").alias("committed_position")
    )
    theirs = held.select(
        *_PARTITION, "offset", segment, F.lit(None).cast("string").alias("own"), "committed_position"
    )
    narrow = mine.select(*theirs.columns).unionByName(theirs)
    wholes = narrow.groupBy(*_PARTITION, "segment").agg(
        F.max("own").alias("own"),
        F.min("committed_position").alias("lowest"),
        F.max("committed_position").alias("highest"),
        F.count("own").alias("rows"),
    )
    by_segment = Window.partitionBy(*_PARTITION).orderBy("segment")
    before, behind = (
        by_segment.rowsBetween(Window.unboundedPreceding, -1),
        by_segment.rowsBetween(1, Window.unboundedFollowing),
    )
    around = wholes.select(
        *_PARTITION, "segment", "rows",
        F.greatest(F.max("own").over(before), F.max("highest").over(before)).alias("floor"),
        F.min("lowest").over(behind).alias("ceiling"),
    ).where("rows > 0").drop("rows")  # fmt: skip
    together = mine.unionByName(theirs, allowMissingColumns=True).join(around, [*_PARTITION, "segment"])
    inside = Window.partitionBy(*_PARTITION, "segment").orderBy("offset")
    upto = inside.rangeBetween(Window.unboundedPreceding, 0)
    position = F.least(
        F.greatest("floor", F.max("own").over(upto), F.max("committed_position").over(upto)),
        F.coalesce(
            F.min("committed_position").over(inside.rangeBetween(0, Window.unboundedFollowing)), "ceiling"
        ),
    )
    sequence = F.concat("at_last", F.expr(tie_sql("sequence")))
    return (
        together.withColumn("at_last", position)
        .where("own IS NOT NULL")
        .withColumn("sequence", sequence)
        .select(*_restored())
    )


def _committed_positions(changes: DataFrame) -> DataFrame:
    """The position at which the sequence of each change begins, with its partition and offset."""
    rows = changes.where("position IS NOT NULL AND sequence IS NOT NULL")
    held = F.expr(without_tie_sql("sequence")).alias("committed_position")
    return rows.select("source", "topic", "partition", _epoch("position").alias("epoch"), "offset", held)


def _partitions(spark: SparkSession, partitions: Iterable[Partition]) -> DataFrame:
    return local_frame(
        spark, sorted(partitions), "source string, topic string, `partition` int, epoch string"
    )


def _epoch(position: str) -> Column:
    return F.expr(epoch_part_sql(position))


def _restored() -> list[Column]:
    """The columns of STAGED, with the original `epoch` of the rows."""
    return [
        F.col("own_epoch").alias("epoch") if name == "epoch" else F.col(f"`{name}`") for name in STAGED.names
    ]


def _staged() -> list[Column]:
    return [F.col(f"`{name}`") for name in STAGED.names]


def order_by_partition(staged: DataFrame, state: RunState, contents: Contents) -> DataFrame:
    """The rows with sequences that rise with the offsets of their partitions; `staged` itself if they do."""
    state.reached = {}
    if not contents.in_partitions:
        return staged
    spark = staged.sparkSession
    few = contents.rows_here(staged)
    blocks = blocks_of(staged) if few is None else blocks_in(few)
    plan = plan_of(blocks, state.partition_progress(spark, {block.partition for block in blocks}))
    state.reached = plan.progress
    return apply_plan(staged, plan, state.lake.rows(spark, CHANGES_TABLE, CHANGES))
