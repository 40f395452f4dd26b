"""Spark settings by the size of the work: a small run is all fixed cost, a large one needs the defaults."""

from __future__ import annotations

import contextlib

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

SMALL_ROWS = 20_000
_SMALL = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.merge.materializeSource": "none",
}


def tune_for_rows(spark: SparkSession, rows: int) -> None:
    """Set a session up for so many rows. Settings that a platform does not allow to change stay."""
    for key, value in _SMALL.items():
        if not spark.conf.isModifiable(key) and not key.startswith("spark.databricks"):
            continue
        with contextlib.suppress(PySparkException):  # serverless compute keeps most settings to itself
            if rows <= SMALL_ROWS:
                spark.conf.set(key, value)
            else:
                spark.conf.unset(key)
