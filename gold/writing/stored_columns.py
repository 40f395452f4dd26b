"""The columns of the stored tables: those that they have, and those that a plan gives them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from framework.lakehouse.commits import operations
from framework.lakehouse.lakehouse import read_table
from framework.lakehouse.older_copies import Mark, has_rows_since
from framework.naming import in_one_case
from gold.planning.plan import Plan
from gold.planning.task import Task
from gold.schema.columns import TableColumn
from gold.writing import merge


def unlike_planned(spark: SparkSession, plan: Plan, *paths: str | None) -> str | None:
    """Which column has neither its type of the state nor the planned one; None where there is none.

    A run that did not end has made it so. The rows that it merged lack values that did not fit the type of
    that time, so that to widen the column is not enough.
    """
    old = {column.name: column.type for column in plan.task.state.columns}
    names = plan.layout.gold_names
    for _, types in _stored_types(spark, *paths):
        for column in plan.layout.columns:
            kind = types.get(names[column.name], column.type)
            if kind not in (column.type, old.get(column.name)):
                return f"{column.name} changes from {kind} to {column.type}"
    return None


def widened_unpublished(spark: SparkSession, plan: Plan, *paths: str | None) -> str | None:
    """Which column gets a wider type in a table that a run without an end may have written; None for none.

    That run merged cells as null which the type of that time did not hold, and no state tells of them. Merged
    again, they would stay null, because rows with their positions are there.
    """
    state = plan.task.state
    old = {column.name: column.type for column in state.columns}
    wider = [c for c in plan.layout.columns if old.get(c.name, c.type) != c.type]
    if not wider or not _may_be_written(spark, plan.task, paths):
        return None
    return f"{wider[0].name} changes from {old[wider[0].name]} to {wider[0].type}"


def taken_by_others(spark: SparkSession, plan: Plan, *paths: str | None) -> str | None:
    """Which new column has one of somebody else in its place; None where there is none.

    Its cells would become values of the source. A column that an unfinished run has added is gold's own.
    """
    state, names = plan.task.state, plan.layout.gold_names
    old = {column.name for column in state.columns}
    new = {in_one_case(names[c.name]): c.name for c in plan.layout.columns if c.name not in old}
    if not new:
        return None
    marks = dict(zip((path for path in paths if path is not None), state.marks, strict=False))
    for path, types in _stored_types(spark, *paths):
        for stored in types:
            name = new.get(in_one_case(stored))
            if name is None:
                continue
            if stored != names[name] or (path in marks and _is_changed_by_others(spark, path, marks[path])):
                return f"{name} is stored already, in a column that no change has filled"
    return None


def _is_changed_by_others(spark: SparkSession, path: str, mark: Mark) -> bool:
    """Whether a new column that is stored was there at gold's last commit, or somebody has filled it since.

    Gold itself adds columns and merges rows.
    """
    done = operations(spark, path, mark["version"], datetime.now(UTC))
    return done is None or "ADD COLUMNS" not in done or "UPDATE" in done


def _may_be_written(spark: SparkSession, task: Task, paths: Sequence[str | None]) -> bool:
    """Whether a run may have written rows since the state was published.

    Where the state names no commits, that is so if several batches wait: those of one batch were merged, if
    at all, with the types that they have now.
    """
    marks = task.state.marks
    if not marks:
        return task.first_new is not None and task.first_new < task.newest
    places = (path for path in paths if path is not None)
    return any(has_rows_since(spark, path, mark) for path, mark in zip(places, marks, strict=False))


def change_columns(spark: SparkSession, plan: Plan, replica: str, history: str | None) -> None:
    """Adds new columns to the stored tables, widens and moves others, and sets what the source says of them.

    It may run again after a failure.
    """
    state, layout, names = plan.task.state, plan.layout, plan.layout.gold_names
    old = {column.name: column for column in state.columns}
    new = [c.name for c in layout.columns if c.name not in old]
    wider = [c for c in layout.columns if c.name in old and old[c.name].type != c.type]
    others = [c for c in layout.columns if c.name in old and old[c.name].comment != c.comment]
    has_comments = bool(others) or layout.comment != state.comment
    has_other_order = _has_other_order(state.columns, layout.columns)
    if not (new or wider or has_comments or has_other_order):
        return
    for path, types in _stored_types(spark, replica, history):
        missing = [name for name in new if names[name] not in types]
        if missing:
            merge.add_columns(spark, path, layout, missing)
        narrow = [c.name for c in wider if types.get(names[c.name]) != c.type]
        if narrow:
            merge.widen_columns(spark, path, layout, narrow)
        if has_comments:
            merge.set_comments(spark, path, layout if path == replica else plan.history_layout, others)
        if has_other_order:
            merge.order_columns(spark, path, layout)


def _has_other_order(old: Sequence[TableColumn], planned: Sequence[TableColumn]) -> bool:
    """Whether the source has moved columns that the stored tables have.

    Only a feed that declares its columns shows that: the order of a JSON object's names says nothing.
    """
    if any(column.declared is None for column in planned):
        return False
    shared = {c.name for c in old} & {c.name for c in planned}
    return [c.name for c in old if c.name in shared] != [c.name for c in planned if c.name in shared]


def _stored_types(spark: SparkSession, *paths: str | None) -> Iterator[tuple[str, Mapping[str, str]]]:
    """The places of tables with the types of their columns, by name; runs no job."""
    for path in paths:
        if path is not None:
            yield path, {f.name: f.dataType.simpleString() for f in read_table(spark, path).schema}
