"""Gold as a layer of the pipeline: its runs, its operations, and the tables that it adds to `status`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pyspark.sql import functions as F

from framework.contracts.ddl_actions import TableName, actions_of, has_effect
from framework.contracts.erasure import FORGOTTEN, Erasure
from framework.contracts.table_names import BAD_VALUES_TABLE, BATCHES_TABLE, STATEMENTS_TABLE, TABLES_TABLE
from framework.lakehouse.lakehouse import is_table, read_table
from framework.pipeline.layer import Layer, LayerReport, Run, TableLine
from gold.job import THREADS, GoldResult, rebuild_gold, update_tables
from gold.operations.expectations import expectations
from gold.operations.forget import erase, find_row
from gold.operations.maintain import tables_to_maintain
from gold.operations.parking_reasons import erase_reasons
from gold.operations.preview import preview
from gold.operations.trace import trace
from gold.operations.verify import verify
from gold.planning.table_state import SCHEMA, State, TableState, counts_with_progress, read_states
from gold.writing.apply import Applied
from gold.writing.bad_values import BAD_VALUES_SCHEMA, cells

_COUNTED = (
    "source string, database string, schema string, `table` string, kind string, reason string, "
    "batch bigint, rows bigint"
)


def _run(run: Run) -> LayerReport:
    return _report(update_tables(run))


def _rebuild(run: Run, table: str) -> LayerReport:
    return _report(rebuild_gold(run.spark, run.lake, run.config, run.run_id, table))


def _erase(run: Run, erasure: Erasure) -> dict[str, int]:
    return {**erase(run, erasure), "reasons": erase_reasons(run, erasure)}


def _report(result: GoldResult) -> LayerReport:
    lines = tuple(
        _line(applied)
        for applied in result.tables
        if applied.applied or applied.notes or applied.state.state is State.PARKED
    )
    return LayerReport("gold", {"applied": sum(a.applied for a in result.tables)}, lines)


def _line(applied: Applied) -> TableLine:
    state = applied.state
    is_parked = state.state is State.PARKED
    notes = list(applied.notes)
    if is_parked:
        notes.append((state.reason or "").replace("\n", " "))
    elif state.state is State.APPEND_ONLY:
        notes.append(
            "append-only: no key is known; name one under tables: - match: … keys: […], then `rebuild`"
        )
    inserted = applied.ops.get("insert", 0) + applied.ops.get("read", 0)
    changed = (inserted, applied.ops.get("update", 0), applied.ops.get("delete", 0))
    return TableLine(
        state.name.dotted,
        "PARKED" if is_parked else "ok",
        *changed,
        applied.late,
        tuple(notes),
        round(applied.seconds, 3),
    )


def _status(run: Run) -> dict[str, Any]:
    states = read_states(run.spark, run.lake)
    waiting = _waiting_batches(run, states.values())
    bad, unclear, missed = _bad_values(run), _not_understood(run), _missed(run)
    places = sorted(states, key=repr)
    with ThreadPoolExecutor(max_workers=THREADS) as pool:  # each replica is opened for the number of its rows
        entries = pool.map(lambda place: _entry(run, states[place], waiting, bad), places)
    lacks = [
        {"statements_not_applied": unclear.get(place, 0), "missed_while_excluded": missed.get(place, 0)}
        for place in places
    ]
    return {"tables": [{**entry, **more} for entry, more in zip(entries, lacks, strict=True)]}


def _waiting_batches(run: Run, states: Iterable[TableState]) -> dict[tuple[str, TableName], int]:
    """How many batches of silver have changes of each table that the table has not applied."""
    counts = counts_with_progress(run.lake.rows(run.spark, BATCHES_TABLE, _COUNTED), states).where(
        "is_waiting"
    )
    rows = counts.groupBy("source", "database", "schema", "table").agg(F.count_distinct("batch")).collect()
    return {(r[0], TableName(r[1], r[2], r[3])): r[4] for r in rows}


def _missed(run: Run) -> dict[tuple[str, TableName], int]:
    """How many messages came to each table while it was excluded; silver has no images of them."""
    counts = run.lake.rows(run.spark, BATCHES_TABLE, _COUNTED).where(
        "kind = 'excluded' and `table` is not null"
    )
    counts = counts.where(~F.col("reason").eqNullSafe(FORGOTTEN))
    rows = counts.groupBy("source", "database", "schema", "table").agg(F.sum("rows")).collect()
    names = {(r[0], TableName(r[1], r[2], r[3])): r[4] for r in rows}
    return {
        place: n
        for place, n in names.items()
        if not run.config.settings(place[1].database, place[1].schema, place[1].table).exclude
    }


def _bad_values(run: Run) -> dict[tuple[str, TableName], int]:
    if not run.lake.exists(run.spark, BAD_VALUES_TABLE):
        return {}
    listed = run.lake.read(run.spark, BAD_VALUES_TABLE).groupBy("source", "database", "schema", "table")
    rows = listed.agg(F.sum(cells())).collect()
    return {(r[0], TableName(r[1], r[2], r[3])): r[4] for r in rows}


def _not_understood(run: Run) -> dict[tuple[str, TableName], int]:
    """How many statements of each table have an unknown effect or no position."""
    if not run.lake.exists(run.spark, STATEMENTS_TABLE):
        return {}
    is_unclear = F.col("actions").contains('"NotUnderstood"') | F.col("sequence").isNull()
    rows = (
        run.lake.read(run.spark, STATEMENTS_TABLE).where(is_unclear).dropDuplicates(["change_id"]).collect()
    )
    return Counter(
        (row["source"], TableName(row["database"], row["schema"], row["table"]))
        for row in rows
        if has_effect(actions_of(row["actions"]))
    )


def _entry(
    run: Run,
    state: TableState,
    waiting: dict[tuple[str, TableName], int],
    bad: dict[tuple[str, TableName], int],
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
        "failing_keys": list(state.gate_keys or ()),
        "replica": state.replica,
        "history": state.history,
        "rows": rows,
        "keys": list(state.keys),
        "sequence": state.sequence,
        "event_time": state.event_time.isoformat() if state.event_time else None,
        "changes_applied": state.changes_applied,
        "bad_values": bad.get(place, 0),
        "behind": waiting.get(place, 0),
    }


LAYER = Layer(
    name="gold",
    run=_run,
    verify=verify,
    status=_status,
    replay=_run,
    rebuild=_rebuild,
    trace=trace,
    plan=preview,
    tables_to_maintain=tables_to_maintain,
    find_row=find_row,
    erase=_erase,
    expectations=expectations,
    logs=lambda: {TABLES_TABLE: SCHEMA, BAD_VALUES_TABLE: BAD_VALUES_SCHEMA},
)
