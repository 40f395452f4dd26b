"""Entries of `tables` in the configuration that match no table."""

from __future__ import annotations

from collections.abc import Sequence

from framework.config.tables import patterns_without_table, unmatched
from framework.contracts.ddl_actions import TableName
from framework.contracts.table_names import BATCHES_TABLE
from framework.lakehouse.kept_rows import kept_rows
from framework.lakehouse.table_reader import Query
from framework.pipeline.layer import Run
from gold.planning.kept_logs import counts_log
from gold.planning.knowledge import remembered
from gold.planning.table_state import applied_to_any, table_id
from gold.planning.task import Task

_KEPT_OUT = Query(
    BATCHES_TABLE,
    "SELECT DISTINCT `source`, `database`, `schema`, `table` FROM {rows} "
    "WHERE `kind` IN ('excluded', 'quarantined') AND `table` IS NOT NULL",
)


def unmatched_patterns(run: Run, tasks: Sequence[Task]) -> tuple[str, ...]:
    """Notes on entries of `tables` that match no table which silver knows.

    It knows tables of which all rows are excluded or in quarantine, too.
    """
    found = [
        note
        for source in dict.fromkeys(rule.source for rule in run.config.tables)
        for note in _unmatched_of(run, tasks, source)
    ]
    return tuple(found)


def _unmatched_of(run: Run, tasks: Sequence[Task], source: str | None) -> tuple[str, ...]:
    """The notes on entries that are about one source; None: on those that are about all."""
    mine = [task for task in tasks if source in (None, task.source)]
    names = {segment.table for task in mine for segment in task.lineage.segments}
    names |= {task.name for task in mine}
    patterns = [rule.match for rule in run.config.tables if rule.source == source]
    where = "tables" if source is None else f"tables of source {source}"
    missing = patterns_without_table(patterns, names)
    return unmatched(missing, names | _kept_out(run), where) if missing else ()


def _kept_out(run: Run) -> set[TableName]:
    known = remembered(run)
    counts = None if known is None else kept_rows(run.lake, counts_log(applied_to_any(known.states)))
    if counts is None:
        return {table_id(row)[1] for row in run.tables.rows(_KEPT_OUT)}
    return {table_id(row)[1] for row in counts if row["kind"] in ("excluded", "quarantined")}
