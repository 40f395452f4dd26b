"""The tables that gold writes, as `maintain` tends them."""

from __future__ import annotations

from collections.abc import Iterator

from framework.layer import Kept, Run
from gold.bad_values import BAD_VALUES_TABLE
from gold.plan import folder_of
from gold.state import TABLES_TABLE
from gold.tasks import Desk, all_tasks, named_tasks


def kept(run: Run) -> Iterator[Kept]:
    """The replicas and histories that there are, or those of one table, and gold's own logs."""
    tasks = all_tasks(Desk(run.spark, run.lake, run.config))
    if run.table is not None:
        tasks = named_tasks(tasks, run.table)
    for task in tasks:
        if task.has_place and task.rival is None:
            yield from _there(run, *(f"gold/{folder_of(task, is_history=is_history)}" for is_history in (False, True)))
    if run.table is None:
        yield from _there(run, TABLES_TABLE, BAD_VALUES_TABLE)


def _there(run: Run, *names: str) -> Iterator[Kept]:
    for name in names:
        if run.lake.exists(run.spark, name):
            yield Kept(name)
