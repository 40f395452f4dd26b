"""A table's changes as its plan reads them: with current names, with the current key, and complete."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession

from framework.spark.local_frame import local_frame
from gold.changes import key_changes
from gold.changes.effects import table_rows, with_current_names
from gold.changes.former_keys import with_current_key
from gold.planning.plan import Plan
from gold.planning.task import Task


@dataclass(frozen=True, slots=True)
class ChangeFrames:
    """Makes the row changes of a table as frames, with current column names.

    Attributes:
        new: Makes the changes that the table gets.
        all_changes: Makes all changes of the table; None where it gets all of them.
    """

    new: Callable[[], DataFrame]
    all_changes: Callable[[], DataFrame] | None = None

    def everything(self) -> DataFrame:
        """All changes of the table."""
        return (self.all_changes or self.new)()


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


def truncates(spark: SparkSession, task: Task, after: int) -> DataFrame:
    """The truncates of the table in batches after `after`: `change_id`, `sequence` and `event_time`."""
    rows = _truncate_rows(task, after)
    return local_frame(spark, rows, "change_id string, sequence string, event_time timestamp").dropDuplicates(
        ["change_id"]
    )


def _truncate_rows(task: Task, after: int) -> list[tuple[str, str, datetime | None]]:
    rows = []
    for sequence, change_id in task.lineage.truncates:
        event_time, batch = task.truncate_times.get(sequence, (None, -1))
        if batch > after:
            rows.append((change_id, sequence, event_time))
    return rows


def new_positions(plan: Plan) -> tuple[str, str] | None:
    """The lowest and the highest sequence of the new changes and truncates; None where there are none."""
    new = plan.batch_profile
    positions = [sequence for _, sequence, _ in _truncate_rows(plan.task, plan.task.state.batch)]
    positions += [position for position in (new.min_sequence, new.max_sequence) if position is not None]
    return (min(positions), max(positions)) if positions else None
