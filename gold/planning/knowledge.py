"""What gold knows at the end of its run, for the quality step of the same run, which reads it no more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from framework.pipeline.layer import Run
from gold.planning.table_state import TableId, TableState
from gold.planning.task import Task

States = Mapping[TableId, TableState]
"""The newest state of each table, by its source and name."""
_MEMO = "gold"


@dataclass(frozen=True, slots=True)
class CachedChanges:
    """Row changes of some tables in this process.

    Attributes:
        rows: Rows of `silver/changes`, by source, database, schema and table.
        spans: Where the rows of each table of these are, so that a run of many tables looks only once.
        since: They are all row changes of the tables in batches after this one; -1: all there are.
        places: The source and name of these tables.
    """

    rows: pa.Table
    spans: Mapping[TableId, tuple[int, int]]
    since: int = -1
    places: frozenset[TableId] = frozenset()

    def covers(self, task: Task) -> bool:
        """Whether the changes of the task's table are here."""
        return (task.source, task.name) in self.places

    def of(self, task: Task) -> pa.Table:
        """The rows that came under one of the names that the task's table has had."""
        spans = [self.spans[place] for place in places_of(task) if place in self.spans]
        parts = [self.rows.slice(start, end - start) for start, end in spans]
        return pa.concat_tables(parts) if parts else self.rows.slice(0, 0)


def places_of(task: Task) -> list[TableId]:
    """The source and the names that the task's table has had, each once."""
    return list(dict.fromkeys((task.source, segment.table) for segment in task.lineage.segments))


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
