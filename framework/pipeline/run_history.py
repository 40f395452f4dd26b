"""The run history, `ops/runs`: one row for each run, append-only."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from framework.contracts.table_names import RUNS_TABLE
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.log_rows import append_rows
from framework.lakehouse.small_files import is_local, write_note
from framework.pipeline.layer import ORDER, LayerReport, Run

RUNS_SCHEMA = (
    "run_id string, finished_at timestamp, counts string, tables string, errors string, seconds double, "
    "steps string"
)
_WHOLE = set(ORDER) - {"quality"}
"""The layers that have to run before a run can say that nothing is wrong any more. Rules have no errors."""


def append_run(work: Run, reports: Iterable[LayerReport], seconds: float) -> None:
    """Write what a run did and how long it took.

    A run that found nothing new writes no row, unless an earlier one has had errors since which no run of all
    layers and tables was without: else these would stand until new data comes.
    """
    reports, lake = list(reports), work.lake
    is_whole = is_for_all(work.table, (report.layer for report in reports))
    counts = {name: value for report in reports for name, value in report.counts.items() if value}
    lines = [line for report in reports for line in report.tables]
    errors = [str(error) for report in reports for error in report.errors]
    if not counts and not lines and not errors and not (is_whole and ended_with_errors(lake)):
        return
    note = _note(lake)
    if errors and note is not None:
        write_note(work.spark, str(note), work.run_id)
    tables = [[t.name, t.state, t.inserted, t.updated, t.deleted, t.late, list(t.notes)] for t in lines]
    row = (
        work.run_id,
        datetime.now(UTC),
        json.dumps(counts),
        json.dumps(tables, ensure_ascii=False),
        json.dumps(errors, ensure_ascii=False),
        seconds,
        json.dumps(
            {report.layer: round(report.seconds, 3) for report in reports if report.seconds is not None}
        ),
    )
    append_rows(work.spark, (lake, RUNS_TABLE), [row], RUNS_SCHEMA)
    if not errors and is_whole and note is not None:
        note.unlink(missing_ok=True)


def is_for_all(table: str | None, layers: Iterable[str]) -> bool:
    """Whether a run is for all tables, not for this one, and goes through all layers."""
    return table is None and set(layers) >= _WHOLE


def ended_with_errors(lake: Lakehouse) -> bool:
    """Whether a run had errors, and no run for all since was without; False where that would take a job."""
    note = _note(lake)
    return note is not None and note.is_file()


def _note(lake: Lakehouse) -> Path | None:
    """The file that tells that a run had errors; None where this process writes no files."""
    path = f"{lake.checkpoints}/runs.failed"
    return Path(path) if is_local(path) else None
