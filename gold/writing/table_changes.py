"""A table's changes as its plan reads them: with current names, with the current key, and complete."""

from __future__ import annotations

from pyspark.sql import DataFrame

from gold.changes import key_changes
from gold.changes.effects import table_rows, with_current_names
from gold.changes.former_keys import with_current_key
from gold.planning.plan import Plan


def current_changes(changes: DataFrame, plan: Plan) -> DataFrame:
    """The table's row changes among rows of `silver/changes`, with current column names."""
    return with_current_names(
        table_rows(changes, plan.task.source, plan.task.lineage), plan.task.lineage, plan.namings
    )


def changes_with_current_key(changes: DataFrame, plan: Plan) -> DataFrame:
    """The same, with images that have the current key wherever earlier changes have it.

    `changes` are all changes of the table.
    """
    return _with_current_key(current_changes(changes, plan), plan)


def complete_changes(rows: DataFrame, plan: Plan) -> DataFrame:
    """Completes images with the current key, and with what partial key changes leave out.

    `rows` are all changes of the table, with current column names.
    """
    rows = _with_current_key(rows, plan)
    if not plan.layout.keys or not plan.profile.has_partial_key_changes:
        return rows
    return key_changes.fill_partial_key_changes(rows, plan.layout.key_columns, plan.task.truncated_at)


def _with_current_key(rows: DataFrame, plan: Plan) -> DataFrame:
    return with_current_key(
        rows,
        plan.former_keys,
        plan.task.truncated_at,
        has_partial_key_changes=plan.profile.has_partial_key_changes,
    )
