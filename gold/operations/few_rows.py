"""The changes of a small table, read in this process: how its rows came to be takes no Spark job."""

from __future__ import annotations

from typing import Any

from framework.pipeline.layer import Run
from gold.changes.few_changes import OnlyFew, current_changes, row_changes
from gold.planning.plan import Plan, plan_to_read
from gold.planning.stored_schemas import StoredSchemas
from gold.planning.task import Task
from gold.writing.change_cache import cache_all_changes


def few_rows(run: Run, task: Task) -> tuple[Plan | None, list[dict[str, Any]]] | None:
    """The plan of a table, and all its row changes, with current names and the current key.

    None where they are many, and where the table had another key: only Spark completes its images.
    """
    cached = cache_all_changes(run.spark, run.lake, [task])
    if cached is None:
        return None
    rows = cached.of(task)
    few = OnlyFew(row_changes(rows, task.source, task.lineage))
    plan = plan_to_read(run.spark, run.lake, few, task, StoredSchemas(run.spark, run.lake))
    if plan is None:
        return None, []
    if plan.former_keys is not None:
        return None
    return plan, current_changes(rows, task.source, task.lineage, plan.namings)
