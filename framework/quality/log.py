"""`ops/quality_results`: the last verdicts are read once a run, the new ones are written once a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F

from framework.contracts.quality import RESULTS_TABLE, QualityResult, Severity
from framework.contracts.tables import QUALITY_RESULTS
from framework.names import dotted_name
from framework.quality.subject import Past, Place
from framework.tables import Lakehouse

_SHOWN_KEYS = 3
_PLACE = ("layer", "source", "database", "schema", "table")


def read_past(spark: SparkSession, lake: Lakehouse) -> Past:
    """The last verdicts of every place; those of one place are of one run."""
    if not lake.exists(spark, RESULTS_TABLE):
        return Past()
    newest = F.max("started_at").over(Window.partitionBy(*_PLACE))
    rows = lake.read(spark, RESULTS_TABLE).withColumn("newest", newest).where("started_at = newest").drop("newest").collect()
    found: dict[Place, list[QualityResult]] = {}
    for row in rows:
        values: dict[str, Any] = {**row.asDict(), "columns": tuple(row["columns"] or ()), "failing_keys": tuple(row["failing_keys"] or ())}
        result = QualityResult(**values)
        found.setdefault((result.layer, result.source, result.database, result.schema, result.table), []).append(result)
    return Past(found)


def append_results(spark: SparkSession, lake: Lakehouse, results: Sequence[QualityResult]) -> None:
    """Write the verdicts of a run in one commit."""
    lake.create(spark, RESULTS_TABLE, QUALITY_RESULTS)
    names = [field.name for field in fields(QualityResult)]
    rows = []
    for result in results:
        values = asdict(result)
        rows.append(tuple(list(values[n]) if isinstance(values[n], tuple) else values[n] for n in names))
    lake.append(spark.createDataFrame(rows, QUALITY_RESULTS).coalesce(1), RESULTS_TABLE)


def is_error(result: QualityResult) -> bool:
    """Whether a failed verdict makes the run end with exit code 3."""
    return result.success is False and result.severity == Severity.ERROR


def failure_line(result: QualityResult) -> str:
    """A failed verdict for the terminal."""
    place = dotted_name(result.database, result.schema, result.table) or result.source or result.layer
    keys = ", ".join(f"[{key}]" for key in result.failing_keys[:_SHOWN_KEYS])
    more = f" and {result.failed_count - _SHOWN_KEYS:,} more" if keys and result.failed_count > _SHOWN_KEYS else ""
    return f"  {result.severity.upper():<5}  {result.layer} {place}: {result.rule} ({result.observed})" + (
        f": {keys}{more}" if keys else ""
    )
