"""How one row came to be: the replica's row, every change that touched its key with its fate, and the messages of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from framework.contracts.tables import MESSAGE_AT
from framework.errors import ConfigurationError
from framework.layer import Run
from framework.names import gold_columns, quoted
from framework.tables import read_table
from gold import account
from gold.changes import CHANGES_TABLE
from gold.plan import Plan, Task, decide
from gold.tasks import Desk, all_tasks, known_schemas, named_tasks

MESSAGES_TABLE = "bronze/messages"
_SHOWN = ("change_id", "op", "sequence", "event_time", "transaction_id", "batch", "before", "after", "partial")


def trace(run: Run, table: str, key: Mapping[str, str]) -> dict[str, Any]:
    """The path of the row with these column values, newest change first; a fate is applied, superseded, late or duplicate."""
    desk = Desk(run.spark, run.lake, run.config)
    task = named_tasks(all_tasks(desk), table)[0]
    changes = desk.read(CHANGES_TABLE)
    plan = decide(run.spark, run.lake, changes, task, known_schemas(run.spark, run.lake))
    if plan is None:
        return {"table": task.name.dotted, "key": dict(key), "row": None, "changes": []}
    _check_columns(plan, key)
    named = account.keyed(changes, plan)
    found = named.where(_has(F.col("before"), key) | _has(F.col("after"), key)).orderBy(F.desc("sequence"), F.desc("batch")).collect()
    row = _gold_row(run, task, plan, key)
    repeats = changes.where(F.col("kind").eqNullSafe("duplicate") & F.col("change_id").isin([r["change_id"] for r in found])).collect()
    texts = _messages(desk.read(MESSAGES_TABLE), task.source, [*found, *repeats])
    applied = None if row is None else row["_cdc_change_id"]
    told = [_told(change, _fate(change, found, applied), texts) for change in found]
    told += [{**_told(repeat, "duplicate", texts), "op": None} for repeat in repeats]
    shown = None if row is None else row.asDict()
    return {"table": task.name.dotted, "key": dict(key), "row": shown, "changes": sorted(told, key=lambda c: c["sequence"], reverse=True)}


def _check_columns(plan: Plan, key: Mapping[str, str]) -> None:
    names = [column.name for column in plan.layout.columns]
    unknown = sorted(set(key) - set(names))
    if unknown:
        raise ConfigurationError(
            "COLUMN_UNKNOWN",
            found=f"no column {unknown[0]!r}",
            where=plan.task.name.dotted,
            action=f"use columns among: {', '.join(names[:30])}; the key is {', '.join(plan.layout.keys) or 'not known'}",
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


def _fate(change: Row, found: Sequence[Row], applied: str | None) -> str:
    newer = [other for other in found if other["sequence"] > change["sequence"]]
    if change["change_id"] == applied or (applied is None and not newer):
        return "applied"
    return "late" if any(other["batch"] < change["batch"] for other in newer) else "superseded"


def _messages(messages: DataFrame, source: str, changes: Sequence[Row]) -> dict[tuple[Any, ...], dict[str, Any]]:
    places = {(source, c["topic"], c["partition"], c["offset"]) for c in changes}
    places |= {(source, *c["paired_with"]) for c in changes if c["paired_with"] is not None}
    if not places:
        return {}
    wanted = messages.sparkSession.createDataFrame(sorted(places), "source string, topic string, `partition` int, offset bigint")
    found: dict[tuple[Any, ...], dict[str, Any]] = defaultdict(dict)
    for row in messages.join(F.broadcast(wanted), list(MESSAGE_AT), "left_semi").collect():
        text = None if row["value"] is None else bytes(row["value"]).decode("utf-8", "replace")
        place = (row["topic"], row["partition"], row["offset"])
        found[place] = {
            **dict(zip(("topic", "partition", "offset"), place, strict=True)),
            "file": row["file"],
            "line": row["line"],
            "ingested_at": row["ingested_at"],
            "value": text,
        }
    return found


def _told(change: Row, fate: str, texts: Mapping[tuple[Any, ...], dict[str, Any]]) -> dict[str, Any]:
    places = [(change["topic"], change["partition"], change["offset"])]
    if change["paired_with"] is not None:
        places.insert(0, tuple(change["paired_with"]))
    return {"fate": fate, **{name: change[name] for name in _SHOWN}, "messages": [texts[place] for place in places if place in texts]}
