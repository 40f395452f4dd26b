"""From a source's stream to `bronze/messages`: each batch once, whoever runs it and however often."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from bronze.checkpoint import Checkpoint, Held, open_checkpoint
from bronze.source import MESSAGES_TABLE, STATEMENTS_PER_BATCH, Feed, Part, SourceKind
from framework.crash import crash_point
from framework.errors import as_raised
from framework.tables import Lakehouse, Transaction

# Parquet weighs what it holds every hundred rows at first: too late for large ones. Values seldom repeat, so that a
# dictionary of them only costs memory.
_WRITING = {
    "parquet.page.size.row.check.min": "1",
    "parquet.block.size.row.check.min": "1",
    "parquet.enable.dictionary#value": "false",
}


def land(spark: SparkSession, feed: Feed, kind: SourceKind, held: Held) -> None:
    """Land everything that the source's stream has to offer now; raises MainstemError when a batch cannot land."""
    checkpoint = open_checkpoint(spark, feed, held)
    writer = kind.read_stream(spark, feed).writeStream.option("checkpointLocation", feed.checkpoint).queryName(f"bronze {feed.name}")
    query = writer.trigger(availableNow=True).foreachBatch(batch_lander(feed, kind, checkpoint)).start()
    try:
        query.awaitTermination()
    except PySparkException as error:
        raise as_raised(error) or error from None


def batch_lander(feed: Feed, kind: SourceKind, checkpoint: Checkpoint) -> Callable[[DataFrame, int], None]:
    """The function for `foreachBatch`; a batch that it has landed before changes nothing."""

    def land_batch(batch: DataFrame, number: int) -> None:
        _prepare(batch.sparkSession)
        for part in kind.parts(batch, feed, checkpoint.is_reset):
            crash_point("bronze.before_land")
            append_part(part, number * STATEMENTS_PER_BATCH + part.number, feed, checkpoint)
            crash_point("bronze.after_land")

    return land_batch


def _prepare(session: SparkSession) -> None:
    """Set up the batch's own session for rows of all sizes, where the platform allows it."""
    for key, value in _WRITING.items():
        with contextlib.suppress(PySparkException):
            session.conf.set(key, value)


def append_part(part: Part, version: int, feed: Feed, checkpoint: Checkpoint) -> None:
    """Append the rows in one commit, which says whose they are; a repeat of the version writes nothing."""
    transaction = Transaction(f"{feed.pipeline}/bronze/{feed.name}/{checkpoint.generation}", version)
    note = {"source": feed.name, "run_id": feed.run_id, "files": part.files}
    feed.lake.append(part.rows, MESSAGES_TABLE, transaction, {"userMetadata": json.dumps(note)})


def landed_counts(spark: SparkSession, lake: Lakehouse, run_id: str) -> dict[str, tuple[int, int]]:
    """How many files and messages this run has landed, by source and by the table's own history."""
    if not lake.exists(spark, MESSAGES_TABLE):
        return {}
    counts: dict[str, tuple[int, int]] = {}
    for row in lake.history(spark, MESSAGES_TABLE).select("userMetadata", "operationMetrics").collect():
        note = json.loads(row["userMetadata"] or "{}")
        if note.get("run_id") == run_id:
            files, messages = counts.get(note["source"], (0, 0))
            counts[note["source"]] = files + note["files"], messages + int(row["operationMetrics"].get("numOutputRows", 0))
    return counts
