"""What gold knows at the end of its run, for the quality step of the same run, which reads it no more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from framework.contracts.ddl_actions import TableName
from framework.pipeline.layer import Run
from gold.planning.table_state import TableState
from gold.planning.task import Task

States = Mapping[tuple[str, TableName], TableState]
"""The newest state of each table, by its source and name."""
_MEMO = "gold"


@dataclass(frozen=True, slots=True)
class CachedChanges:
    """Row changes of some tables in this process.

    Attributes:
        rows: Rows of `silver/changes`, by `table`.
        spans: Where the rows of each name of `table` are, so that a run of many tables looks only once.
        since: They are all row changes of the tables in batches after this one; -1: all there are.
        places: The source and name of these tables.
    """

    rows: pa.Table
    spans: Mapping[str | None, tuple[int, int]]
    since: int = -1
    places: frozenset[tuple[str, TableName]] = frozenset()

    def covers(self, task: Task) -> bool:
        """Whether the changes of the task's table are here."""
        return (task.source, task.name) in self.places

    def of(self, task: Task) -> pa.Table:
        """The rows with one of the names that the task's table has had."""
        spans = [self.spans[name] for name in sorted(table_names(task)) if name in self.spans]
        parts = [self.rows.slice(start, end - start) for start, end in spans]
        return pa.concat_tables(parts) if parts else self.rows.slice(0, 0)


def table_names(task: Task) -> frozenset[str]:
    """The names that the task's table has had, without database and schema."""
    return frozenset(segment.table.table for segment in task.lineage.segments)


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What gold knows.

    Attributes:
        states: The newest states.
        tasks: Every table of the configured sources that silver knows, as it was before the run.
        changes: The changes of small tables that the run has updated; None where none are kept.
    """

    states: States
    tasks: Sequence[Task]
    changes: CachedChanges | None = None


def remember(run: Run, knowledge: Knowledge) -> None:
    """Leaves gold's knowledge for the later steps of the run."""
    run.memo[_MEMO] = knowledge


def remembered(run: Run) -> Knowledge | None:
    """What gold left in this run; None where gold has not run in it."""
    found = run.memo.get(_MEMO)
    return found if isinstance(found, Knowledge) else None
