"""The run history, `ops/runs`: one row a run, append-only."""

from __future__ import annotations

import json
from collections.abc import Iterable

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from framework.layer import LayerReport
from framework.tables import Lakehouse

RUNS_TABLE = "ops/runs"
_SCHEMA = "run_id string, finished_at timestamp, counts string, tables string, errors string, seconds double"


def append_run(spark: SparkSession, lake: Lakehouse, run_id: str, reports: Iterable[LayerReport], seconds: float) -> None:
    """Note what a run did and how long it took; a run that found nothing new leaves no row."""
    reports = list(reports)
    counts = {name: value for report in reports for name, value in report.counts.items() if value}
    lines = [line for report in reports for line in report.tables]
    errors = [str(error) for report in reports for error in report.errors]
    if not counts and not lines and not errors:
        return
    tables = [[t.name, t.state, t.inserted, t.updated, t.deleted, t.late, list(t.notes)] for t in lines]
    row = (run_id, None, json.dumps(counts), json.dumps(tables, ensure_ascii=False), json.dumps(errors, ensure_ascii=False), seconds)
    frame = spark.createDataFrame([row], _SCHEMA).withColumn("finished_at", F.current_timestamp())
    lake.append(frame.coalesce(1), RUNS_TABLE, properties={"mergeSchema": "true"})  # `seconds` came later than the table
