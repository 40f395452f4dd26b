"""Gold's I/O: which tables have something new, each brought up to date in a thread of its own, results published once."""

from __future__ import annotations

import queue
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.config import Config
from framework.contracts.actions import TableName, actions_of
from framework.crash import crash_point
from framework.errors import MainstemError
from framework.pace import set_pace
from framework.tables import Lakehouse
from gold.apply import Applied, apply_table
from gold.lineage import Statement, trace_tables
from gold.plan import Task
from gold.profile import SchemaColumn
from gold.state import State, TableState, append_states, read_states

COUNTS_TABLE = "ops/batches"
STATEMENTS_TABLE = "ops/statements"
SCHEMAS_TABLE = "silver/schemas"
BAD_VALUES_TABLE = "ops/bad_values"
THREADS = 4
_BAD_VALUES = (
    "run_id string, source string, database string, schema string, `table` string, `column` string, text string, reason string, "
    "change_id string, sequence string"
)


@dataclass(frozen=True, slots=True)
class GoldResult:
    """What a run of gold did with each table that had something new."""

    tables: tuple[Applied, ...]


def run_gold(spark: SparkSession, lake: Lakehouse, config: Config, run_id: str, only: str | None = None) -> GoldResult:
    """Apply all silver batches to the tables that are behind."""
    if not lake.exists(spark, COUNTS_TABLE):
        return GoldResult(())
    lake.create(spark, BAD_VALUES_TABLE, _BAD_VALUES)
    desk = _Desk(spark, lake, config)
    tasks = _tasks(desk, only)
    if not tasks:
        return GoldResult(())
    applied = _in_threads(desk, tasks, _schemas(spark, lake))
    crash_point("gold.before_publish")
    _merge_bad_values(spark, lake, applied, run_id)
    crash_point("gold.between_bad_values_and_states")
    append_states(spark, lake, [a.state for a in applied], run_id)
    crash_point("gold.after_publish")
    return GoldResult(tuple(applied))


@dataclass(frozen=True, slots=True)
class _Desk:
    spark: SparkSession
    lake: Lakehouse
    config: Config

    def read(self, name: str) -> DataFrame:
        return self.lake.read(self.spark, name)


def _tasks(desk: _Desk, only: str | None) -> list[Task]:
    states = read_states(desk.spark, desk.lake)
    extents = _extents(desk)
    top = max((batch for extent in extents.values() for batch in extent.batches.values()), default=-1)
    tasks = []
    for source, extent in sorted(extents.items()):
        tasks.extend(_tasks_of(desk, source, extent, states, top))
    return [task for task in tasks if only is None or dotted(task.name) == only]


@dataclass(slots=True)
class _Extent:
    """What silver holds of one source, by table: the last batch, how many rows, the highest sequence of a row."""

    batches: dict[TableName, int] = field(default_factory=dict)
    rows: dict[TableName, int] = field(default_factory=dict)
    newest_rows: dict[TableName, str] = field(default_factory=dict)
    has_statements: bool = False


def _extents(desk: _Desk) -> dict[str, _Extent]:
    counts = desk.read(COUNTS_TABLE).where("kind in ('row', 'ddl', 'truncate') and `table` is not null")
    grouped = counts.groupBy("source", "database", "schema", "table", "kind").agg(F.max("batch"), F.sum("rows"), F.max("max_sequence"))
    found: dict[str, _Extent] = {}
    for source, database, schema, table, kind, batch, rows, sequence in grouped.collect():
        extent, name = found.setdefault(source, _Extent()), TableName(database, schema, table)
        extent.batches[name] = max(batch, extent.batches.get(name, -1))
        extent.rows[name] = rows + extent.rows.get(name, 0)
        if kind == "row":
            extent.newest_rows[name] = sequence
        else:
            extent.has_statements = True
    return found


def _tasks_of(
    desk: _Desk,
    source: str,
    extent: _Extent,
    states: dict[tuple[str, TableName], TableState],
    top: int,
) -> list[Task]:
    statements, times = _statements(desk, source) if extent.has_statements else ([], {})
    lineages = trace_tables(statements, extent.newest_rows)
    tasks = []
    for name, lineage in sorted(lineages.items(), key=lambda item: repr(item[0])):
        settings = desk.config.settings(name.database, name.schema, name.table)
        state = states.get((source, name), TableState(source, name, State.ACTIVE))
        latest_batch = max((extent.batches.get(piece.table, -1) for piece in lineage.pieces), default=-1)
        latest_batch = max([latest_batch, *(s.batch for s in statements if s.table == name)])
        if settings.exclude or latest_batch <= state.batch:
            continue
        mine = {sequence: times[sequence] for sequence, _ in lineage.truncates if sequence in times}
        tasks.append(Task(source, lineage, state, settings, top, sum(extent.rows.get(piece.table, 0) for piece in lineage.pieces), mine))
    return tasks


def _statements(desk: _Desk, source: str) -> tuple[list[Statement], dict[str, tuple[Any, int]]]:
    rows = desk.read(STATEMENTS_TABLE).where(F.col("source") == source).collect()
    statements, times = [], {}
    for row in rows:
        if row["sequence"] is None or row["table"] is None:
            continue
        name = TableName(row["database"], row["schema"], row["table"])
        statements.append(
            Statement(row["sequence"], row["change_id"], row["batch"], name, actions_of(row["actions"]), row["statement"], row["ordinal"])
        )
        times[row["sequence"]] = (row["event_time"], row["batch"])
    return statements, times


def _schemas(spark: SparkSession, lake: Lakehouse) -> dict[str, tuple[SchemaColumn, ...]]:
    rows = lake.read(spark, SCHEMAS_TABLE).select("schema_id", "columns").collect()
    return {row["schema_id"]: tuple(SchemaColumn(*column) for column in row["columns"]) for row in rows}


def _in_threads(desk: _Desk, tasks: Sequence[Task], schemas: Mapping[str, Sequence[SchemaColumn]]) -> list[Applied]:
    sessions: queue.SimpleQueue[SparkSession] = queue.SimpleQueue()
    for _ in range(min(THREADS, len(tasks))):
        sessions.put(desk.spark.newSession())

    def one(task: Task) -> Applied:
        session = sessions.get()
        try:
            set_pace(session, task.waiting_rows)
            return apply_table(session, desk.lake, task, schemas)
        except Exception as error:  # one table's failure parks that table alone
            return Applied(replace(task.state, state=State.PARKED, reason=_reason(error)))
        finally:
            sessions.put(session)

    with ThreadPoolExecutor(max_workers=THREADS) as pool:
        return list(pool.map(one, tasks))


def _reason(error: Exception) -> str:
    if isinstance(error, MainstemError):
        return str(error)
    return f"{type(error).__name__}: {str(error).splitlines()[0][:500] if str(error) else ''}"


def _merge_bad_values(spark: SparkSession, lake: Lakehouse, applied: Iterable[Applied], run_id: str) -> None:
    rows = [
        (run_id, a.state.source, a.state.name.database, a.state.name.schema, a.state.name.table, column, text, reason, change_id, sequence)
        for a in applied
        for change_id, sequence, column, text, reason in a.faults
    ]
    if not rows:
        return
    frame = spark.createDataFrame(rows, _BAD_VALUES).dropDuplicates(["source", "change_id", "column", "reason"])
    target = DeltaTable.forPath(spark, lake.path(BAD_VALUES_TABLE)).alias("t")
    same = "t.source = s.source AND t.change_id = s.change_id AND t.`column` = s.`column` AND t.reason = s.reason"
    target.merge(frame.alias("s"), same).whenNotMatchedInsertAll().execute()


def dotted(name: TableName) -> str:
    """A table's name as people write it: `database.table` or `database.schema.table`."""
    return ".".join(part for part in (name.database, name.schema, name.table) if part is not None)
