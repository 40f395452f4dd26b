"""The changes of small runs, read once for a whole run instead of several times for each table."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.contracts.table_names import CHANGES_TABLE
from framework.contracts.table_schemas import CHANGES
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.recent_rows import rows_above
from gold.changes.few_changes import TableChanges, row_changes
from gold.planning.knowledge import CachedChanges, table_names
from gold.planning.task import Task

MAX_CACHED_ROWS = 5_000
MAX_CACHED_CHARACTERS = 16_000_000
_FILES_ROWS, _FILES_BYTES = 20_000, 32_000_000
"""How many rows and bytes of `silver/changes` are read in this process to find the changes of the tables."""


def cache_changes(spark: SparkSession, lake: Lakehouse, tasks: Sequence[Task]) -> CachedChanges | None:
    """The row changes of these tables up to their batches: all of them, or the new ones where all are many.

    None where the new ones are too many or too large, too.
    """
    if sum(task.rows for task in tasks) <= MAX_CACHED_ROWS:
        since = -1
    elif sum(task.new_rows for task in tasks) <= MAX_CACHED_ROWS:
        since = min((task.first_new for task in tasks if task.first_new is not None), default=0) - 1
    else:
        return None
    names = {name for task in tasks for name in table_names(task)}
    sources, top = {task.source for task in tasks}, max(task.top for task in tasks)
    most = (_FILES_ROWS, _FILES_BYTES)
    near = rows_above(lake, CHANGES_TABLE, ("batch", since), CHANGES, most)
    if near is not None:
        found = near.filter(
            pc.field("source").isin(sorted(sources))
            & pc.field("table").isin(sorted(names))
            & (pc.field("kind") == "row")
            & (pc.field("batch") <= top)
        )
        is_small = found.num_rows <= MAX_CACHED_ROWS and _size(found) <= MAX_CACHED_CHARACTERS
        return CachedChanges(found, since) if is_small else None
    mine = F.col("source").isin(sources) & F.col("table").isin(names) & (F.col("kind") == "row")
    changes = lake.read(spark, CHANGES_TABLE).where(mine & (F.col("batch") <= top) & (F.col("batch") > since))
    sizes = [F.coalesce(F.length(F.to_json(image)), F.lit(0)) for image in ("before", "after")]
    size = changes.agg(F.count("*"), F.coalesce(F.sum(sizes[0] + sizes[1]), F.lit(0))).collect()[0]
    if size[0] > MAX_CACHED_ROWS or size[1] > MAX_CACHED_CHARACTERS:
        return None
    return CachedChanges(changes.toArrow(), since)


def _size(changes: pa.Table) -> int:
    """How many characters the images have, about."""
    return sum(changes[image].get_total_buffer_size() for image in ("before", "after"))


def changes_of(spark: SparkSession, lake: Lakehouse, task: Task, cached: CachedChanges | None) -> DataFrame:
    """The changes of silver up to the task's batch; those of its tables where the cache has all of them."""
    if cached is None or cached.since >= 0:
        changes = lake.read(spark, CHANGES_TABLE)
    else:
        changes = _frame_of(spark, cached.of(task))
    return changes.where(F.col("batch") <= task.top)


def table_changes_of(
    spark: SparkSession, lake: Lakehouse, task: Task, cached: CachedChanges | None
) -> TableChanges:
    """The changes of silver up to the task's batch, and the new ones from the cache where it has them."""
    frame = changes_of(spark, lake, task, cached)
    if cached is None:
        return TableChanges(frame)
    mine = cached.of(task)
    few = [change for change in row_changes(mine, task.source, task.lineage) if change.batch <= task.top]
    if cached.since < 0:
        return TableChanges(frame, few)
    applied = task.state.batch
    new = mine.filter(pc.greater(mine["batch"], pa.scalar(applied, pa.int64())))
    return TableChanges(
        frame,
        [change for change in few if change.batch > applied],
        applied,
        _frame_of(spark, new).where(F.col("batch") <= task.top),
    )


def _frame_of(spark: SparkSession, rows: pa.Table) -> DataFrame:
    # without a row, the filtered table has no chunk, and Spark makes no frame of it
    return spark.createDataFrame(rows if rows.num_rows else rows.schema.empty_table(), CHANGES)
