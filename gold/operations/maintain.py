"""The tables of gold that `maintain` compacts and cleans."""

from __future__ import annotations

from collections.abc import Iterator

from framework.contracts.table_names import BAD_VALUES_TABLE, TABLES_TABLE
from framework.pipeline.layer import MaintainedTable, Run
from gold.planning.discovery import all_tasks, named_tasks, unnamed_tasks
from gold.planning.task import folder_of


def tables_to_maintain(run: Run) -> Iterator[MaintainedTable]:
    """The replicas and histories, or those of one table, and gold's own logs.

    Those of renamed and excluded tables, and of sources that are not configured, are among them: their old
    files may hold rows that are forgotten.
    """
    tasks = [*all_tasks(run), *unnamed_tasks(run)]
    if run.table is not None:
        tasks = named_tasks(tasks, run.table, run.config)
    folders = dict.fromkeys(
        f"gold/{folder_of(task, is_history=is_history)}"
        for task in tasks
        if task.rival is None
        for is_history in (False, True)
    )
    for name in (*folders, *((TABLES_TABLE, BAD_VALUES_TABLE) if run.table is None else ())):
        yield MaintainedTable(name)
