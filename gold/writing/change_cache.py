"""The changes of small runs, read once for a whole run instead of several times for each table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.contracts.table_names import CHANGES_TABLE
from framework.contracts.table_schemas import CHANGES
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.parquet_files import read_parquet
from framework.lakehouse.recent_rows import files_above, rows_above
from framework.lakehouse.sorted_rows import rows_by
from framework.spark.local_frame import arrow_frame
from gold.changes.few_changes import TableChanges, row_changes
from gold.planning.knowledge import CachedChanges, table_names
from gold.planning.task import Task

MAX_CACHED_ROWS = 5_000
MAX_CACHED_CHARACTERS = 16_000_000
"""How many changes, with images of how many characters, a small table has."""
MAX_ROWS_TOGETHER = 200_000
_FILES_BYTES = 64_000_000
"""How many changes small tables have together, and how many bytes of `silver/changes` are read for them."""
_FEW_FILES = 32
"""Spark finds the files of a table faster than so many files by their names."""


def cache_changes(spark: SparkSession, lake: Lakehouse, tasks: Sequence[Task]) -> CachedChanges | None:
    """The row changes of small tables up to their batches: all of them, or the new ones where all are many.

    None where no table is small, or where finding them in this process would read too much.
    """
    if sum(task.rows for task in tasks) <= MAX_CACHED_ROWS:
        return _cached(spark, lake, tasks, -1)
    small = [task for task in tasks if task.new_rows <= MAX_CACHED_ROWS]
    since = min((task.first_new for task in small if task.first_new is not None), default=0) - 1
    return _cached(spark, lake, small, since, is_all=len(small) == len(tasks))


def cache_all_changes(spark: SparkSession, lake: Lakehouse, tasks: Sequence[Task]) -> CachedChanges | None:
    """All row changes of the tables up to their batches; None where they are too many or too large."""
    if sum(task.rows for task in tasks) > MAX_CACHED_ROWS:
        return None
    return _cached(spark, lake, tasks, -1)


def _cached(
    spark: SparkSession, lake: Lakehouse, tasks: Sequence[Task], since: int, *, is_all: bool = True
) -> CachedChanges | None:
    """The changes of the tables after a batch. `is_all`: the run has no table beside them."""
    if not tasks or sum(task.new_rows if since >= 0 else task.rows for task in tasks) > MAX_ROWS_TOGETHER:
        return None
    names = {name for task in tasks for name in table_names(task)}
    sources, top = {task.source for task in tasks}, max(task.top for task in tasks)
    near = rows_above(lake, CHANGES_TABLE, ("batch", since), CHANGES, (MAX_ROWS_TOGETHER, _FILES_BYTES))
    if near is not None:
        found = near.filter(
            pc.field("source").isin(sorted(sources))
            & pc.field("table").isin(sorted(names))
            & (pc.field("kind") == "row")
            & (pc.field("batch") <= top)
        )
        return _of_small(found, tasks, since)
    if not is_all:  # Spark reads silver for the other tables anyway
        return None
    mine = F.col("source").isin(sources) & F.col("table").isin(names) & (F.col("kind") == "row")
    changes = lake.read(spark, CHANGES_TABLE).where(mine & (F.col("batch") <= top) & (F.col("batch") > since))
    sizes = [F.coalesce(F.length(F.to_json(image)), F.lit(0)) for image in ("before", "after")]
    size = changes.agg(F.count("*"), F.coalesce(F.sum(sizes[0] + sizes[1]), F.lit(0))).collect()[0]
    if size[0] > MAX_ROWS_TOGETHER or size[1] > _FILES_BYTES:
        return None
    return _of_small(changes.toArrow(), tasks, since)


def _of_small(rows: pa.Table, tasks: Iterable[Task], since: int) -> CachedChanges | None:
    """The changes of those of the tables that are small; None where none is."""
    found = CachedChanges(*rows_by(rows, "table"), since)
    places = frozenset((task.source, task.name) for task in tasks if _is_small(found.of(task)))
    return replace(found, places=places) if places else None


def _is_small(changes: pa.Table) -> bool:
    return changes.num_rows <= MAX_CACHED_ROWS and _size(changes) <= MAX_CACHED_CHARACTERS


def _size(changes: pa.Table) -> int:
    """How many characters the images have, about."""
    return sum(changes[image].nbytes for image in ("before", "after"))


def changes_of(
    spark: SparkSession, lake: Lakehouse, task: Task, cached: CachedChanges | None, since: int = -1
) -> DataFrame:
    """The changes of silver up to the task's batch; those of its tables where the cache has all of them.

    `since`: the caller reads no batch up to this one.
    """
    if cached is None or cached.since > since or not cached.covers(task):
        changes = lake.read(spark, CHANGES_TABLE)
    else:
        changes = arrow_frame(spark, cached.of(task), CHANGES)
    return changes.where(F.col("batch") <= task.top)


def table_changes_of(
    spark: SparkSession, lake: Lakehouse, task: Task, cached: CachedChanges | None
) -> TableChanges:
    """The changes of silver up to the task's batch, and the new ones from the cache where it has them.

    New ones that are not in the cache are read from their files, without a look at those of the past.
    """

    @cache
    def all_rows() -> DataFrame:
        return changes_of(spark, lake, task, cached)

    if cached is None or not cached.covers(task):
        files = files_above(lake, CHANGES_TABLE, ("batch", task.state.batch))
        if not files or len(files) > _FEW_FILES:
            return TableChanges(all_rows)

        @cache
        def recent_rows() -> DataFrame:
            rows = read_parquet(spark, CHANGES, *(str(file.path) for file in files))
            return rows.where(F.col("batch") <= task.top)

        return TableChanges(all_rows, None, task.state.batch, recent_rows)
    mine = cached.of(task)
    few = [change for change in row_changes(mine, task.source, task.lineage) if change.batch <= task.top]
    if cached.since < 0:
        return TableChanges(all_rows, few)
    applied = task.state.batch

    @cache
    def new_rows() -> DataFrame:
        new = mine.filter(pc.greater(mine["batch"], pa.scalar(applied, pa.int64())))
        return arrow_frame(spark, new, CHANGES).where(F.col("batch") <= task.top)

    return TableChanges(all_rows, [change for change in few if change.batch > applied], applied, new_rows)
