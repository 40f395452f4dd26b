"""Reads the last verdicts from `ops/quality_results`, and writes new ones, each once a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields
from typing import Any

from pyspark.sql import Row, SparkSession, Window
from pyspark.sql import functions as F

from framework.contracts.expectations import PreviousResults, TargetId
from framework.contracts.quality import QualityResult
from framework.contracts.table_names import QUALITY_RESULTS_TABLE
from framework.contracts.table_schemas import QUALITY_RESULTS
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.log_rows import append_rows

_KEY_COLUMNS = ("layer", "source", "database", "schema", "table")


def read_previous_results(spark: SparkSession, lake: Lakehouse) -> PreviousResults:
    """The last verdicts of every target; those of one target are from one run."""
    if not lake.exists(spark, QUALITY_RESULTS_TABLE):
        return PreviousResults()
    newest = F.max("started_at").over(Window.partitionBy(*_KEY_COLUMNS))
    rows = (
        lake.read(spark, QUALITY_RESULTS_TABLE)
        .withColumn("newest", newest)
        .where("started_at = newest")
        .drop("newest")
        .collect()
    )
    return PreviousResults(by_target(map(_result, rows)))


def by_target(results: Iterable[QualityResult]) -> dict[TargetId, list[QualityResult]]:
    """The results by the target that they are about."""
    found: dict[TargetId, list[QualityResult]] = {}
    for result in results:
        target = (result.layer, result.source, result.database, result.schema, result.table)
        found.setdefault(target, []).append(result)
    return found


def _result(row: Row) -> QualityResult:
    values: dict[str, Any] = {
        **row.asDict(),
        "columns": tuple(row["columns"] or ()),
        "failing_keys": tuple(row["failing_keys"] or ()),
    }
    return QualityResult(**values)


def append_results(spark: SparkSession, lake: Lakehouse, results: Sequence[QualityResult]) -> int:
    """Write the verdicts of a run in one commit; returns how many commits that took with a new table."""
    is_new = not lake.exists(spark, QUALITY_RESULTS_TABLE)
    if is_new:
        lake.create(spark, QUALITY_RESULTS_TABLE, QUALITY_RESULTS)
    names = [field.name for field in fields(QualityResult)]
    rows = []
    for result in results:
        values = asdict(result)
        rows.append(tuple(list(values[n]) if isinstance(values[n], tuple) else values[n] for n in names))
    append_rows(spark, (lake, QUALITY_RESULTS_TABLE), rows, QUALITY_RESULTS)
    return 2 if is_new else 1
