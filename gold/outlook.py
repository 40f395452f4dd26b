"""What gold would do: each waiting table's columns, key and changes, decided as a run decides them, and nothing applied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import functions as F

from framework.contracts.actions import actions_of, has_effect
from framework.errors import brief
from framework.layer import Outlook, Run
from framework.pace import set_pace
from gold.apply import decided
from gold.plan import Plan, Task, folder_of
from gold.profile import SchemaColumn
from gold.state import State
from gold.tasks import COUNTS_TABLE, STATEMENTS_TABLE, Desk, known_schemas, waiting_tasks

ADVICE = "no key is known: name one under tables: - match: {name}, keys: […]"


def outlook(run: Run) -> Outlook:
    """The tables that have something new: what each would become, by which statements and policy."""
    desk = Desk(run.spark, run.lake, run.config)
    if not run.lake.exists(run.spark, COUNTS_TABLE):
        return Outlook({"tables": []})
    tasks = waiting_tasks(desk, run.table)
    schemas = known_schemas(run.spark, run.lake) if tasks else {}
    return Outlook({"tables": [_entry(desk, task, schemas) for task in tasks]})


def _entry(desk: Desk, task: Task, schemas: Mapping[str, Sequence[SchemaColumn]]) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "source": task.source,
        "database": task.name.database,
        "schema": task.name.schema,
        "table": task.name.table,
        "replica": desk.lake.place("gold/" + folder_of(task)) if task.has_place else None,
        "action": "none",
        "reason": None,
        "keys": list(task.state.keys),
        "columns_added": [],
        "columns_changed": [],
        "columns_gone": [],
        "changes": {},
        "late": 0,
        "schema_policy": str(task.settings.schema_policy),
        "statements": _statements(desk, task),
    }
    if task.lineage.renamed_to is not None:
        return entry | {"action": "drop", "reason": f"renamed to {task.lineage.renamed_to.dotted}; the rows go there"}
    try:
        return entry | _decided(desk, task, schemas)
    except Exception as error:  # one table's failure is that table's alone, as in a run
        return entry | {"action": "park", "reason": brief(error)}


def _decided(desk: Desk, task: Task, schemas: Mapping[str, Sequence[SchemaColumn]]) -> dict[str, Any]:
    set_pace(desk.spark, task.rows)
    _, plan = decided(desk.spark, desk.lake, task, schemas)
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
    if plan.rebuild == "new table":
        return "create"
    if plan.rebuild is not None:
        return "rebuild"
    return "merge" if plan.layout.keys else "append"


def _reason(plan: Plan) -> str | None:
    told = [] if plan.rebuild in (None, "new table") else [str(plan.rebuild)]
    if not plan.layout.keys:
        told.append(ADVICE.format(name=plan.task.name.dotted))
    if plan.task.state.state is State.PARKED:
        told.append("goes on after it was parked")
    return "; ".join(told) or None


def _columns(plan: Plan) -> dict[str, list[dict[str, str]]]:
    old = {c.name: c.type for c in plan.task.state.columns} if plan.task.state.replica else {}
    new = {c.name: c.type for c in plan.layout.columns}
    return {
        "columns_added": [{"name": name, "type": kind} for name, kind in new.items() if name not in old],
        "columns_changed": [{"name": n, "from": old[n], "to": kind} for n, kind in new.items() if n in old and old[n] != kind],
        "columns_gone": [{"name": name, "type": kind} for name, kind in old.items() if name not in new],
    }


def _statements(desk: Desk, task: Task) -> list[dict[str, Any]]:
    """The table's statements that it has not applied, in their order, and whether each is understood."""
    names = [task.name, *(piece.table for piece in task.lineage.pieces)]
    if not desk.lake.exists(desk.spark, STATEMENTS_TABLE):
        return []
    mine = F.lit(False)
    for name in set(names):
        is_its = F.col("database").eqNullSafe(F.lit(name.database)) & F.col("schema").eqNullSafe(F.lit(name.schema))
        mine = mine | (is_its & (F.col("table") == name.table))
    waiting = desk.read(STATEMENTS_TABLE).where((F.col("source") == task.source) & mine & (F.col("batch") > task.state.batch))
    rows = waiting.select("sequence", "statement", "actions", "topic", "partition", "offset", "ordinal").orderBy("sequence", "ordinal")
    return [
        {
            "statement": row["statement"],
            "sequence": row["sequence"],
            "at": {"topic": row["topic"], "partition": row["partition"], "offset": row["offset"]},
            "actions": [type(action).__name__ for action in actions_of(row["actions"])],
            "has_effect": has_effect(actions_of(row["actions"])),
        }
        for row in rows.collect()
    ]
