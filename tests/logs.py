"""Logs of Delta tables that lose their old commits, as they do when a lakehouse is older than a month."""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.sql import SparkSession

from framework.spark.session import is_connect

_LONG = 40 * 86_400
"""Seconds; Delta keeps a log for 30 days."""


def expire_log(spark: SparkSession, table: Path) -> None:
    """Make all commits of a table but the newest old, and let Delta remove them: it does so at checkpoints.

    Without a JVM in this process nothing happens.
    """
    if is_connect(spark):
        return
    log = table / "_delta_log"
    newest = max(int(file.stem) for file in log.glob("*.json"))
    for file in log.iterdir():
        if file.is_file() and not file.name.startswith(f"{newest:020d}"):
            os.utime(file, (file.stat().st_mtime - _LONG,) * 2)
    jvm = spark._jvm
    assert jvm is not None
    jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)
    jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, str(table)).checkpoint()
    left = sorted(file.name for file in log.iterdir())
    assert [int(file.stem) for file in log.glob("*.json")] == [newest], left


def expire_logs(spark: SparkSession, lakehouse: Path) -> None:
    """`expire_log` for each table of a lakehouse."""
    for log in sorted(lakehouse.rglob("_delta_log")):
        expire_log(spark, log.parent)
