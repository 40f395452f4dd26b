"""Gold's I/O: which tables have something new, each brought up to date in a thread of its own, results published once."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from framework.config import Config
from framework.crash import crash_point
from framework.errors import brief
from framework.merge import Merge
from framework.pace import set_pace
from framework.session import worker_sessions
from framework.tables import Lakehouse
from gold.apply import Applied, apply_table
from gold.bad_values import BAD_VALUES_TABLE
from gold.held import held_changes
from gold.plan import FAILED_REBUILD, Task
from gold.profile import SchemaColumn
from gold.state import State, append_states
from gold.tasks import COUNTS_TABLE, Desk, all_tasks, known_schemas, named_tasks, waiting_tasks

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
    return _apply(Desk(spark, lake, config), run_id, lambda desk: waiting_tasks(desk, only))


def rebuild_gold(spark: SparkSession, lake: Lakehouse, config: Config, run_id: str, table: str) -> GoldResult:
    """Make one table anew from all its changes in silver. Readers see the old table until the new one is whole."""
    return _apply(
        Desk(spark, lake, config), run_id, lambda desk: [replace(task, is_rebuild=True) for task in named_tasks(all_tasks(desk), table)]
    )


def _apply(desk: Desk, run_id: str, find: Callable[[Desk], list[Task]]) -> GoldResult:
    spark, lake = desk.spark, desk.lake
    if not lake.exists(spark, COUNTS_TABLE):
        return GoldResult(())
    lake.create(spark, BAD_VALUES_TABLE, _BAD_VALUES)
    tasks = find(desk)
    if not tasks:
        return GoldResult(())
    applied = _in_threads(desk, tasks, known_schemas(spark, lake))
    crash_point("gold.before_publish")
    _merge_bad_values(spark, lake, applied, run_id)
    crash_point("gold.between_bad_values_and_states")
    append_states(spark, lake, [a.state for a, task in zip(applied, tasks, strict=True) if a.state != task.state], run_id)
    crash_point("gold.after_publish")
    return GoldResult(tuple(applied))


def _in_threads(desk: Desk, tasks: Sequence[Task], schemas: Mapping[str, Sequence[SchemaColumn]]) -> list[Applied]:
    sessions: queue.SimpleQueue[SparkSession] = queue.SimpleQueue()
    for session in worker_sessions(desk.spark, min(THREADS, len(tasks))):
        sessions.put(session)
    held = held_changes(desk.spark, desk.lake, tasks)

    def one(task: Task) -> Applied:
        session, started = sessions.get(), time.monotonic()
        try:
            set_pace(session, task.rows)
            found = apply_table(session, desk.lake, task, schemas, held)
        except Exception as error:  # one table's failure parks that table alone
            made_as = FAILED_REBUILD if task.is_rebuild else task.state.made_as
            found = Applied(replace(task.state, state=State.PARKED, reason=brief(error), made_as=made_as))
        finally:
            sessions.put(session)
        return replace(found, seconds=time.monotonic() - started)

    with ThreadPoolExecutor(max_workers=THREADS) as pool:
        return list(pool.map(one, tasks))


def _merge_bad_values(spark: SparkSession, lake: Lakehouse, applied: Iterable[Applied], run_id: str) -> None:
    rows = [
        (run_id, a.state.source, a.state.name.database, a.state.name.schema, a.state.name.table, column, text, reason, change_id, sequence)
        for a in applied
        for change_id, sequence, column, text, reason in a.faults
    ]
    if not rows:
        return
    frame = spark.createDataFrame(rows, _BAD_VALUES).dropDuplicates(["source", "change_id", "column", "reason"])
    same = "t.source = s.source AND t.change_id = s.change_id AND t.`column` = s.`column` AND t.reason = s.reason"
    Merge(lake.place(BAD_VALUES_TABLE), frame, same).insert_all().execute()
