"""How many rows gold reads to bring a table up to date, by which its session is set up."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import SparkSession

from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.newest_tables import newest_tables
from framework.spark.tuning import SMALL_ROWS
from gold.planning.plan import Plan
from gold.writing.late_changes import is_late
from gold.writing.new_versions import can_continue


def rows_read(spark: SparkSession, lake: Lakehouse, plan: Plan, stored: Iterable[str | None]) -> int:
    """About how many rows of silver or of the stored tables the plan reads.

    Most merges read the new changes and the stored rows, however many changes there were before. Where
    nobody knows how many rows are stored, all changes of the table are the answer.

    Args:
        spark: The session.
        lake: The lakehouse.
        plan: The plan.
        stored: The places of the table's replica and history; None for what the table does not have.
    """
    task = plan.task
    if task.rows <= SMALL_ROWS or _reads_old_changes(plan):
        return task.rows
    if not plan.layout.keys:
        return task.new_rows
    tables = newest_tables(spark, lake)
    counts = [tables.logged_count(place) for place in stored if place is not None]
    known = [count for count in counts if count is not None]
    return max(task.new_rows, *known) if known and len(known) == len(counts) else task.rows


def _reads_old_changes(plan: Plan) -> bool:
    """Whether changes that are applied already are read again."""
    return (
        plan.rebuild is not None
        or (plan.task.settings.history and not can_continue(plan))
        or plan.batch_profile.has_key_changes
        or is_late(plan)
        or plan.task.state.is_unlisted
        or plan.has_new_former_keys
    )
