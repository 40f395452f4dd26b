"""What the commits of a table say of themselves: their operations, metrics and notes.

Those of a local table are read from its log in this process, all others by Spark.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework.lakehouse.lakehouse import local_log, read_commits, table_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LAST = 3
_MOST = 1_000


def newest_commits(spark: SparkSession, location: str, most: int = _MOST) -> Iterator[Mapping[str, Any]]:
    """The newest commits of a table with `userMetadata` and `operationMetrics`, newest first.

    It ends before a commit that the log has no more, and after `most` commits.
    """
    newest, log = table_version(spark, location), local_log(location)
    if newest is None:
        return
    if log is None:
        rows = read_commits(spark, location, most).orderBy("version", ascending=False)
        yield from (row.asDict() for row in rows.select("userMetadata", "operationMetrics").collect())
        return
    for version in range(newest, max(newest - most, -1), -1):
        told = _commits(log, version)
        if not told:
            return
        yield told[0]


def operations(spark: SparkSession, location: str, since: int) -> set[str] | None:
    """The operations of the commits after a version, as Delta names them; None if the log lacks some."""
    newest, log = table_version(spark, location), local_log(location)
    if newest is None:
        return None
    if log is None:
        rows = (
            read_commits(spark, location, newest - since).select("operation").collect()
            if newest > since
            else []
        )
        return {row[0] for row in rows} if len(rows) == max(0, newest - since) else None
    found = set()
    for version in range(since + 1, newest + 1):
        told = _commits(log, version)
        if not told:
            return None
        found.add(str(told[0].get("operation")))
    return found


def rows_written(spark: SparkSession, location: str) -> int | None:
    """The number of rows in the newest commit that wrote any; None if the newest commits do not say."""
    told = (commit.get("operationMetrics") for commit in newest_commits(spark, location, _LAST))
    counts = [metrics["numOutputRows"] for metrics in told if metrics and "numOutputRows" in metrics]
    return int(counts[0]) if counts else None


def _commits(log: Path, version: int) -> list[dict[str, Any]]:
    """The `commitInfo` of a version's file in the log; empty where the file is missing."""
    file = log / f"{version:020d}.json"
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [json.loads(line)["commitInfo"] for line in lines if line.startswith('{"commitInfo"')]
