"""How one row came to be: the replica's row, every change of its key with its outcome, and their messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import groupby
from math import inf
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from framework.contracts.table_names import CHANGES_TABLE, MESSAGES_TABLE
from framework.errors import ConfigurationError
from framework.lakehouse.lakehouse import read_table
from framework.naming import gold_columns, quoted
from framework.pipeline.layer import Run
from framework.spark.columns import with_one_of
from framework.text.positions import position_text
from gold.changes.few_changes import TableChanges
from gold.operations.source_messages import Coordinates, coordinates_of, epoch_of, landings
from gold.planning.discovery import all_tasks, named_tasks
from gold.planning.plan import Plan, make_plan
from gold.planning.stored_schemas import StoredSchemas
from gold.planning.task import Task
from gold.writing import table_changes

_Texts = Mapping[tuple[Coordinates, int], dict[str, Any]]
_COLUMNS = (
    "change_id",
    "op",
    "sequence",
    "event_time",
    "transaction_id",
    "batch",
    "before",
    "after",
    "partial",
)


def trace(run: Run, table: str, key: Mapping[str, str]) -> dict[str, Any]:
    """The history of the row with these column values, newest change first.

    The `fate` of a change, its outcome, is applied, superseded, late or duplicate. Its `position` is its
    sequence as people say it.

    Raises:
        ConfigurationError: TABLE_UNKNOWN or COLUMN_UNKNOWN.
    """
    task = named_tasks(all_tasks(run), table, run.config)[0]
    changes = run.lake.read(run.spark, CHANGES_TABLE)
    plan = make_plan(run.spark, run.lake, TableChanges(changes), task, StoredSchemas(run.spark, run.lake))
    if plan is None:
        return {"table": task.name.dotted, "key": dict(key), "row": None, "changes": []}
    _check_columns(plan, key)
    named = table_changes.changes_with_current_key(changes, plan)
    found = (
        named.where(_has(F.col("before"), key) | _has(F.col("after"), key))
        .orderBy(F.desc("sequence"), F.desc("batch"))
        .collect()
    )
    row = _gold_row(run, task, plan, key)
    duplicates = with_one_of(
        changes.where(F.col("kind") == "duplicate"), "change_id", (row["change_id"] for row in found)
    ).collect()
    texts = _messages(run.lake.read(run.spark, MESSAGES_TABLE), changes, task.source, [*found, *duplicates])
    applied = None if row is None else row["_cdc_change_id"]
    described = [
        _describe(change, outcome, texts)
        for change, outcome in zip(found, outcomes(found, applied), strict=True)
    ]
    described += [{**_describe(duplicate, "duplicate", texts), "op": None} for duplicate in duplicates]
    shown = None if row is None else row.asDict()
    return {
        "table": task.name.dotted,
        "key": dict(key),
        "row": shown,
        "changes": sorted(described, key=lambda c: c["sequence"], reverse=True),
    }


def _check_columns(plan: Plan, key: Mapping[str, str]) -> None:
    names = [column.name for column in plan.layout.columns]
    unknown = sorted(set(key) - set(names))
    if unknown:
        raise ConfigurationError(
            "COLUMN_UNKNOWN",
            found=f"no column {unknown[0]!r}",
            where=plan.task.name.dotted,
            action=f"use columns among: {', '.join(names[:30])}; "
            f"the key is {', '.join(plan.layout.keys) or 'not known'}",
        )


def _has(image: Column, key: Mapping[str, str]) -> Column:
    tests = [F.try_element_at(image, F.lit(name)).eqNullSafe(F.lit(text)) for name, text in key.items()]
    return F.coalesce(reduce(lambda a, b: a & b, tests), F.lit(False))


def _gold_row(run: Run, task: Task, plan: Plan, key: Mapping[str, str]) -> Row | None:
    if task.state.replica is None:
        return None
    names = gold_columns([column.name for column in plan.layout.columns])
    rows = read_table(run.spark, task.state.replica)
    for name, text in key.items():
        rows = rows.where(F.col(quoted(names.get(name, name))).cast("string") == F.lit(text))
    return rows.first()


def outcomes(changes: Sequence[Any], applied: str | None) -> list[str]:
    """The outcome of each change: applied, superseded, or late, where an earlier batch has a newer one.

    Args:
        changes: The changes of a row, the highest `sequence` first.
        applied: The id of the change that the replica's row has; None where there is no row.
    """
    found: list[str] = []
    earliest: float = inf
    for _, equals in groupby(changes, key=lambda change: change["sequence"]):
        mine = list(equals)
        for change in mine:
            is_newest = earliest == inf
            if change["change_id"] == applied or (applied is None and is_newest):
                found.append("applied")
            else:
                found.append("late" if earliest < change["batch"] else "superseded")
        earliest = min(earliest, *(change["batch"] for change in mine))
    return found


def _messages(messages: DataFrame, all_changes: DataFrame, source: str, changes: Sequence[Row]) -> _Texts:
    if not changes:
        return {}
    coordinates = [each for change in changes for each in coordinates_of(change)]
    return {
        at: _describe_message(at[0], rows[0])
        for at, rows in landings(messages, all_changes, source, coordinates).items()
    }


def _describe_message(coordinates: Coordinates, row: Row) -> dict[str, Any]:
    return {
        **dict(zip(("topic", "partition", "offset"), coordinates, strict=True)),
        "file": row["file"],
        "line": row["line"],
        "ingested_at": row["ingested_at"],
        "value": None if row["value"] is None else bytes(row["value"]).decode("utf-8", "replace"),
    }


def _describe(change: Row, outcome: str, texts: _Texts) -> dict[str, Any]:
    at = [(coordinates, epoch_of(change)) for coordinates in coordinates_of(change)]
    return {
        "fate": outcome,
        **{name: change[name] for name in _COLUMNS},
        "position": position_text(change["sequence"], change["format"] or "") if change["sequence"] else None,
        "messages": [texts[each] for each in at if each in texts],
    }
