"""The invariants of gold: each replica contains exactly what the changes of its table lead to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from framework.contracts.table_names import BAD_VALUES_TABLE, BATCHES_TABLE, CHANGES_TABLE, TABLES_TABLE
from framework.lakehouse.lakehouse import is_table, read_table
from framework.pipeline.checks import Check
from framework.pipeline.layer import Run
from framework.spark.comparison import count_differences
from framework.spark.local_frame import local_frame
from gold.changes.effects import key_names, table_rows, with_current_names
from gold.changes.few_changes import TableChanges
from gold.changes.profile import SchemaColumn
from gold.operations.key_comparison import newest_keys
from gold.planning.discovery import all_tasks
from gold.planning.plan import Plan, make_plan, policy_of
from gold.planning.stored_schemas import StoredSchemas
from gold.planning.table_state import State
from gold.planning.task import Task, folder_of
from gold.writing import replica, table_changes


def verify(run: Run) -> Sequence[Check]:
    """The checks of each table that is up to date; others have no rows to compare."""
    try:
        known = all_tasks(run)
        tasks = [task for task in known if _is_up_to_date(task)]
        schemas = StoredSchemas(run.spark, run.lake) if tasks else {}
        changes = run.lake.read(run.spark, CHANGES_TABLE) if tasks else None
    except Exception as error:  # a missing table of silver or ops is a result as well
        found = (
            f"cannot be checked against silver ({type(error).__name__}): "
            "run, which derives what is gone or says what to do"
        )
        return (Check("tables", "the tables of the source are known", 1, BATCHES_TABLE, found),)
    checks = (
        [check for task in tasks for check in _table_checks(run, changes, task, schemas)]
        if changes is not None
        else []
    )
    return [_states(run, known), _bad_values(run, known), *checks] if known else checks


def _states(run: Run, tasks: Sequence[Task]) -> Check:
    """Whether the progress of the tables is known: without it, all of them seem to be new."""
    is_lost = not run.lake.exists(run.spark, TABLES_TABLE)
    wrong = sum(task.has_place for task in tasks) if is_lost else 0
    return Check(
        "states",
        "the progress of the tables is known",
        wrong,
        TABLES_TABLE,
        "run: it rebuilds these tables from all their changes",
    )


def _bad_values(run: Run, tasks: Sequence[Task]) -> Check:
    """Whether the cells that do not fit their columns are listed, except those of excluded tables."""
    is_lost = not run.lake.exists(run.spark, BAD_VALUES_TABLE)
    mine = [task.state for task in tasks if task.has_place]
    wrong = sum((is_lost and state.bad_values > 0) or state.is_unlisted for state in mine)
    return Check(
        "bad_values",
        "the cells that fit no type are listed",
        wrong,
        BAD_VALUES_TABLE,
        "run: it lists them again",
    )


def _table_checks(
    run: Run, changes: DataFrame, task: Task, schemas: Mapping[str, Sequence[SchemaColumn]]
) -> Sequence[Check]:
    try:
        return _checks(run, changes, task, schemas)
    except Exception as error:  # an error of a damaged silver is a result as well
        found = f"cannot be checked against silver ({type(error).__name__}): repair silver first"
        return (
            Check(
                f"rows {task.name.dotted}",
                "the rows are the newest that changes lead to",
                1,
                str(task.state.replica),
                found,
            ),
        )


def _is_up_to_date(task: Task) -> bool:
    state = task.state
    is_there = state.state in (State.ACTIVE, State.APPEND_ONLY) and state.replica is not None
    return is_there and task.newest <= state.batch and not task.is_repaired and not task.settings.exclude


def _checks(
    run: Run, changes: DataFrame, task: Task, schemas: Mapping[str, Sequence[SchemaColumn]]
) -> Sequence[Check]:
    name, action = task.name.dotted, f"mainstem rebuild {task.name.dotted}"
    places = [
        run.lake.location(f"gold/{folder_of(task, is_history=is_history)}") for is_history in (False, True)
    ]
    at = places[0]
    needed = places if task.settings.history and task.state.keys else places[:1]
    gone = [place for place in needed if not is_table(run.spark, place)]
    if gone:
        found = Check(
            f"replica {name}",
            "the replica and its history are there",
            len(gone),
            gone[0],
            "run: it rebuilds what is gone",
        )
        return (found,)
    rows = read_table(run.spark, at)
    plan = make_plan(run.spark, run.lake, TableChanges(changes), replace(task, is_rebuild=True), schemas)
    if plan is None:
        return ()
    mine = table_rows(changes, task.source, task.lineage)
    if not plan.layout.keys:
        return (_append_check(name, rows, mine, task),)
    stored = replica.live_keys(rows, plan.layout)
    twice = stored.groupBy(*key_names(len(plan.layout.keys))).count().where("count > 1").count()
    differing = count_differences(_implied_rows(mine, plan), stored)
    return (
        Check(f"keys {name}", "each key is there once", twice, at, action),
        Check(f"rows {name}", "the rows are the newest that changes lead to", differing, at, action),
    )


def _implied_rows(mine: DataFrame, plan: Plan) -> DataFrame:
    """The keys and sequences of the rows that all changes lead to."""
    named = table_changes.complete_changes(with_current_names(mine, plan.task.lineage, plan.namings), plan)
    newest = newest_keys(named, plan.layout, plan.profile, policy_of(plan.task, plan.profile))
    return newest.where("is_upsert").drop("is_upsert").withColumnRenamed("sequence", "_cdc_sequence")


def _append_check(name: str, rows: DataFrame, mine: DataFrame, task: Task) -> Check:
    ids = mine.where("half IS NULL").select("change_id").distinct()
    truncates = local_frame(
        rows.sparkSession, [(change_id,) for _, change_id in task.lineage.truncates], "change_id string"
    )
    wanted = ids.unionByName(truncates).distinct()
    there = rows.select(F.col("_cdc_change_id").alias("change_id"))
    return Check(
        f"rows {name}",
        "each change is a row, once",
        count_differences(wanted, there),
        str(task.state.replica),
        f"mainstem rebuild {name}",
    )
