"""What must hold in gold at any time: each replica is what the changes of its table lead to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from framework.checks import Check
from framework.layer import Run
from framework.tables import is_table, read_table
from gold import account
from gold.changes import CHANGES_TABLE, effects, key_names, rows_of, under_todays_names
from gold.plan import Plan, Task, decide
from gold.profile import SchemaColumn
from gold.state import State
from gold.strategies import replica
from gold.tasks import Desk, all_tasks, known_schemas


def verify(run: Run) -> Sequence[Check]:
    """The checks of each table that is up to date; one that is parked or behind has nothing to be held to."""
    desk = Desk(run.spark, run.lake, run.config)
    tasks = [task for task in all_tasks(desk) if _is_up_to_date(task)]
    if not tasks:
        return ()
    schemas = known_schemas(run.spark, run.lake)
    return [check for task in tasks for check in _answers(run, desk.read(CHANGES_TABLE), task, schemas)]


def _answers(run: Run, changes: DataFrame, task: Task, schemas: Mapping[str, Sequence[SchemaColumn]]) -> Sequence[Check]:
    try:
        return _checks(run, changes, task, schemas)
    except Exception as error:  # what a damaged silver leads to is an answer as well
        found = f"cannot be told from silver ({type(error).__name__}): mend first what is wrong there"
        return (Check(f"rows {task.name.dotted}", "the rows are the newest that changes lead to", 1, str(task.state.replica), found),)


def _is_up_to_date(task: Task) -> bool:
    state = task.state
    is_there = state.state in (State.ACTIVE, State.APPEND_ONLY) and state.replica is not None
    return is_there and task.newest <= state.batch and not task.settings.exclude


def _checks(run: Run, changes: DataFrame, task: Task, schemas: Mapping[str, Sequence[SchemaColumn]]) -> Sequence[Check]:
    name, action = task.name.dotted, f"mainstem rebuild {task.name.dotted}"
    if not is_table(run.spark, str(task.state.replica)):
        return (Check(f"replica {name}", "the replica is there", 1, str(task.state.replica), "run: a replica that is gone is made anew"),)
    rows = read_table(run.spark, str(task.state.replica))
    plan = decide(run.spark, run.lake, changes, replace(task, is_rebuild=True), schemas)
    if plan is None:
        return ()
    mine = rows_of(changes, task.source, task.lineage)
    if not plan.layout.keys:
        return (_appended(name, rows, mine, task),)
    there = replica.live_keys(rows, plan.layout)
    twice = there.groupBy(*key_names(len(plan.layout.keys))).count().where("count > 1").count()
    implied = _implied(mine, plan)
    missing = implied.exceptAll(there).count()
    surplus = there.exceptAll(implied).count()
    at = str(task.state.replica)
    return (
        Check(f"keys {name}", "each key is there once", twice, at, action),
        Check(f"rows {name}", "the rows are the newest that changes lead to", missing + surplus, at, action),
    )


def _implied(mine: DataFrame, plan: Plan) -> DataFrame:
    """Keys and sequences of the rows that all changes lead to."""
    named = account.whole(under_todays_names(mine, plan.task.lineage, plan.mapped), plan)
    rules = replica.rules_of(plan.task, plan.profile)
    found = replica.newest(effects(named, plan.layout.key_columns), plan.layout, plan.profile, rules)
    rows = found.where("is_put AND NOT coalesce(is_deleted, false)")
    return rows.select(*key_names(len(plan.layout.keys)), F.col("sequence").alias("_cdc_sequence"))


def _appended(name: str, rows: DataFrame, mine: DataFrame, task: Task) -> Check:
    ids = mine.where("half IS NULL").select("change_id").distinct()
    truncates = rows.sparkSession.createDataFrame([(change_id,) for _, change_id in task.lineage.truncates], "change_id string")
    wanted = ids.unionByName(truncates).distinct()
    there = rows.select(F.col("_cdc_change_id").alias("change_id"))
    wrong = wanted.exceptAll(there).count() + there.exceptAll(wanted).count()
    return Check(f"rows {name}", "each change is a row, once", wrong, str(task.state.replica), f"mainstem rebuild {name}")
