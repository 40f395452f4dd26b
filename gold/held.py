"""The changes of small tables, read once for a whole run instead of several times a table."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.contracts.tables import CHANGES
from framework.tables import Lakehouse
from gold.changes import CHANGES_TABLE
from gold.plan import Task

HELD_ROWS = 5_000
HELD_CHARACTERS = 16_000_000


def held_changes(spark: SparkSession, lake: Lakehouse, tasks: Sequence[Task]) -> pa.Table | None:
    """The row changes of these tables up to their batches, from silver; None where they are too many or too large to hold."""
    if sum(task.rows for task in tasks) > HELD_ROWS:
        return None
    names = {piece.table.table for task in tasks for piece in task.lineage.pieces}
    mine = F.col("source").isin({task.source for task in tasks}) & F.col("table").isin(names) & (F.col("kind") == "row")
    changes = lake.read(spark, CHANGES_TABLE).where(mine & (F.col("batch") <= max(task.top for task in tasks)))
    sizes = [F.coalesce(F.length(F.to_json(image)), F.lit(0)) for image in ("before", "after")]
    size = changes.agg(F.count("*"), F.coalesce(F.sum(sizes[0] + sizes[1]), F.lit(0))).collect()[0]
    return changes.toArrow() if size[0] <= HELD_ROWS and size[1] <= HELD_CHARACTERS else None


def changes_of(spark: SparkSession, lake: Lakehouse, task: Task, held: pa.Table | None) -> DataFrame:
    """Silver's changes up to the task's batch, from what is held of them where it is."""
    changes = lake.read(spark, CHANGES_TABLE) if held is None else spark.createDataFrame(held, CHANGES)
    return changes.where(F.col("batch") <= task.top)
