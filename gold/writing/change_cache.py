"""The changes of small tables, read once for a whole run instead of several times for each table."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.contracts.table_names import CHANGES_TABLE
from framework.contracts.table_schemas import CHANGES
from framework.lakehouse.lakehouse import Lakehouse
from gold.changes.few_changes import FewChange, row_changes
from gold.planning.task import Task

MAX_CACHED_ROWS = 5_000
MAX_CACHED_CHARACTERS = 16_000_000


def cache_changes(spark: SparkSession, lake: Lakehouse, tasks: Sequence[Task]) -> pa.Table | None:
    """The row changes of these tables up to their batches; None if they are too many or too large."""
    if sum(task.rows for task in tasks) > MAX_CACHED_ROWS:
        return None
    names = {name for task in tasks for name in _names(task)}
    mine = (
        F.col("source").isin({task.source for task in tasks})
        & F.col("table").isin(names)
        & (F.col("kind") == "row")
    )
    changes = lake.read(spark, CHANGES_TABLE).where(
        mine & (F.col("batch") <= max(task.top for task in tasks))
    )
    sizes = [F.coalesce(F.length(F.to_json(image)), F.lit(0)) for image in ("before", "after")]
    size = changes.agg(F.count("*"), F.coalesce(F.sum(sizes[0] + sizes[1]), F.lit(0))).collect()[0]
    return changes.toArrow() if size[0] <= MAX_CACHED_ROWS and size[1] <= MAX_CACHED_CHARACTERS else None


def changes_of(spark: SparkSession, lake: Lakehouse, task: Task, cached: pa.Table | None) -> DataFrame:
    """The changes of silver up to the task's batch; from the cache, if there is one, those of its tables."""
    if cached is None:
        changes = lake.read(spark, CHANGES_TABLE)
    else:
        rows = _rows_of(task, cached)
        # without a row, the filtered table has no chunk, and Spark makes no frame of it
        changes = spark.createDataFrame(rows if rows.num_rows else cached.schema.empty_table(), CHANGES)
    return changes.where(F.col("batch") <= task.top)


def few_changes_of(task: Task, cached: pa.Table | None) -> list[FewChange] | None:
    """The row changes of the task's table up to its batch, in this process; None where nothing is cached."""
    if cached is None:
        return None
    changes = row_changes(_rows_of(task, cached), task.source, task.lineage)
    return [change for change in changes if change.batch <= task.top]


def _rows_of(task: Task, cached: pa.Table) -> pa.Table:
    """The cached rows with one of the names that the task's table has had."""
    names = pa.array(sorted(_names(task)), pa.string())
    return cached.filter(pc.is_in(cached["table"], value_set=names))


def _names(task: Task) -> frozenset[str]:
    return frozenset(segment.table.table for segment in task.lineage.segments)
