"""Which tables have something new, from the counts and statements that silver has published."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import Any

from framework.config.model import Config
from framework.contracts.ddl_actions import TableName, Unsupported, actions_of, has_effect
from framework.contracts.erasure import FORGOTTEN
from framework.contracts.expectations import Rule
from framework.contracts.table_names import (
    BATCHES_TABLE,
    CHANGES_TABLE,
    REPAIRS_TABLE,
    STATEMENTS_TABLE,
)
from framework.errors import ConfigurationError, nearest
from framework.lakehouse.kept_rows import kept_rows
from framework.lakehouse.lakehouse import local_log
from framework.lakehouse.log_files import has_commit
from framework.lakehouse.older_copies import Mark, is_put_back
from framework.lakehouse.table_reader import Query, Row, TableReader
from framework.pipeline.layer import Run
from framework.pipeline.named_table import is_excluded, table_excluded, tables_called
from framework.quality.rules import rule_of, unique_by_name
from gold.planning.kept_logs import STATEMENTS, counts_log, extents_of
from gold.planning.places import unnamed_owners, with_rivals
from gold.planning.rebuild import is_behind, marked_places
from gold.planning.table_state import State, TableId, TableState, applied_to_any, read_states, table_id
from gold.planning.task import Task, folder_of
from gold.schema.lineage import START, Lineage, earlier_lives, trace_tables
from gold.schema.source_statements import Statement, TablesByPlace

_REPAIRS = Query(
    REPAIRS_TABLE,
    "SELECT `source`, `database`, `schema`, `table`, `number`, `repair` FROM {rows} "
    "WHERE `state` = 'begun' AND `table` IS NOT NULL",
)
_EXTENTS = Query(
    BATCHES_TABLE,
    "SELECT `source`, `database`, `schema`, `table`, `counted` AS `kind`, max(`batch`) AS `last`, "
    "sum(`rows`) AS `rows`, "
    "min(`min_sequence`) AS `oldest`, max(`max_sequence`) AS `sequence`, "
    "sum(CASE WHEN `batch` > {applied} THEN `rows` END) AS `new`, "
    "min(CASE WHEN `batch` > {applied} THEN `batch` END) AS `first`, "
    "max(CASE WHEN `batch` <= {applied} THEN `batch` END) AS `before` "
    "FROM (SELECT *, CASE WHEN (`reason` IS NOT DISTINCT FROM {forgotten}) THEN {forgotten} ELSE `kind` END "
    "AS `counted` FROM {rows} WHERE `table` IS NOT NULL "
    "AND `kind` IN ('row', 'ddl', 'truncate', 'excluded')) AS told "
    "GROUP BY `source`, `database`, `schema`, `table`, `counted`",
)
_STATEMENTS = Query(
    STATEMENTS_TABLE,
    "SELECT `source`, `database`, `schema`, `table`, `sequence`, `change_id`, `batch`, `actions`, "
    "`statement`, `ordinal`, `topic`, `partition`, `offset`, `event_time` FROM {rows} "
    "WHERE `table` IS NOT NULL",
)


def waiting_tasks(run: Run, tasks: Sequence[Task]) -> list[Task]:
    """Those of all tasks whose tables are behind or parked, or whose replica is gone.

    With a table in `run`, that table alone.

    Raises:
        ConfigurationError: TABLE_UNKNOWN where no table has that name.
    """
    found = tasks if run.table is None else named_tasks(tasks, run.table, run.config)
    return [task for task in found if (is_behind(task) or _is_gone(run, task)) and not task.settings.exclude]


def _is_gone(run: Run, task: Task) -> bool:
    """Whether the replica or its history is gone, or lacks the last commit that gold has made there.

    Not checked in an object store, where the request costs too much: `status --verify` finds it there.
    """
    has_replica = task.state.replica is not None and task.state.state in (State.ACTIVE, State.APPEND_ONLY)
    if not has_replica or run.lake.local_root is None:
        return False
    has_history = task.settings.history and task.state.history is not None
    names = [folder_of(task), *([folder_of(task, is_history=True)] if has_history else ())]
    if not all(run.lake.exists(run.spark, f"gold/{name}") for name in names):
        return True
    marked = ((run.lake.location(name), mark) for name, mark in marked_places(task))
    return any(_lacks_commit(run, location, mark) for location, mark in marked)


def _lacks_commit(run: Run, location: str, mark: Mark) -> bool:
    """Whether the table is surely an older copy. Each run asks for all tables, so that it must be cheap."""
    log = local_log(location)
    is_there = log is None or has_commit(log, mark["version"])
    return not is_there and is_put_back(run.spark, location, mark)


def named_tasks(tasks: Sequence[Task], name: str, config: Config) -> list[Task]:
    """The tasks of the table `database.table` or `database.schema.table`, one of each source that has it.

    A table of another name in gold answers to that one, too, where no table of a source has it.

    Raises:
        ConfigurationError: TABLE_EXCLUDED where the configuration excludes the table and nothing of it came
            before, TABLE_UNKNOWN where no table has that name, TABLE_AMBIGUOUS where different tables have
            it.
    """
    found = tables_called(name, tasks, lambda task: task.lineage.renamed_to is not None)
    if found:
        return found
    if is_excluded(name, config):
        raise table_excluded(name)
    names = sorted(task.name.dotted for task in tasks)
    if not names:
        raise ConfigurationError(
            "TABLE_UNKNOWN",
            found=f"no table {name!r}",
            where=CHANGES_TABLE,
            action="run first: no table is known yet",
        )
    close = nearest(name, names)
    raise ConfigurationError(
        "TABLE_UNKNOWN",
        found=f"no table {name!r}",
        where=CHANGES_TABLE,
        action=f"use one of: {', '.join(names[:20])}" + (f" (did you mean {close}?)" if close else ""),
    )


def newest_task(tasks: Sequence[Task], task: Task) -> Task:
    """The table under its newest name: the one whose changes include all of this one's."""
    mine = set(task.lineage.segments)
    of_source = (other for other in tasks if other.source == task.source and not other.lineage.renamed_to)
    return next((other for other in of_source if mine <= set(other.lineage.segments)), task)


def stale_replicas(tasks: Sequence[Task]) -> tuple[str, ...]:
    """A note on excluded tables whose replicas stay as they were."""
    names = sorted(
        task.name.dotted
        for task in tasks
        if task.settings.exclude and task.state.replica is not None and task.state.state is not State.DROPPED
    )
    if not names:
        return ()
    others = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return (f"excluded, but still there, and no longer kept up: the replica of {names[0]}{others}",)


def all_tasks(run: Run, known: Mapping[TableId, TableState] | None = None) -> list[Task]:
    """Every table of the configured sources that silver knows, whether it is behind or not.

    `known` has the states of the tables if they have been read already.
    """
    states = read_states(run.spark, run.lake) if known is None else known
    tasks = _tasks(run, states, is_configured=True)
    return with_rivals(tasks, unnamed_owners(run, tasks, states))


def unnamed_tasks(run: Run) -> list[Task]:
    """The tables of the sources that the configuration does not name (any more)."""
    return _tasks(run, read_states(run.spark, run.lake), is_configured=False)


def _tasks(run: Run, states: Mapping[TableId, TableState], *, is_configured: bool) -> list[Task]:
    if not run.lake.exists(run.spark, BATCHES_TABLE):
        return []
    extents = _extents(run, states)
    repairs = _repairs(run.tables)
    _add_statements(run, extents)
    top = max((batch for extent in extents.values() for batch in extent.batches.values()), default=-1)
    return [
        task
        for source, extent in sorted(extents.items())
        if (source in run.config.sources) is is_configured
        for task in _with_repairs(_source_tasks(run.config, source, extent, states, top), repairs)
    ]


def earlier_tables(run: Run, task: Task) -> tuple[Lineage, ...]:
    """The tables of the source that had one of this table's names before it and are gone."""
    extents = _extents(run, read_states(run.spark, run.lake))
    _add_statements(run, extents)
    extent = extents.get(task.source, _Extent())
    return earlier_lives(
        task.lineage, _read_statements(extent.statements)[0], extent.newest_rows, extent.oldest_rows
    )


def _repairs(tables: TableReader) -> dict[TableId, tuple[int, str]]:
    """The newest repair of each table, and its number."""
    found: dict[TableId, tuple[int, str]] = {}
    for row in tables.rows(_REPAIRS):
        repair, place = (row["number"], row["repair"]), table_id(row)
        found[place] = max(repair, found.get(place, repair))
    return found


def _with_repairs(tasks: Iterable[Task], repairs: Mapping[TableId, tuple[int, str]]) -> Iterator[Task]:
    """Adds to each task the newest repair of the tables that its table was."""
    for task in tasks:
        names = {task.name, *(segment.table for segment in task.lineage.segments)}
        mine = [repairs[table] for name in names if (table := (task.source, name)) in repairs]
        yield replace(task, repair=max(mine)[1]) if mine else task


@dataclass(frozen=True, slots=True)
class _News:
    """The changes of a table in the batches after one.

    Attributes:
        rows: How many rows.
        first: The first batch that has some; None where none has.
        before: The last batch up to that one; -1 where there is none.
    """

    rows: int = 0
    first: int | None = None
    before: int = -1

    def __or__(self, other: _News) -> _News:
        """What came under both names, or in both kinds."""
        firsts = [first for first in (self.first, other.first) if first is not None]
        return _News(self.rows + other.rows, min(firsts, default=None), max(self.before, other.before))


@dataclass(slots=True)
class _Extent:
    """What silver has of one source, by table.

    Attributes:
        batches: The last batch.
        rows: How many row changes.
        news: What came after the newest batch that gold has applied to any table.
        oldest_rows: The lowest sequence of a row change; of one that was forgotten, not below it.
        newest_rows: The highest sequence of a row change, also of one that was forgotten. None where no row
            is left and nothing tells where it was: the table is known all the same.
        excluded: How many messages came while the table was excluded.
        has_statements: Whether any table of the source has statements.
        statements: The rows of `ops/statements` of its tables, if it has any.
    """

    batches: dict[TableName, int] = field(default_factory=dict)
    rows: dict[TableName, int] = field(default_factory=dict)
    news: dict[TableName, _News] = field(default_factory=dict)
    oldest_rows: dict[TableName, str] = field(default_factory=dict)
    newest_rows: dict[TableName, str | None] = field(default_factory=dict)
    excluded: dict[TableName, int] = field(default_factory=dict)
    has_statements: bool = False
    statements: list[Row] = field(default_factory=list)

    def add_forgotten(self, name: TableName, sequence: str | None) -> None:
        """Takes rows into account that were forgotten: the table has had them."""
        ends = [end for end in (self.newest_rows.get(name), sequence) if end is not None]
        self.newest_rows[name] = max(ends, default=None)
        if sequence is not None:
            self.oldest_rows[name] = min(sequence, self.oldest_rows.get(name, sequence))


def _extents(run: Run, states: Mapping[TableId, TableState]) -> dict[str, _Extent]:
    """What silver has of each source."""
    applied = applied_to_any(states)
    counts, found = kept_rows(run.lake, counts_log(applied)), dict[str, _Extent]()
    forgotten: dict[TableId, str | None] = {}
    if counts is None:
        rows = run.tables.rows(_EXTENTS, applied=applied, forgotten=FORGOTTEN)
    else:
        rows = extents_of(counts, applied)
    for row in rows:
        source, name = table_id(row)
        if row["kind"] == FORGOTTEN:
            forgotten[source, name] = row["sequence"]
            continue
        extent = found.setdefault(source, _Extent())
        if row["kind"] == "excluded":
            extent.excluded[name] = row["rows"]
            continue
        extent.batches[name] = max(row["last"], extent.batches.get(name, -1))
        extent.rows[name] = row["rows"] + extent.rows.get(name, 0)
        news = _News(row["new"] or 0, row["first"], -1 if row["before"] is None else row["before"])
        extent.news[name] = news | extent.news.get(name, _News())
        if row["kind"] == "row":
            extent.newest_rows[name] = row["sequence"]
            if row["oldest"] is not None:
                extent.oldest_rows[name] = row["oldest"]
        else:
            extent.has_statements = True
    for (source, name), sequence in forgotten.items():
        # gold never had a table of which no change was ever applied
        if (source, name) in states or name in found.get(source, _Extent()).newest_rows:
            found.setdefault(source, _Extent()).add_forgotten(name, sequence)
    return found


def _source_tasks(
    config: Config,
    source: str,
    extent: _Extent,
    states: Mapping[TableId, TableState],
    top: int,
) -> list[Task]:
    statements, times = _read_statements(extent.statements)
    lineages = trace_tables(statements, extent.newest_rows, extent.oldest_rows)
    stated = _batches_at(statements, lineages)
    with_effect = _batches_at((each for each in statements if has_effect(each.actions)), lineages)
    tasks = []
    for name, lineage in sorted(lineages.items(), key=lambda item: repr(item[0])):
        settings = config.settings(source, name.database, name.schema, name.table)
        state = states.get((source, name), TableState(source, name, State.ACTIVE))
        newest = max((extent.batches.get(segment.table, -1) for segment in lineage.segments), default=-1)
        newest = max(newest, *stated.get(name, {}).values(), -1)
        names = {segment.table for segment in lineage.segments}
        told = sorted((batch, at) for other in names for at, batch in with_effect.get(other, {}).items())
        mine = {sequence: times[change_id] for sequence, change_id in lineage.truncates if change_id in times}
        rows = sum(extent.rows.get(segment.table, 0) for segment in lineage.segments)
        missed = sum(extent.excluded.get(segment.table, 0) for segment in lineage.segments)
        news = reduce(or_, (extent.news.get(segment.table, _News()) for segment in lineage.segments), _News())
        # a table that was parked has changes that gold has applied to others, but not to it
        is_known = news.before <= state.batch
        tasks.append(
            Task(
                source,
                lineage,
                state,
                settings,
                top,
                newest,
                rows,
                mine,
                has_rows=any(segment.table in extent.newest_rows for segment in lineage.segments),
                missed=missed,
                gates=_gates(config, name),
                new_rows=news.rows if is_known else rows,
                first_new=news.first if is_known else state.batch + 1,
                statement_batches={at: batch for batch, at in told},
            )
        )
    return tasks


def _batches_at(
    statements: Iterable[Statement], names: Iterable[TableName]
) -> dict[TableName, dict[str, int]]:
    """The newest batch of the statements about each table at each position; `names` are all tables."""
    found: dict[TableName, dict[str, int]] = {}
    places = TablesByPlace(names)
    for statement in statements:
        for table in places.tables_of(statement):
            batches = found.setdefault(table, {})
            batches[statement.sequence] = max(statement.batch, batches.get(statement.sequence, -1))
    return found


def _gates(config: Config, name: TableName) -> tuple[Rule, ...]:
    if not config.quality.enabled:
        return ()
    return unique_by_name(rule_of(entry) for entry in config.quality.rules_of(name) if entry.gate)


def _add_statements(run: Run, extents: Mapping[str, _Extent]) -> None:
    """Adds to each source that has statements its rows of `ops/statements`."""
    wanted = {source for source, extent in extents.items() if extent.has_statements}
    kept = kept_rows(run.lake, STATEMENTS) if wanted else ()
    for row in run.tables.rows(_STATEMENTS) if kept is None else kept:
        if row["source"] in wanted:
            extents[row["source"]].statements.append(row)


def _read_statements(rows: Iterable[Row]) -> tuple[list[Statement], dict[str, tuple[Any, int]]]:
    """The statements of these rows, each once, and the time and batch of each by its change."""
    statements, times = [], {}
    for row in rows:
        if row["change_id"] in times:
            continue
        name, actions = TableName(row["database"], row["schema"], row["table"]), actions_of(row["actions"])
        if row["sequence"] is None and has_effect(actions):
            actions = (Unsupported("a statement that has no position"),)
        statements.append(
            Statement(
                row["sequence"] or START,
                row["change_id"],
                row["batch"],
                name,
                actions,
                row["statement"],
                row["ordinal"],
                (row["topic"], row["partition"], row["offset"]),
            )
        )
        times[row["change_id"]] = (row["event_time"], row["batch"])
    return statements, times
