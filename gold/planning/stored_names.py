"""The stored columns of a table under the names of today, while statements wait or its columns are frozen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from framework.config.tables import SchemaPolicy
from gold.planning.rebuild import applied_column_changes, begins_as_applied
from gold.planning.task import Task
from gold.schema.columns import ColumnNaming, TableColumn


def columns_by_current_name(task: Task, namings: Sequence[ColumnNaming]) -> dict[str, TableColumn]:
    """The columns that the stored replica has, by the names that they have today.

    Where a statement came late, the naming of the stored columns is not known: a column has all the names
    then that any naming up to there gives it. The columns of a table that was created again have their own.
    """
    columns, known = task.state.columns, applied_column_changes(task.state)
    if not has_same_life(task) or known >= len(namings):
        return {column.name: column for column in columns}
    first = known if begins_as_applied(task.state, task.lineage) else 0
    named = ((naming.current_name(c.name), c) for naming in namings[first : known + 1] for c in columns)
    return {name: column for name, column in named if name is not None}


def has_same_life(task: Task) -> bool:
    """Whether the stored replica has rows, all of them from after the table's newest creation."""
    first = task.state.profile.min_sequence
    return first is not None and first >= task.lineage.segments[0].start


def frozen_columns(
    task: Task, namings: Sequence[ColumnNaming], columns: tuple[TableColumn, ...]
) -> tuple[TableColumn, ...]:
    """The columns that the policies `ignore` and `fail` leave of these, with their stored types and order.

    A source that moves a column changes no data: `fail` keeps the order, too, and only that. A type that the
    configuration names is no change of the source: it applies here too. All of `columns` are returned for a
    new table, as one that was created again is, and before the first rows.
    """
    state, policy = task.state, task.settings.schema_policy
    is_known = state.columns and has_same_life(task) and applied_column_changes(state) < len(namings)
    if not is_known or policy not in (SchemaPolicy.IGNORE, SchemaPolicy.FAIL):
        return columns
    stored = columns_by_current_name(task, namings)
    places = {column.name: place for place, column in enumerate(state.columns)}
    ordered = sorted(columns, key=lambda c: places[stored[c.name].name] if c.name in stored else len(places))
    if policy is SchemaPolicy.FAIL:
        return tuple(ordered)
    rules = task.settings.columns
    chosen = {name for name, rule in rules.items() if rule.type or rule.decode}
    return tuple(
        column if column.name in chosen else replace(column, type=stored[column.name].type)
        for column in ordered
        if column.name in stored
    )
