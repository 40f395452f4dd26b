"""The changes of small runs, read once for a whole run instead of several times for each table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, replace
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.contracts.ddl_actions import TableName
from framework.contracts.table_names import CHANGES_TABLE
from framework.contracts.table_schemas import CHANGES
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.parquet_files import read_parquet
from framework.lakehouse.recent_rows import files_above, rows_above
from framework.lakehouse.sorted_rows import rows_by
from framework.spark.local_frame import arrow_frame
from gold.changes.few_changes import TableChanges, row_changes
from gold.planning.knowledge import CachedChanges, places_of
from gold.planning.table_state import TableId
from gold.planning.task import Task

MAX_CACHED_ROWS = 5_000
MAX_CACHED_CHARACTERS = 16_000_000
"""How many changes, with images of how many characters, a small table has."""
MAX_ROWS_TOGETHER = 200_000
_FILES_BYTES = 64_000_000
"""How many changes small tables have together, and how many bytes of `silver/changes` are read for them."""
_MANY_TABLES = 4
"""So many small tables beside large ones are read together."""
_PLACE, _BETWEEN = ("source", "database", "schema", "table"), "\0"
_FEW_FILES = 32
"""Spark finds the files of a table faster than so many files by their names."""


Group = tuple[list[Task], CachedChanges | None]


def change_groups(spark: SparkSession, lake: Lakehouse, tasks: Sequence[Task]) -> Iterator[Group]:
    """Tables in groups, each with the row changes of its small tables: all of them, or the new ones.

    The groups come one after the other, so that those of one are in memory at a time. The first one has the
    other tables, too. None instead of changes where no table of a group is small, or where it costs less to
    read them for each table.
    """
    is_all = sum(task.rows for task in tasks) <= MAX_CACHED_ROWS
    small = [task for task in tasks if is_all or task.rows_to_read <= MAX_CACHED_ROWS]
    if not small:
        yield list(tasks), None
        return
    since = -1 if is_all else _before_new(small)
    near = rows_above(lake, CHANGES_TABLE, ("batch", since), CHANGES, (MAX_ROWS_TOGETHER, _FILES_BYTES))
    if near is not None or len(small) < min(len(tasks), _MANY_TABLES):
        yield list(tasks), None if near is None else _of_small(_rows_of(near, small), small, since)
        return
    groups = _packed(small, _sizes(_read(spark, lake, small, since)))
    grouped = {(task.source, task.name) for group in groups for task in group}
    others = [task for task in tasks if (task.source, task.name) not in grouped]
    for group in groups or [[]]:
        begin = -1 if is_all else _before_new(group)
        changes = _of_small(_read(spark, lake, group, begin).toArrow(), group, begin) if group else None
        yield [*others, *group], changes
        others = []


def cache_all_changes(spark: SparkSession, lake: Lakehouse, tasks: Sequence[Task]) -> CachedChanges | None:
    """All row changes of the tables up to their batches; None where they are too many or too large."""
    if sum(task.rows for task in tasks) > MAX_CACHED_ROWS:
        return None
    groups = list(change_groups(spark, lake, tasks))
    return groups[0][1] if len(groups) == 1 else None


def _before_new(tasks: Iterable[Task]) -> int:
    """The batch after which the new changes of tables begin."""
    return min((task.first_new for task in tasks if task.first_new is not None), default=0) - 1


def _rows_of(changes: pa.Table, tasks: Iterable[Task]) -> pa.Table:
    """The row changes of tables, and perhaps some others of tables that are called the same."""
    names = {name.table for task in tasks for _, name in places_of(task)}
    top = max(task.top for task in tasks)
    is_mine = pc.field("table").isin(sorted(names)) & (pc.field("kind") == "row")
    return changes.filter(is_mine & (pc.field("batch") <= top))


def _read(spark: SparkSession, lake: Lakehouse, tasks: Sequence[Task], since: int) -> DataFrame:
    """The row changes of tables after a batch."""
    places = [place for task in tasks for place in places_of(task)]
    names = {name.table for _, name in places}
    texts = {_BETWEEN.join((source, *(part or "" for part in astuple(name)))) for source, name in places}
    place = F.concat_ws(_BETWEEN, *(F.coalesce(F.col(column), F.lit("")) for column in _PLACE))
    is_mine = F.col("table").isin(names) & place.isin(texts) & (F.col("kind") == "row")
    top = max(task.top for task in tasks)
    return lake.read(spark, CHANGES_TABLE).where(is_mine & (F.col("batch") <= top) & (F.col("batch") > since))


def _sizes(changes: DataFrame) -> dict[TableId, tuple[int, int]]:
    """How many changes came under each name, and how many characters their images have."""
    lengths = [F.coalesce(F.length(F.to_json(image)), F.lit(0)) for image in ("before", "after")]
    sizes = changes.groupBy(*_PLACE).agg(F.count("*"), F.sum(lengths[0] + lengths[1]))
    return {(source, TableName(*name)): (rows, size) for source, *name, rows, size in sizes.collect()}


def _packed(tasks: Iterable[Task], sizes: Mapping[TableId, tuple[int, int]]) -> list[list[Task]]:
    """The small ones of tables in groups that fit into this process, those with the oldest changes first."""
    groups, left = list[list[Task]](), (-1, -1)
    for task in sorted(tasks, key=lambda task: -1 if task.first_new is None else task.first_new):
        own = [sizes.get(place, (0, 0)) for place in places_of(task)]
        rows, characters = sum(one for one, _ in own), sum(one for _, one in own)
        if rows > MAX_CACHED_ROWS or characters > MAX_CACHED_CHARACTERS:
            continue
        if rows > left[0] or characters > left[1]:
            groups.append([])
            left = MAX_ROWS_TOGETHER, _FILES_BYTES
        groups[-1].append(task)
        left = left[0] - rows, left[1] - characters
    return groups


def _of_small(rows: pa.Table, tasks: Iterable[Task], since: int) -> CachedChanges | None:
    """The changes of those of the tables that are small; None where none is."""
    rows, spans = rows_by(rows, _PLACE)
    at = {(source, TableName(*name)): span for (source, *name), span in spans.items()}
    found = CachedChanges(rows, at, since)
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
