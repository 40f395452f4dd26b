"""Gold as the command line sees it: how it runs, and the tables that it adds to `status`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pyspark.sql import functions as F

from framework.contracts.actions import TableName, actions_of, has_effect
from framework.layer import Layer, LayerReport, Run, TableLine
from framework.tables import is_table, read_table
from gold.apply import Applied
from gold.bad_values import BAD_VALUES_TABLE
from gold.expectations import expectations
from gold.forget import erase, find
from gold.job import THREADS, GoldResult, rebuild_gold, run_gold
from gold.outlook import outlook
from gold.state import State, TableState, read_states
from gold.tasks import COUNTS_TABLE, STATEMENTS_TABLE
from gold.trace import trace
from gold.upkeep import kept
from gold.verify import verify

_COUNTED = "source string, database string, schema string, `table` string, kind string, batch bigint, rows bigint"


def _run(run: Run) -> LayerReport:
    return _report(run_gold(run.spark, run.lake, run.config, run.run_id, run.table))


def _rebuild(run: Run, table: str) -> LayerReport:
    return _report(rebuild_gold(run.spark, run.lake, run.config, run.run_id, table))


def _report(result: GoldResult) -> LayerReport:
    lines = tuple(_line(applied) for applied in result.tables if applied.applied or applied.notes or applied.state.state is State.PARKED)
    return LayerReport("gold", {"applied": sum(a.applied for a in result.tables)}, lines)


def _line(applied: Applied) -> TableLine:
    state = applied.state
    is_parked = state.state is State.PARKED
    notes = list(applied.notes)
    if is_parked:
        notes.append((state.reason or "").replace("\n", " "))
    elif state.state is State.APPEND_ONLY:
        notes.append("append-only: no key is known; name one under tables: - match: … keys: […], then `rebuild`")
    inserted = applied.ops.get("insert", 0) + applied.ops.get("read", 0)
    changed = (inserted, applied.ops.get("update", 0), applied.ops.get("delete", 0))
    return TableLine(state.name.dotted, "PARKED" if is_parked else "ok", *changed, applied.late, tuple(notes), round(applied.seconds, 3))


def _status(run: Run) -> dict[str, Any]:
    states = read_states(run.spark, run.lake)
    waiting = _waiting_batches(run, states.values())
    bad, unclear, missed = _bad_values(run), _not_understood(run), _missed(run)
    places = sorted(states, key=repr)
    with ThreadPoolExecutor(max_workers=THREADS) as pool:  # each replica is opened for the number of its rows
        entries = pool.map(lambda place: _entry(run, states[place], waiting, bad), places)
    lacks = [{"statements_not_applied": unclear.get(place, 0), "missed_while_excluded": missed.get(place, 0)} for place in places]
    return {"tables": [{**entry, **more} for entry, more in zip(entries, lacks, strict=True)]}


def _waiting_batches(run: Run, states: Iterable[TableState]) -> dict[tuple[str, TableName], list[int]]:
    """The silver batches with changes of each table, from the first that some table has not applied."""
    first = min((state.batch for state in states), default=-1)
    counts = run.lake.rows(run.spark, COUNTS_TABLE, _COUNTED).where(F.col("kind").isin("row", "ddl", "truncate") & (F.col("batch") > first))
    rows = counts.groupBy("source", "database", "schema", "table").agg(F.collect_set("batch")).collect()
    return {(r[0], TableName(r[1], r[2], r[3])): r[4] for r in rows}


def _missed(run: Run) -> dict[tuple[str, TableName], int]:
    """How many messages came to each table while it was excluded; silver has no images of them."""
    counts = run.lake.rows(run.spark, COUNTS_TABLE, _COUNTED).where("kind = 'excluded' and `table` is not null")
    rows = counts.groupBy("source", "database", "schema", "table").agg(F.sum("rows")).collect()
    names = {(r[0], TableName(r[1], r[2], r[3])): r[4] for r in rows}
    return {place: n for place, n in names.items() if not run.config.settings(place[1].database, place[1].schema, place[1].table).exclude}


def _bad_values(run: Run) -> dict[tuple[str, TableName], int]:
    if not run.lake.exists(run.spark, BAD_VALUES_TABLE):
        return {}
    rows = run.lake.read(run.spark, BAD_VALUES_TABLE).groupBy("source", "database", "schema", "table").count().collect()
    return {(r[0], TableName(r[1], r[2], r[3])): r[4] for r in rows}


def _not_understood(run: Run) -> dict[tuple[str, TableName], int]:
    """How many statements of each table have an effect that is not known, or no place in the order."""
    if not run.lake.exists(run.spark, STATEMENTS_TABLE):
        return {}
    is_unclear = F.col("actions").contains('"NotUnderstood"') | F.col("sequence").isNull()
    rows = run.lake.read(run.spark, STATEMENTS_TABLE).where(is_unclear).dropDuplicates(["change_id"]).collect()
    return Counter(
        (row["source"], TableName(row["database"], row["schema"], row["table"])) for row in rows if has_effect(actions_of(row["actions"]))
    )


def _entry(
    run: Run, state: TableState, waiting: dict[tuple[str, TableName], list[int]], bad: dict[tuple[str, TableName], int]
) -> dict[str, Any]:
    place = (state.source, state.name)
    rows = 0
    if state.replica is not None and is_table(run.spark, state.replica):
        rows = read_table(run.spark, state.replica).count()
    return {
        "source": state.source,
        "database": state.name.database,
        "schema": state.name.schema,
        "table": state.name.table,
        "state": str(state.state),
        "reason": state.reason,
        "replica": state.replica,
        "history": state.history,
        "rows": rows,
        "keys": list(state.keys),
        "sequence": state.sequence,
        "event_time": state.event_time.isoformat() if state.event_time else None,
        "changes_applied": state.changes_applied,
        "bad_values": bad.get(place, 0),
        "behind": sum(batch > state.batch for batch in waiting.get(place, ())),
    }


LAYER = Layer(
    name="gold",
    run=_run,
    verify=verify,
    status=_status,
    replay=_run,
    rebuild=_rebuild,
    trace=trace,
    plan=outlook,
    kept=kept,
    find=find,
    erase=erase,
    expectations=expectations,
)
