"""The changes of small tables, read once for a whole run instead of several times a table."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
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
    names = {name for task in tasks for name in _names(task)}
    mine = F.col("source").isin({task.source for task in tasks}) & F.col("table").isin(names) & (F.col("kind") == "row")
    changes = lake.read(spark, CHANGES_TABLE).where(mine & (F.col("batch") <= max(task.top for task in tasks)))
    sizes = [F.coalesce(F.length(F.to_json(image)), F.lit(0)) for image in ("before", "after")]
    size = changes.agg(F.count("*"), F.coalesce(F.sum(sizes[0] + sizes[1]), F.lit(0))).collect()[0]
    return changes.toArrow() if size[0] <= HELD_ROWS and size[1] <= HELD_CHARACTERS else None


def changes_of(spark: SparkSession, lake: Lakehouse, task: Task, held: pa.Table | None) -> DataFrame:
    """Silver's changes up to the task's batch; what is held of its tables alone, where it is."""
    if held is None:
        changes = lake.read(spark, CHANGES_TABLE)
    else:
        mine = pc.is_in(held["table"], value_set=pa.array(sorted(_names(task)), pa.string()))
        found = held.filter(mine)  # a table without a row has no chunk then, of which Spark makes no frame
        changes = spark.createDataFrame(found if found.num_rows else held.schema.empty_table(), CHANGES)
    return changes.where(F.col("batch") <= task.top)


def _names(task: Task) -> frozenset[str]:
    return frozenset(piece.table.table for piece in task.lineage.pieces)
