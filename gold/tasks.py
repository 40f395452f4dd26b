"""Which tables have something new, from the counts and statements that silver has published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.config import Config
from framework.contracts.actions import NotUnderstood, TableName, actions_of, has_effect
from framework.errors import ConfigurationError, nearest
from framework.quality.rules import Rule, configured, rule_of, told_apart
from framework.tables import Lakehouse
from gold.lineage import START, Statement, trace_tables
from gold.plan import Task, folder_of
from gold.profile import SchemaColumn
from gold.state import State, TableState, read_states

COUNTS_TABLE = "ops/batches"
STATEMENTS_TABLE = "ops/statements"
SCHEMAS_TABLE = "silver/schemas"


@dataclass(frozen=True, slots=True)
class Desk:
    """What gold works with."""

    spark: SparkSession
    lake: Lakehouse
    config: Config

    def read(self, name: str) -> DataFrame:
        """A table's newest version."""
        return self.lake.read(self.spark, name)


def waiting_tasks(desk: Desk, only: str | None = None) -> list[Task]:
    """The tables that are behind or parked, or whose replica is gone; with `only`, that table alone.

    Raises ConfigurationError when no table has that name.
    """
    found = all_tasks(desk)
    if only is not None:
        found = named_tasks(found, only)
    return [task for task in found if (task.is_behind or _is_gone(desk, task)) and not task.settings.exclude]


def _is_gone(desk: Desk, task: Task) -> bool:
    """Whether somebody has taken the replica away. In an object store the look costs too much: there `status --verify` tells."""
    is_there = task.state.replica is not None and task.state.state in (State.ACTIVE, State.APPEND_ONLY)
    return is_there and desk.lake.local_root is not None and not desk.lake.exists(desk.spark, "gold/" + folder_of(task))


def named_tasks(tasks: Sequence[Task], name: str) -> list[Task]:
    """The tasks of the table `database.table` or `database.schema.table`."""
    found = [task for task in tasks if task.name.dotted == name]
    if found:
        return found
    names = sorted(task.name.dotted for task in tasks)
    close = nearest(name, names)
    raise ConfigurationError(
        "TABLE_UNKNOWN",
        found=f"no table {name!r}",
        where="silver/changes",
        action=f"use one of: {', '.join(names[:20])}" + (f" (did you mean {close}?)" if close else ""),
    )


def all_tasks(desk: Desk, known: Mapping[tuple[str, TableName], TableState] | None = None) -> list[Task]:
    """Every table that silver has shown of the configured sources, whether it is behind or not.

    `known` are the tables' states where they have been read already.
    """
    if not desk.lake.exists(desk.spark, COUNTS_TABLE):
        return []
    states = read_states(desk.spark, desk.lake) if known is None else known
    extents = _extents(desk)
    top = max((batch for extent in extents.values() for batch in extent.batches.values()), default=-1)
    return _told_apart(
        [
            task
            for source, extent in sorted(extents.items())
            if source in desk.config.sources
            for task in _tasks_of(desk, source, extent, states, top)
        ]
    )


def _told_apart(tasks: Sequence[Task]) -> list[Task]:
    """The tasks, those marked whose place in gold another table has; case alone does not tell two places apart."""
    owners: dict[str, Task] = {}
    for task in sorted(tasks, key=lambda t: t.state.replica is None):
        if task.has_place:
            owners.setdefault(folder_of(task).casefold(), task)
    found = []
    for task in tasks:
        owner = owners.get(folder_of(task).casefold(), task) if task.has_place else task
        found.append(task if owner is task else replace(task, rival=f"{owner.name.dotted} of source {owner.source}"))
    return found


@dataclass(slots=True)
class _Extent:
    """What silver holds of one source, by table: the last batch, how many rows, the highest sequence of a row.

    `excluded` counts the messages that came while the table was excluded.
    """

    batches: dict[TableName, int] = field(default_factory=dict)
    rows: dict[TableName, int] = field(default_factory=dict)
    newest_rows: dict[TableName, str] = field(default_factory=dict)
    excluded: dict[TableName, int] = field(default_factory=dict)
    has_statements: bool = False


def _extents(desk: Desk) -> dict[str, _Extent]:
    counts = desk.read(COUNTS_TABLE).where("kind in ('row', 'ddl', 'truncate', 'excluded') and `table` is not null")
    grouped = counts.groupBy("source", "database", "schema", "table", "kind").agg(F.max("batch"), F.sum("rows"), F.max("max_sequence"))
    found: dict[str, _Extent] = {}
    for source, database, schema, table, kind, batch, rows, sequence in grouped.collect():
        extent, name = found.setdefault(source, _Extent()), TableName(database, schema, table)
        if kind == "excluded":
            extent.excluded[name] = rows
            continue
        extent.batches[name] = max(batch, extent.batches.get(name, -1))
        extent.rows[name] = rows + extent.rows.get(name, 0)
        if kind == "row":
            extent.newest_rows[name] = sequence
        else:
            extent.has_statements = True
    return found


def _tasks_of(
    desk: Desk,
    source: str,
    extent: _Extent,
    states: Mapping[tuple[str, TableName], TableState],
    top: int,
) -> list[Task]:
    statements, times = _statements(desk, source) if extent.has_statements else ([], {})
    lineages = trace_tables(statements, extent.newest_rows)
    tasks = []
    for name, lineage in sorted(lineages.items(), key=lambda item: repr(item[0])):
        settings = desk.config.settings(name.database, name.schema, name.table)
        state = states.get((source, name), TableState(source, name, State.ACTIVE))
        newest = max((extent.batches.get(piece.table, -1) for piece in lineage.pieces), default=-1)
        newest = max([newest, *(s.batch for s in statements if s.table == name)])
        mine = {sequence: times[change_id] for sequence, change_id in lineage.truncates if change_id in times}
        rows = sum(extent.rows.get(piece.table, 0) for piece in lineage.pieces)
        missed = sum(extent.excluded.get(piece.table, 0) for piece in lineage.pieces)
        gates = _gates(desk.config, name)
        tasks.append(Task(source, lineage, state, settings, top, newest, rows, mine, missed=missed, gates=gates))
    return tasks


def _gates(config: Config, name: TableName) -> tuple[Rule, ...]:
    if not config.quality.enabled:
        return ()
    return told_apart(rule_of(entry) for entry in configured(config.quality.rules, name) if entry.gate)


def _statements(desk: Desk, source: str) -> tuple[list[Statement], dict[str, tuple[Any, int]]]:
    rows = desk.read(STATEMENTS_TABLE).where(F.col("source") == source).collect()
    statements, times = [], {}
    for row in rows:
        if row["table"] is None or row["change_id"] in times:
            continue
        name, actions = TableName(row["database"], row["schema"], row["table"]), actions_of(row["actions"])
        if row["sequence"] is None and has_effect(actions):
            actions = (NotUnderstood("a statement that has no position"),)
        statements.append(
            Statement(row["sequence"] or START, row["change_id"], row["batch"], name, actions, row["statement"], row["ordinal"])
        )
        times[row["change_id"]] = (row["event_time"], row["batch"])
    return statements, times


def known_schemas(spark: SparkSession, lake: Lakehouse) -> dict[str, tuple[SchemaColumn, ...]]:
    """The columns of every schema that changes name."""
    rows = lake.read(spark, SCHEMAS_TABLE).select("schema_id", "columns").collect()
    return {row["schema_id"]: tuple(SchemaColumn(*column) for column in row["columns"]) for row in rows}
