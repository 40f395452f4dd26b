"""Puts a table back from a copy, as a user does between two runs."""

from __future__ import annotations

import shutil
from pathlib import Path

from pyspark.sql import SparkSession

from framework.spark.session import is_connect


def put_back(spark: SparkSession, copy: Path, table: Path) -> None:
    """Put a copy of a table in its place, of which an open session then knows as little as a new one."""
    shutil.rmtree(table, ignore_errors=True)
    shutil.copytree(copy, table)
    if not is_connect(spark):
        jvm = spark._jvm
        assert jvm is not None
        jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
