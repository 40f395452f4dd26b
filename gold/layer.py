"""Gold as a layer of the pipeline: its runs, its operations, and the tables that it adds to `status`.

Each function imports what it needs, so that commands which run nothing do not wait for Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from framework.pipeline.layer import Layer, LayerReport, MaintainedTable, Preview, Run, TableLine, View
from gold.planning.table_state import State

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from framework.contracts.erasure import Erasure
    from framework.contracts.expectations import CheckTarget, PreviousResults
    from framework.pipeline.checks import Check
    from gold.job import GoldResult
    from gold.writing.apply import Applied


def _run(run: Run) -> LayerReport:
    from gold.job import update_tables

    return _report(update_tables(run))


def _rebuild(run: Run, table: str) -> LayerReport:
    from gold.job import rebuild_gold

    return _report(rebuild_gold(run.spark, run.lake, run.config, run.run_id, table))


def _erase(run: Run, erasure: Erasure) -> dict[str, int]:
    from framework.lakehouse.kept_rows import forget_kept_rows
    from gold.operations.forget import erase
    from gold.operations.parking_reasons import erase_reasons

    gone = {**erase(run, erasure), "reasons": erase_reasons(run, erasure)}
    forget_kept_rows(run.lake)
    return gone


def _report(result: GoldResult) -> LayerReport:
    lines = tuple(
        _line(applied)
        for applied in result.tables
        if applied.applied or applied.notes or applied.state.state is State.PARKED
    )
    return LayerReport("gold", {"applied": sum(a.applied for a in result.tables)}, lines, notes=result.notes)


def _line(applied: Applied) -> TableLine:
    state = applied.state
    is_parked = state.state is State.PARKED
    notes = list(applied.notes)
    if is_parked:
        notes.append((state.reason or "").replace("\n", " "))
    elif state.state is State.APPEND_ONLY:
        notes.append(
            f"append-only: no key is known; write `keys:` for it under `tables:`, then"
            f" `mainstem rebuild {applied.state.name.dotted}`"
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
        state.source,
    )


def _status(view: View) -> Mapping[str, Any]:
    from gold.operations.status import status

    return status(view)


def _verify(run: Run) -> Sequence[Check]:
    from gold.operations.verify import verify

    return verify(run)


def _trace(run: Run, table: str, key: Mapping[str, str | None]) -> Mapping[str, Any]:
    from gold.operations.trace import trace

    return trace(run, table, key)


def _plan(run: Run) -> Preview:
    from gold.operations.preview import preview

    return preview(run)


def _replay(run: Run, with_dismissed: bool) -> LayerReport:
    return _run(run)


def _tables_to_maintain(run: Run) -> Iterable[MaintainedTable]:
    from gold.operations.maintain import tables_to_maintain

    return tables_to_maintain(run)


def _find_row(run: Run, table: str, key: Mapping[str, str | None], follows: bool) -> Sequence[Erasure]:
    from gold.operations.forget import find_row

    return find_row(run, table, key, follows)


def _expectations(run: Run, previous: PreviousResults) -> Sequence[CheckTarget]:
    from gold.operations.expectations import expectations

    return expectations(run, previous)


def _logs() -> Mapping[str, StructType | str]:
    from framework.contracts.table_names import BAD_VALUES_TABLE, TABLES_TABLE
    from gold.planning.table_state import SCHEMA
    from gold.writing.bad_values import BAD_VALUES_SCHEMA

    return {TABLES_TABLE: SCHEMA, BAD_VALUES_TABLE: BAD_VALUES_SCHEMA}


LAYER = Layer(
    name="gold",
    run=_run,
    verify=_verify,
    status=_status,
    replay=_replay,
    rebuild=_rebuild,
    trace=_trace,
    plan=_plan,
    tables_to_maintain=_tables_to_maintain,
    find_row=_find_row,
    erase=_erase,
    expectations=_expectations,
    logs=_logs,
    modules=("gold.job",),
)
