"""Writes the batches of a source's stream to `bronze/messages`: each batch once, however often it runs."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from bronze.checkpoint import Checkpoint, SourcesWithMessages, open_checkpoint
from bronze.source import COMMITS_PER_BATCH, Feed, Part, SourceKind
from framework.contracts.table_names import MESSAGES_TABLE
from framework.errors import as_raised
from framework.lakehouse.lakehouse import Lakehouse, Transaction
from framework.pipeline.fault_injection import crash_point

# At first Parquet checks the size of its buffers every hundred rows, which is too late for large rows. Values
# seldom repeat, so a dictionary of them would only cost memory. Silver decodes the row groups of a file in
# parallel; neighbours stay together in them, so only halves at the edge of a row group are paired later.
_PARQUET_OPTIONS = {
    "parquet.block.size": str(4 * 1024 * 1024),
    "parquet.page.size.row.check.min": "1",
    "parquet.block.size.row.check.min": "1",
    "parquet.enable.dictionary#value": "false",
}


def land(spark: SparkSession, feed: Feed, kind: SourceKind, landed_sources: SourcesWithMessages) -> None:
    """Lands everything that the source's stream has now; raises MainstemError where a batch cannot land."""
    checkpoint = open_checkpoint(spark, feed, landed_sources)
    writer = (
        kind.read_stream(spark, feed)
        .writeStream.option("checkpointLocation", feed.checkpoint)
        .queryName(f"bronze {feed.name}")
    )
    query = writer.trigger(availableNow=True).foreachBatch(batch_lander(feed, kind, checkpoint)).start()
    try:
        query.awaitTermination()
    except PySparkException as error:
        raise as_raised(error) or error from None


def batch_lander(feed: Feed, kind: SourceKind, checkpoint: Checkpoint) -> Callable[[DataFrame, int], None]:
    """The function for `foreachBatch`; a batch that has landed before changes nothing."""

    def land_batch(batch: DataFrame, number: int) -> None:
        _prepare(batch.sparkSession)
        for part in kind.parts(batch, feed, checkpoint.is_reset):
            crash_point("bronze.before_land")
            append_part(part, number * COMMITS_PER_BATCH + part.number, feed, checkpoint)
            crash_point("bronze.after_land")

    return land_batch


def _prepare(session: SparkSession) -> None:
    """Sets up the batch's session for rows of any size, where the platform allows it."""
    for key, value in _PARQUET_OPTIONS.items():
        with contextlib.suppress(PySparkException):
            session.conf.set(key, value)


def append_part(part: Part, version: int, feed: Feed, checkpoint: Checkpoint) -> None:
    """Appends the rows in one commit, whose metadata names source and run.

    A repeated version writes nothing.
    """
    transaction = Transaction(f"{feed.pipeline}/bronze/{feed.name}/{checkpoint.generation}", version)
    note = {"source": feed.name, "run_id": feed.run_id, "files": part.files}
    feed.lake.append(part.rows, MESSAGES_TABLE, transaction, {"userMetadata": json.dumps(note)})


def count_landed(spark: SparkSession, lake: Lakehouse, run_id: str) -> dict[str, tuple[int, int]]:
    """How many files and messages the run has landed for each source, according to the table's history."""
    if not lake.exists(spark, MESSAGES_TABLE):
        return {}
    counts: dict[str, tuple[int, int]] = {}
    for row in lake.history(spark, MESSAGES_TABLE).select("userMetadata", "operationMetrics").collect():
        note = json.loads(row["userMetadata"] or "{}")
        if note.get("run_id") == run_id:
            files, messages = counts.get(note["source"], (0, 0))
            counts[note["source"]] = (
                files + note["files"],
                messages + int(row["operationMetrics"].get("numOutputRows", 0)),
            )
    return counts
