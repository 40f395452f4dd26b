"""Rows that belong to no table: they have a name from before a table got that name by a rename.

A full load without positions brings such rows, as they count as older than all statements of their epoch. So
does a table of that name whose DROP is not known. Which of both it was, the rows do not show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from framework.contracts.erasure import FORGOTTEN
from framework.contracts.table_names import BATCHES_TABLE
from framework.lakehouse.table_reader import Query, TableReader
from gold.planning.table_state import TableId, table_id
from gold.planning.task import Task
from gold.schema.lineage import Segment

_LOWEST = Query(
    BATCHES_TABLE,
    "SELECT `source`, `database`, `schema`, `table`, `batch`, min(`min_sequence`) AS `sequence` FROM {rows} "
    "WHERE `kind` = 'row' AND `table` IS NOT NULL AND `batch` > {since} "
    "AND NOT (`reason` IS NOT DISTINCT FROM {forgotten}) "
    "GROUP BY `source`, `database`, `schema`, `table`, `batch`",
)


def with_unclaimed(tables: TableReader, tasks: Sequence[Task]) -> list[Task]:
    """Adds to each table the names under which new rows belong to no table.

    All rows count where the rename is new.
    """
    applied = [_applied(task, segment) for task in tasks for segment in task.lineage.unclaimed]
    if not applied:
        return list(tasks)
    lowest: dict[TableId, list[tuple[int, str]]] = {}
    for row in tables.rows(_LOWEST, since=min(applied), forgotten=FORGOTTEN):
        if row["sequence"] is not None:
            lowest.setdefault(table_id(row), []).append((row["batch"], row["sequence"]))
    return [replace(task, unclaimed=_names(task, lowest)) for task in tasks]


def _names(task: Task, lowest: Mapping[TableId, Sequence[tuple[int, str]]]) -> tuple[str, ...]:
    return tuple(
        segment.table.dotted
        for segment in task.lineage.unclaimed
        if any(
            batch > _applied(task, segment) and segment.end is not None and sequence < segment.end
            for batch, sequence in lowest.get((task.source, segment.table), ())
        )
    )


def _applied(task: Task, segment: Segment) -> int:
    """The last batch whose rows were judged already."""
    is_new = task.statement_batches.get(segment.end or "", -1) > task.state.batch
    return -1 if is_new else task.state.batch
