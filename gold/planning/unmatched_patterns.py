"""Entries of `tables` in the configuration that match no table, or set up columns that no table has."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from framework.config.tables import MOST_HINTS, Patterns, patterns_without_table, unmatched
from framework.contracts.ddl_actions import TableName
from framework.contracts.table_names import BATCHES_TABLE
from framework.errors import nearest
from framework.lakehouse.kept_rows import kept_rows
from framework.lakehouse.table_reader import Query
from framework.pipeline.layer import Run
from gold.planning.kept_logs import counts_log
from gold.planning.knowledge import remembered
from gold.planning.table_state import TableId, TableState, applied_to_any, table_id
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
    patterns, known = defaultdict[str | None, list[str]](list), defaultdict[str | None, set[TableName]](set)
    for rule in run.config.tables:
        patterns[rule.source].append(rule.match)
    for task in tasks:
        for source in (None, task.source):
            known[source] |= {task.name, *(segment.table for segment in task.lineage.segments)}
    missing = {source: patterns_without_table(mine, known[source]) for source, mine in patterns.items()}
    kept_out = _kept_out(run) if any(missing.values()) else set()
    notes = list[str]()
    for source, unknown in missing.items():
        where = "tables" if source is None else f"tables of source {source}"
        notes += unmatched(unknown, known[source] | kept_out, where) if unknown else ()
    return tuple(notes)


def unknown_columns(run: Run, tasks: Sequence[Task], states: Mapping[TableId, TableState]) -> tuple[str, ...]:
    """Notes on settings of columns that no matching table has shown: a misspelled one has no effect.

    An entry is told only where rows of one of its tables are applied. Only the first few notes say which name
    is close.
    """
    rules = [rule for rule in run.config.tables if rule.columns]
    if not rules:
        return ()
    patterns, shown = Patterns(rule.match for rule in rules), [set[str]() for _ in rules]
    for task in tasks:
        state = states.get((task.source, task.name), task.state)
        names = {name for _, name in state.profile.evidence} | {column.name for column in state.columns}
        places = {task.name, *(segment.table for segment in task.lineage.segments)}
        for at in {at for place in places for at in patterns.of(place.database, place.schema, place.table)}:
            if rules[at].source in (None, task.source):
                shown[at] |= names
    found = list[str]()
    for rule, names in zip(rules, shown, strict=True):
        for column in rule.columns if names else ():
            if column not in names:
                close = nearest(column, sorted(names)) if len(found) < MOST_HINTS else None
                hint = f"; did you mean {close!r}?" if close else ""
                found.append(f"tables: no table of {rule.match!r} has a column {column!r} so far{hint}")
    return tuple(found)


def _kept_out(run: Run) -> set[TableName]:
    known = remembered(run)
    counts = None if known is None else kept_rows(run.lake, counts_log(applied_to_any(known.states)))
    if counts is None:
        return {table_id(row)[1] for row in run.tables.rows(_KEPT_OUT)}
    return {table_id(row)[1] for row in counts if row["kind"] in ("excluded", "quarantined")}
