"""The tables that silver reads and writes, for `maintain`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from framework.contracts.table_names import (
    BATCHES_TABLE,
    CHANGES_TABLE,
    ENCODINGS_TABLE,
    EPOCHS_TABLE,
    MESSAGES_TABLE,
    PARTITIONS_TABLE,
    PENDING_TABLE,
    QUARANTINE_TABLE,
    REPAIRS_TABLE,
    SCHEMAS_TABLE,
    STATEMENTS_TABLE,
)
from framework.lakehouse.lakehouse import ALL_COMMITS, Lakehouse
from framework.lakehouse.small_files import is_local
from framework.pipeline.layer import MaintainedTable, Run

_TABLES = (
    CHANGES_TABLE,
    PENDING_TABLE,
    QUARANTINE_TABLE,
    SCHEMAS_TABLE,
    STATEMENTS_TABLE,
    BATCHES_TABLE,
    EPOCHS_TABLE,
    REPAIRS_TABLE,
    ENCODINGS_TABLE,
    PARTITIONS_TABLE,
)
# Operations that add no message: a stream that has not read them needs none of their files.
_STILL = ("OPTIMIZE", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "REORG")


def tables_to_maintain(run: Run) -> Iterator[MaintainedTable]:
    """Bronze's messages, whose old files stay until the stream has read them, and silver's own tables."""
    if run.table is not None:
        return
    if run.lake.exists(run.spark, MESSAGES_TABLE):
        is_read = is_read_to_end(run.spark, run.lake)
        yield MaintainedTable(
            MESSAGES_TABLE, None if is_read else "old files stay: silver has not read them all; run first"
        )
    for name in _TABLES:
        if run.lake.exists(run.spark, name):
            yield MaintainedTable(name)


def is_read_to_end(spark: SparkSession, lake: Lakehouse) -> bool:
    """Whether the stream has read the last commit of messages; False if that is unknown."""
    version = _next_version(f"{lake.checkpoints}/silver")
    if version is None:
        return False
    later = lake.history(spark, MESSAGES_TABLE, ALL_COMMITS).where(
        (F.col("version") >= version) & ~F.col("operation").isin(*_STILL)
    )
    return later.isEmpty()


def _next_version(checkpoint: str) -> int | None:
    """The version of bronze that the stream would read next, from the newest batch that has ended."""
    offsets, commits = os.path.join(checkpoint, "offsets"), os.path.join(checkpoint, "commits")
    if not is_local(checkpoint) or not os.path.isdir(offsets) or not os.path.isdir(commits):
        return None
    ended = sorted(int(name) for name in os.listdir(commits) if name.isdigit())
    if not ended:
        return None
    try:
        with open(os.path.join(offsets, str(ended[-1])), encoding="utf-8") as file:
            offset = json.loads(file.read().splitlines()[-1])
        return int(offset["reservoirVersion"]) if offset["index"] == -1 else None
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        return None
