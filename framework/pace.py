"""Spark settings by the size of the work: small work is all fixed cost, large work wants the defaults."""

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


def set_pace(spark: SparkSession, rows: int) -> None:
    """Prepare a session for work on so many rows. Settings that a platform does not let change are left alone."""
    for key, value in _SMALL.items():
        if not spark.conf.isModifiable(key) and not key.startswith("spark.databricks"):
            continue
        with contextlib.suppress(PySparkException):  # serverless compute keeps most settings to itself
            if rows <= SMALL_ROWS:
                spark.conf.set(key, value)
            else:
                spark.conf.unset(key)
