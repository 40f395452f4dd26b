"""A run of gold: finds the tables that are behind, updates them in threads, and publishes results once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from framework.config.model import Config
from framework.contracts.table_names import BAD_VALUES_TABLE, BATCHES_TABLE
from framework.errors import MainstemError, brief
from framework.lakehouse.catalog import tag_tables
from framework.lakehouse.kept_rows import keep_rows
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.merge import Merge
from framework.observability.steps import StepEnd, WrittenTable
from framework.pipeline.failed_tries import FailedTries
from framework.pipeline.fault_injection import crash_point
from framework.pipeline.layer import Run
from framework.spark.local_frame import local_frame
from framework.spark.tuning import tune_for_rows
from framework.spark.worker_threads import in_threads
from gold.changes.profile import SchemaColumn
from gold.planning.discovery import (
    all_tasks,
    named_tasks,
    newest_task,
    stale_replicas,
    waiting_tasks,
)
from gold.planning.gates import GateFailed
from gold.planning.kept_logs import STATEMENTS, STATES, counts_log
from gold.planning.knowledge import CachedChanges, Knowledge, States, remember
from gold.planning.places import displaced_states, in_its_place, notes_on_unnamed
from gold.planning.rebuild import FAILED_REBUILD, begun_rebuilds
from gold.planning.recorded_measures import recorded_schemas, with_recorded
from gold.planning.standing_refusals import circumstances, is_refused_again, may_stay_parked
from gold.planning.stored_schemas import StoredSchemas
from gold.planning.table_state import State, TableId, TableState, append_states, applied_to_any, read_states
from gold.planning.task import Task
from gold.planning.unclaimed_rows import with_unclaimed
from gold.planning.unmatched_patterns import unknown_columns, unmatched_patterns
from gold.writing.apply import Applied, apply_table
from gold.writing.bad_values import BAD_VALUES_SCHEMA, NOT_LISTED
from gold.writing.change_cache import change_groups

THREADS = 4
_TRIES = "gold.tries"
_CELL = ["source", "database", "schema", "table", "change_id", "column", "reason"]
"""The columns that identify a row of `ops/bad_values`."""


@dataclass(frozen=True, slots=True)
class GoldResult:
    """What a run of gold did with each table that had something new, and notes for people."""

    tables: tuple[Applied, ...]
    notes: tuple[str, ...] = ()


def run_gold(
    spark: SparkSession, lake: Lakehouse, config: Config, run_id: str, only: str | None = None
) -> GoldResult:
    """Applies all batches of silver to the tables that are behind; with `only`, to that table alone."""
    return update_tables(Run(spark, lake, config, run_id, only))


def update_tables(run: Run) -> GoldResult:
    """The same for a run of the pipeline, whose later steps then know the states of the tables."""
    if not run.lake.exists(run.spark, BATCHES_TABLE):
        return GoldResult(())
    return _apply(run, lambda tasks: waiting_tasks(run, tasks))


def rebuild_gold(spark: SparkSession, lake: Lakehouse, config: Config, run_id: str, table: str) -> GoldResult:
    """Rebuilds one table from all its changes in silver, and other tables whose changes silver has replaced.

    It takes the place of a table whose source the configuration does not name.

    A former name of a table stands for the table. Readers see the old table until the new one is complete.
    """
    notes: dict[str, None] = {}

    def choose(tasks: Sequence[Task]) -> list[Task]:
        named, found = [], named_tasks(tasks, table, config)
        # one source may exclude the table that another one has
        for task in [task for task in found if not task.settings.exclude] or found:
            named.append(newest_task(tasks, task) if task.lineage.renamed_to else task)
            notes.update(dict.fromkeys(_renamed(task, named[-1])))
        others = [
            task for task in tasks if task.is_repaired and task not in named and not task.settings.exclude
        ]
        return [*(replace(in_its_place(task), is_rebuild=True) for task in named), *others]

    result = _apply(Run(spark, lake, config, run_id), choose)
    return replace(result, notes=(*notes, *result.notes))


def _renamed(task: Task, newest: Task) -> Iterator[str]:
    """A note on a table that is to be rebuilt and has another name by now."""
    if newest.name != task.name:
        yield f"{task.name.dotted} was renamed: its rows are in {newest.name.dotted}, which is rebuilt"
    elif task.lineage.renamed_to is not None:
        its = task.lineage.renamed_to.dotted
        yield f"{task.name.dotted} was renamed to {its}, which does not have its rows any more"


def _apply(run: Run, choose: Callable[[Sequence[Task]], list[Task]]) -> GoldResult:
    spark, lake, run_id = run.spark, run.lake, run.run_id
    states = read_states(spark, lake)
    every = all_tasks(run, states)
    tasks = choose(every)
    # an object store is asked only where there is something to do: each request costs
    if (tasks or lake.local_root is not None) and _mark_unlisted(spark, lake, states, run_id):
        states = read_states(spark, lake)
        every = all_tasks(run, states)
        tasks = choose(every)
    displaced = displaced_states(lake, every, tasks, states)
    taken = tuple(notes_on_unnamed(run, displaced))
    gone = {(state.source, state.name) for state in displaced}
    begun = [state for state in begun_rebuilds(tasks) if (state.source, state.name) not in gone]
    if displaced or begun:
        append_states(spark, lake, [*displaced, *begun], run_id)
        states = read_states(spark, lake)
        every = all_tasks(run, states)
        tasks = choose(every)
    if not tasks:
        remember(run, Knowledge(states, every))
        _keep_logs(lake, states)
        return GoldResult((), taken if run.table else (*taken, *stale_replicas(every)))
    # a table that is asked for by name is tried in any case
    tries = run.kept.setdefault(_TRIES, FailedTries())
    refused = [] if run.table else [task for task in tasks if _waits(run, tries, task)]
    kept = {(task.source, task.name) for task in refused}
    tasks = [task for task in tasks if (task.source, task.name) not in kept]
    still_parked = _still_parked(run, refused)
    if not tasks:
        remember(run, Knowledge(states, every))
        _keep_logs(lake, states)
        return GoldResult(still_parked, (*taken, *stale_replicas(every)))
    lake.create(spark, BAD_VALUES_TABLE, BAD_VALUES_SCHEMA)
    tasks = with_unclaimed(run.tables, tasks)
    applied, cached = _apply_groups(run, tasks, tries)
    crash_point("gold.before_publish")
    _merge_bad_values(spark, lake, applied, run_id)
    crash_point("gold.between_bad_values_and_states")
    append_states(
        spark,
        lake,
        [a.state for a, task in zip(applied, tasks, strict=True) if a.state != task.state],
        run_id,
    )
    crash_point("gold.after_publish")
    new_states = {(one.state.source, one.state.name): one.state for one in applied}
    states = {**states, **new_states}
    remember(run, Knowledge(states, every, cached))
    notes = taken if run.table else (*taken, *_notes_on_all(run, every, states))
    _keep_logs(lake, states)
    return GoldResult((*applied, *still_parked), notes)


def _apply_groups(
    run: Run, tasks: Sequence[Task], tries: FailedTries
) -> tuple[list[Applied], CachedChanges | None]:
    """Applies tables, group by group.

    Returns:
        What became of each, in their order, and the changes of small tables, if one group has all of these.
    """
    run.progress.expect("tables", len(tasks))
    applied, cached, groups = dict[TableId, Applied](), None, 0
    for group, cached in change_groups(run.spark, run.lake, tasks):
        groups += 1
        if cached is None or not all(map(cached.covers, group)):
            group = with_recorded(run.tables, group)
        wanted = recorded_schemas(group)
        if cached is not None:
            wanted |= {text for text in cached.rows["schema_id"].unique().to_pylist() if text}
        schemas = StoredSchemas(run.spark, run.lake, wanted)
        for task, one in zip(group, _in_threads(run, group, schemas, cached, tries), strict=True):
            applied[task.source, task.name] = one
    return [applied[task.source, task.name] for task in tasks], cached if groups == 1 else None


def _notes_on_all(run: Run, tasks: Sequence[Task], states: Mapping[TableId, TableState]) -> list[str]:
    """What only a run over all tables can tell: it looks at each of them."""
    return [*unmatched_patterns(run, tasks), *unknown_columns(run, tasks, states), *stale_replicas(tasks)]


def _waits(run: Run, tries: FailedTries, task: Task) -> bool:
    """Whether a parked table is not tried now: it would be refused again, or has failed not long ago."""
    is_put_off = may_stay_parked(task) and not tries.is_due((task.source, task.name))
    return is_put_off or is_refused_again(run.spark, run.lake, task)


def _still_parked(run: Run, tasks: Sequence[Task]) -> tuple[Applied, ...]:
    """Tells of parked tables that are not tried now."""
    run.progress.expect("tables", len(tasks))
    for task in tasks:
        run.progress.start_table(task.name.dotted)
        run.progress.end_table(task.name.dotted, "PARKED")
        run.progress.advance("tables")
    return tuple(Applied(task.state) for task in tasks)


def _keep_logs(lake: Lakehouse, states: States) -> None:
    """Keeps what the next run must know of the logs."""
    keep_rows(lake, STATES, STATEMENTS, counts_log(applied_to_any(states)))


def _mark_unlisted(spark: SparkSession, lake: Lakehouse, states: States, run_id: str) -> bool:
    """Marks tables with bad values as unlisted if `ops/bad_values` is gone; returns whether it marked any.

    It does so before the log exists again, so that the mark stays for tables that cannot be listed in this
    run.
    """
    if lake.exists(spark, BAD_VALUES_TABLE):
        return False
    lost = [state for state in states.values() if state.bad_values and not state.is_unlisted]
    append_states(spark, lake, [replace(state, is_unlisted=True) for state in lost], run_id)
    return bool(lost)


def _in_threads(
    run: Run,
    tasks: Sequence[Task],
    schemas: Mapping[str, Sequence[SchemaColumn]],
    cached: CachedChanges | None,
    tries: FailedTries,
) -> list[Applied]:
    def one(session: SparkSession, task: Task) -> Applied:
        started, failure = time.monotonic(), None
        run.progress.start_table(task.name.dotted)
        try:
            tune_for_rows(session, task.new_rows)
            applied = apply_table(session, run.lake, task, schemas, cached)
            before, now = ((state.replica, state.history) for state in (task.state, applied.state))
            tag_tables(session, run.config.lakehouse, task.source, set(now) - set(before))
        except Exception as error:  # one table's failure parks that table alone
            failure = error
            built_with = FAILED_REBUILD if task.is_rebuild else task.state.built_with
            applied = Applied(
                replace(
                    task.state,
                    state=State.PARKED,
                    reason=brief(error),
                    gate_keys=error.keys if isinstance(error, GateFailed) else None,
                    refused_at=circumstances(task, error),
                    built_with=built_with,
                )
            )
        may_go_by_itself = failure is not None and not isinstance(failure, MainstemError)
        (tries.note if may_go_by_itself else tries.forget)((task.source, task.name))
        is_parked = applied.state.state is State.PARKED
        run.progress.end_table(task.name.dotted, "PARKED" if is_parked else "ok", _end_of(applied, failure))
        run.progress.advance("tables")
        return replace(applied, seconds=time.monotonic() - started)

    return in_threads(run.spark, tasks, one, THREADS, size=lambda task: task.rows_to_read)


def _end_of(applied: Applied, failure: Exception | None) -> StepEnd:
    """What observers are told of a table."""
    state, ops = applied.state, applied.ops
    is_parked = state.state is State.PARKED
    written = None
    if applied.applied and not is_parked and state.replica is not None:
        columns = tuple((column.name, column.type) for column in state.columns)
        rows = sum(ops.get(op, 0) for op in ("insert", "read", "update"))
        written = WrittenTable(state.replica, columns, rows)
    return StepEnd({"applied": applied.applied, "late": applied.late, **ops}, failure, is_parked, written)


def _merge_bad_values(spark: SparkSession, lake: Lakehouse, applied: Sequence[Applied], run_id: str) -> None:
    """Lists each cell once, and removes the cells of rebuilt tables that are not there any more."""
    rows = [row for one in applied for row in _bad_value_rows(one, run_id)]
    replaced = [one.state for one in applied if one.faults.replaces]
    if not rows and not replaced:
        return
    frame = (
        local_frame(spark, rows, BAD_VALUES_SCHEMA).dropDuplicates(_CELL).withColumn("is_stale", F.lit(False))
    )
    if replaced:
        places = [
            (state.source, state.name.database, state.name.schema, state.name.table) for state in replaced
        ]
        tables = local_frame(spark, places, "source string, database string, schema string, `table` string")
        have = lake.read(spark, BAD_VALUES_TABLE)
        mine = [have[name].eqNullSafe(tables[name]) for name in tables.columns]
        same = [F.col(f"h.{name}").eqNullSafe(F.col(f"f.{name}")) for name in _CELL]
        stale = (
            have.join(F.broadcast(tables), mine, "left_semi")
            .alias("h")
            .join(frame.alias("f"), same, "left_anti")
        )
        frame = frame.unionByName(stale.withColumn("is_stale", F.lit(True)))
    same_cell = " AND ".join(f"t.`{name}` <=> s.`{name}`" for name in _CELL)
    values = {f"`{name}`": f"s.`{name}`" for name in frame.columns if name != "is_stale"}
    Merge(lake.location(BAD_VALUES_TABLE), frame, same_cell).delete("s.is_stale").insert(
        values, "NOT s.is_stale"
    ).execute()


def _bad_value_rows(applied: Applied, run_id: str) -> Iterator[tuple[str | None, ...]]:
    """The rows of `ops/bad_values` for one table; the last one has the number of unlisted cells."""
    state, faults = applied.state, applied.faults
    head = (run_id, state.source, state.name.database, state.name.schema, state.name.table)
    for change_id, sequence, column, text, reason in faults.cells:
        yield (*head, column, text, reason, change_id, sequence)
    if faults.others:
        yield (
            *head,
            None,
            str(faults.others),
            NOT_LISTED,
            f"{state.name.dotted} through batch {state.batch}",
            None,
        )
