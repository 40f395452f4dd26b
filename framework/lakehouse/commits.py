"""What the commits of a table say of themselves: their operations, metrics and notes.

Those of a local table are read from its log in this process, all others by Spark.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework.lakehouse.lakehouse import local_log, read_commits, table_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OVERWRITE = "OVERWRITE"
"""The operation of a write that has replaced all rows, which Delta tells from an append only by its mode."""
OPERATION_SQL = f"IF(operationParameters['mode'] = 'Overwrite', '{OVERWRITE}', operation)"
"""The operation of a commit in the history of a table (`Lakehouse.history`), as `operations` names it."""
_LAST = 3
_FIRST = 1_000
"""How many commits Spark reads first; ten times as many where the caller goes on behind them."""


def newest_commits(
    spark: SparkSession, location: str, most: int | None = None
) -> Iterator[Mapping[str, Any]]:
    """The commits of a table with `userMetadata` and `operationMetrics`, newest first.

    It ends before a commit that the log has no more, and after `most` commits. A caller that stops early pays
    for few of them.
    """
    newest, log = table_version(spark, location), local_log(location)
    if newest is None:
        return
    if log is None:
        yield from _read_by_spark(spark, location, most)
        return
    for version in range(newest, -1 if most is None else max(newest - most, -1), -1):
        told = commit_infos(log, version)
        if not told:
            return
        yield told[0]


def _read_by_spark(spark: SparkSession, location: str, most: int | None) -> Iterator[Mapping[str, Any]]:
    limit, last = most or _FIRST, sys.maxsize
    while True:
        rows = read_commits(spark, location, limit).orderBy("version", ascending=False)
        found = rows.select("version", "userMetadata", "operationMetrics").collect()
        yield from (row.asDict() for row in found if row["version"] < last)
        if most is not None or len(found) < limit:
            return
        limit, last = limit * 10, found[-1]["version"]


def operations(spark: SparkSession, location: str, since: int, moment: datetime) -> set[str] | None:
    """The operations of the commits after a version that was there at this moment.

    They are named as Delta names them, except OVERWRITE.
    None if the log lacks some, or if the version was made later: an older copy of the table was put back.
    """
    newest, log = table_version(spark, location), local_log(location)
    if newest is None or newest < since:
        return None
    if log is None:
        rows = read_commits(spark, location, newest - since + 1).orderBy("version")
        found = [tuple(row) for row in rows.selectExpr(OPERATION_SQL, "unix_millis(timestamp)").collect()]
    else:
        told = (commit_infos(log, version) for version in range(since, newest + 1))
        found = [
            (_operation(commit), commit.get("timestamp", float("inf"))) for one in told for commit in one[:1]
        ]
    if len(found) != newest - since + 1 or found[0][1] > moment.timestamp() * 1000:
        return None
    return {operation for operation, _ in found[1:]}


def _operation(commit: Mapping[str, Any]) -> str:
    """OPERATION_SQL for the `commitInfo` of a commit."""
    is_whole = commit.get("operationParameters", {}).get("mode") == "Overwrite"
    return OVERWRITE if is_whole else str(commit.get("operation"))


def rows_written(spark: SparkSession, location: str) -> int | None:
    """The number of rows in the newest commit that wrote any; None if the newest commits do not say."""
    told = (commit.get("operationMetrics") for commit in newest_commits(spark, location, _LAST))
    counts = [metrics["numOutputRows"] for metrics in told if metrics and "numOutputRows" in metrics]
    return int(counts[0]) if counts else None


def commit_infos(log: Path, version: int) -> list[dict[str, Any]]:
    """The `commitInfo` of a version's file in the log; empty where the file is missing."""
    file = log / f"{version:020d}.json"
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [json.loads(line)["commitInfo"] for line in lines if line.startswith('{"commitInfo"')]
