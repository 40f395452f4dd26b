"""The account of a table: all its changes as a plan reads them, each told under today's names, by today's key, whole."""

from __future__ import annotations

from pyspark.sql import DataFrame

from gold import moves
from gold.changes import rows_of, under_todays_names
from gold.plan import Plan
from gold.rekeyed import under_todays_key
from gold.strategies import replica


def named(changes: DataFrame, plan: Plan) -> DataFrame:
    """The table's changes among these under today's names."""
    return under_todays_names(rows_of(changes, plan.task.source, plan.task.lineage), plan.task.lineage, plan.mapped)


def keyed(changes: DataFrame, plan: Plan) -> DataFrame:
    """The same with images that tell today's key, where changes before them tell it. `changes` are all there are."""
    return _keyed(named(changes, plan), plan)


def whole(rows: DataFrame, plan: Plan) -> DataFrame:
    """All changes of the table, `rows` under today's names, told by today's key, and with what changes of the key leave out."""
    rows = _keyed(rows, plan)
    if not plan.layout.keys or not plan.profile.has_partial_moves:
        return rows
    return moves.completed(rows, plan.layout.key_columns, replica.rules_of(plan.task, plan.profile).truncated_at)


def _keyed(rows: DataFrame, plan: Plan) -> DataFrame:
    floor = replica.rules_of(plan.task, plan.profile).truncated_at
    return under_todays_key(rows, plan.older_keys, floor, has_partial_moves=plan.profile.has_partial_moves)
