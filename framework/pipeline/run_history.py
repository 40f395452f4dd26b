"""The run history, `ops/runs`: one row for each run, append-only."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from framework.contracts.table_names import RUNS_TABLE
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.log_rows import append_rows
from framework.lakehouse.small_files import is_local, write_note
from framework.pipeline.layer import LayerReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUNS_SCHEMA = (
    "run_id string, finished_at timestamp, counts string, tables string, errors string, seconds double, "
    "steps string"
)


def append_run(
    spark: SparkSession, lake: Lakehouse, run_id: str, reports: Iterable[LayerReport], seconds: float
) -> None:
    """Write what a run did and how long it took.

    A run that found nothing new writes no row, unless the newest row has errors: else these would stand until
    new data comes.
    """
    reports = list(reports)
    counts = {name: value for report in reports for name, value in report.counts.items() if value}
    lines = [line for report in reports for line in report.tables]
    errors = [str(error) for report in reports for error in report.errors]
    if not counts and not lines and not errors and not ended_with_errors(lake):
        return
    note = _note(lake)
    if errors and note is not None:
        write_note(spark, str(note), run_id)
    tables = [[t.name, t.state, t.inserted, t.updated, t.deleted, t.late, list(t.notes)] for t in lines]
    row = (
        run_id,
        datetime.now(UTC),
        json.dumps(counts),
        json.dumps(tables, ensure_ascii=False),
        json.dumps(errors, ensure_ascii=False),
        seconds,
        json.dumps(
            {report.layer: round(report.seconds, 3) for report in reports if report.seconds is not None}
        ),
    )
    append_rows(spark, (lake, RUNS_TABLE), [row], RUNS_SCHEMA)
    if not errors and note is not None:
        note.unlink(missing_ok=True)


def ended_with_errors(lake: Lakehouse) -> bool:
    """Whether the newest row of the run history has errors; False where telling that would take a job."""
    note = _note(lake)
    return note is not None and note.is_file()


def _note(lake: Lakehouse) -> Path | None:
    """The file that is there while the newest row has errors; None where this process writes no files."""
    path = f"{lake.checkpoints}/runs.failed"
    return Path(path) if is_local(path) else None
