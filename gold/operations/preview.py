"""What gold would do: columns, key and changes of each waiting table, planned as in a run, without writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import functions as F

from framework.contracts.ddl_actions import actions_of, has_effect, tag_of
from framework.contracts.table_names import BATCHES_TABLE, STATEMENTS_TABLE
from framework.errors import brief
from framework.pipeline.layer import Preview, Run
from gold.changes.profile import SchemaColumn
from gold.planning.discovery import all_tasks, waiting_tasks
from gold.planning.plan import Plan
from gold.planning.rebuild import RebuildReason
from gold.planning.stored_schemas import StoredSchemas
from gold.planning.table_state import State
from gold.planning.task import Task, folder_of
from gold.writing.apply import plan_task

ADVICE = "no key is known: name one under tables: - match: {name}, keys: […]"


def preview(run: Run) -> Preview:
    """The tables that have something new: what each would become, by which statements and policy."""
    if not run.lake.exists(run.spark, BATCHES_TABLE):
        return Preview({"tables": []})
    tasks = waiting_tasks(run, all_tasks(run))
    schemas = StoredSchemas(run.spark, run.lake) if tasks else {}
    return Preview({"tables": [_entry(run, task, schemas) for task in tasks]})


def _entry(run: Run, task: Task, schemas: Mapping[str, Sequence[SchemaColumn]]) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "source": task.source,
        "database": task.name.database,
        "schema": task.name.schema,
        "table": task.name.table,
        "replica": run.lake.location("gold/" + folder_of(task)) if task.has_place else None,
        "action": "none",
        "reason": None,
        "keys": list(task.state.keys),
        "columns_added": [],
        "columns_changed": [],
        "columns_gone": [],
        "changes": {},
        "late": 0,
        "schema_policy": str(task.settings.schema_policy),
        "statements": _statements(run, task),
    }
    if task.lineage.renamed_to is not None:
        return entry | {
            "action": "drop",
            "reason": f"renamed to {task.lineage.renamed_to.dotted}; the rows go there",
        }
    try:
        return entry | _planned(run, task, schemas)
    except Exception as error:  # one table's failure does not affect the others, as in a run
        return entry | {"action": "park", "reason": brief(error)}


def _planned(run: Run, task: Task, schemas: Mapping[str, Sequence[SchemaColumn]]) -> dict[str, Any]:
    _, plan = plan_task(run.spark, run.lake, task, schemas)
    if plan is None:
        return {"action": "drop" if task.lineage.is_dropped else "none"}
    return {
        "action": _action(plan),
        "reason": _reason(plan),
        "keys": list(plan.layout.keys),
        **_columns(plan),
        "changes": dict(plan.counts),
        "late": plan.late,
    }


def _action(plan: Plan) -> str:
    if plan.task.lineage.is_dropped:
        return "drop"
    if plan.rebuild is not None:
        return "create" if plan.rebuild.reason is RebuildReason.NEW_TABLE else "rebuild"
    return "merge" if plan.layout.keys else "append"


def _reason(plan: Plan) -> str | None:
    reasons = []
    if plan.rebuild is not None and plan.rebuild.reason is not RebuildReason.NEW_TABLE:
        reasons.append(str(plan.rebuild))
    if not plan.layout.keys:
        reasons.append(ADVICE.format(name=plan.task.name.dotted))
    if plan.task.state.state is State.PARKED:
        reasons.append("goes on after it was parked")
    return "; ".join(reasons) or None


def _columns(plan: Plan) -> dict[str, list[dict[str, str]]]:
    old = {c.name: c.type for c in plan.task.state.columns} if plan.task.state.replica else {}
    new = {c.name: c.type for c in plan.layout.columns}
    return {
        "columns_added": [{"name": name, "type": kind} for name, kind in new.items() if name not in old],
        "columns_changed": [
            {"name": n, "from": old[n], "to": kind} for n, kind in new.items() if n in old and old[n] != kind
        ],
        "columns_gone": [{"name": name, "type": kind} for name, kind in old.items() if name not in new],
    }


def _statements(run: Run, task: Task) -> list[dict[str, Any]]:
    """The statements that the table has not applied, in order, and whether each has an effect."""
    names = [task.name, *(segment.table for segment in task.lineage.segments)]
    if not run.lake.exists(run.spark, STATEMENTS_TABLE):
        return []
    mine = F.lit(False)
    for name in set(names):
        is_its = F.col("database").eqNullSafe(F.lit(name.database)) & F.col("schema").eqNullSafe(
            F.lit(name.schema)
        )
        is_whole = (F.col("table") == "") & F.col("actions").contains('"DropDatabase"')
        mine = mine | (is_its & ((F.col("table") == name.table) | is_whole))
    waiting = run.lake.read(run.spark, STATEMENTS_TABLE).where(
        (F.col("source") == task.source) & mine & (F.col("batch") > task.state.batch)
    )
    rows = waiting.select(
        "sequence", "statement", "actions", "topic", "partition", "offset", "ordinal"
    ).orderBy("sequence", "ordinal")
    return [
        {
            "statement": row["statement"],
            "sequence": row["sequence"],
            "at": {"topic": row["topic"], "partition": row["partition"], "offset": row["offset"]},
            "actions": [tag_of(action) for action in actions_of(row["actions"])],
            "has_effect": has_effect(actions_of(row["actions"])),
        }
        for row in rows.collect()
    ]
