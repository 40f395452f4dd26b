"""Writes the batches of a source's stream to `bronze/messages`: each batch once, however often it runs."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from bronze.checkpoint import (
    Checkpoint,
    SourcesWithMessages,
    end_reset,
    next_landing,
    note_landed,
    open_checkpoint,
)
from bronze.files.file_log import log_table
from bronze.source import COMMITS_PER_BATCH, Feed, Part, SourceKind
from framework.contracts.table_names import MESSAGES_TABLE
from framework.contracts.table_schemas import MESSAGES
from framework.errors import as_raised
from framework.lakehouse.commits import newest_commits
from framework.lakehouse.file_commits import Commit, commit_files, takes_files
from framework.lakehouse.lakehouse import Lakehouse, Transaction, local_log
from framework.lakehouse.log_files import newest_transaction
from framework.lakehouse.log_upkeep import remove_read_commits
from framework.lakehouse.task_files import is_shared
from framework.pipeline.fault_injection import crash_point
from framework.pipeline.progress import Progress
from framework.spark.session import is_connect
from framework.spark.tuning import tune_for_rows

# At first Parquet checks the size of its buffers every hundred rows, which is too late for large rows. Values
# seldom repeat, so a dictionary of them would only cost memory. Silver decodes the row groups of a file in
# parallel; neighbours stay together in them, so only halves at the edge of a row group are paired later.
_PARQUET_OPTIONS = {
    "parquet.block.size": str(4 * 1024 * 1024),
    "parquet.page.size.row.check.min": "1",
    "parquet.block.size.row.check.min": "1",
    "parquet.enable.dictionary#value": "false",
}


def land(
    spark: SparkSession,
    feed: Feed,
    kind: SourceKind,
    landed_sources: SourcesWithMessages,
    progress: Progress | None = None,
) -> tuple[str, ...]:
    """Lands everything that the source's stream has now; raises MainstemError where a batch cannot land.

    Returns the topics that it has read, as far as the stream's own reports name them. It reports to
    `progress`, except on Spark Connect, where the batches run in another process.
    """
    report = None if progress is None or is_connect(spark) else progress
    checkpoint = open_checkpoint(spark, feed, landed_sources)
    writer = (
        kind.read_stream(spark, feed, checkpoint.is_reset)
        .writeStream.option("checkpointLocation", feed.checkpoint)
        .queryName(f"bronze {feed.name}")
    )
    query = (
        writer.trigger(availableNow=True).foreachBatch(batch_lander(feed, kind, checkpoint, report)).start()
    )
    if report is not None:
        report.watch("offsets", lambda: offsets_read(progress_reports(query)))
    try:
        query.awaitTermination()
    except PySparkException as error:
        raise as_raised(error) or error from None
    finally:
        note_landed(spark, feed)
    end_reset(spark, feed)
    if feed.source.files is not None:
        remove_read_commits(feed.lake.location(log_table(feed.name)))
    return () if report is None else topics_read(progress_reports(query))


def batch_lander(
    feed: Feed, kind: SourceKind, checkpoint: Checkpoint, progress: Progress | None = None
) -> Callable[[DataFrame, int], None]:
    """The function for `foreachBatch`; a batch that has landed before changes nothing."""

    def land_batch(batch: DataFrame, number: int) -> None:
        _prepare(batch.sparkSession)
        for part in _in_order(kind.parts(batch, feed, checkpoint.is_reset), number, feed, checkpoint):
            crash_point("bronze.before_land")
            tune_for_rows(batch.sparkSession, sys.maxsize if part.messages is None else part.messages)
            append_part(part, version_of(number, part), feed, checkpoint)
            crash_point("bronze.after_land")
            if progress is not None and part.files:
                progress.advance("files", part.files)
                progress.advance("bytes", part.size)

    return land_batch


def _in_order(parts: Iterator[Part], batch: int, feed: Feed, checkpoint: Checkpoint) -> Iterator[Part]:
    """The parts with the time at which each lands; files have it from their log."""
    if feed.source.files is not None:
        yield from parts
        return
    for part in parts:
        at = next_landing(part.spark, feed, checkpoint, is_first=batch == 0)
        yield replace(part, rows=partial(_landing_at, part.rows, at))


def _landing_at(rows: Callable[[], DataFrame], at: int) -> DataFrame:
    return rows().withColumn("ingested_at", F.timestamp_micros(F.lit(at)))


def progress_reports(query: StreamingQuery) -> list[Mapping[str, Any]]:
    """The recent progress reports of a query, as Spark writes them.

    PySpark's own members for the offsets of a report are no JSON, but the text of a Python dictionary.
    """
    return [json.loads(report.json) for report in query.recentProgress]


def offsets_read(reports: Sequence[Mapping[str, Any]]) -> tuple[int, int] | None:
    """How many offsets of Kafka a query has read, and how many there are for it, by its progress reports.

    None where it reads no Kafka, or has reported nothing yet.
    """
    sources = [report["sources"][0] for report in reports if report["sources"]]
    if not sources or "Kafka" not in sources[0]["description"]:
        return None
    first, newest = sources[0], sources[-1]
    # the first batch of a checkpoint names no start
    start = (
        _offset_sum(first["startOffset"])
        if first["startOffset"]
        else _offset_sum(first["endOffset"]) - first["numInputRows"]
    )
    end, latest = _offset_sum(newest["endOffset"]), _offset_sum(newest["latestOffset"])
    return end - start, max(latest, end) - start


def topics_read(reports: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The topics that a query of Kafka has read, by its progress reports; none of another query."""
    offsets = [
        source["endOffset"]
        for report in reports
        for source in report["sources"]
        if "Kafka" in source["description"] and source["numInputRows"]
    ]
    return tuple(sorted({topic for each in offsets for topic in each}))


def _offset_sum(offsets: Mapping[str, Mapping[str, int]] | None) -> int:
    return sum(offset for ends in (offsets or {}).values() for offset in ends.values())


def _prepare(session: SparkSession) -> None:
    """Sets up the batch's session for rows of any size, where the platform allows it."""
    for key, value in _PARQUET_OPTIONS.items():
        with contextlib.suppress(PySparkException):
            session.conf.set(key, value)


def append_part(part: Part, version: int, feed: Feed, checkpoint: Checkpoint) -> None:
    """Appends the rows in one commit, whose metadata names source and run.

    A repeated version writes nothing.
    """
    transaction = Transaction(_application(feed, checkpoint), version)
    note = {"source": feed.name, "run_id": feed.run_id, "files": part.files}
    if not _append_files(part, transaction, note, feed):
        feed.lake.append(part.rows(), MESSAGES_TABLE, transaction, {"userMetadata": json.dumps(note)})


def version_of(batch: int, part: Part) -> int:
    """The version of a part's transaction."""
    return batch * COMMITS_PER_BATCH + part.number


def newest_landed(feed: Feed, checkpoint: Checkpoint) -> int:
    """The version of the newest part that has landed from a checkpoint.

    -1 where there is none, or where only Spark could tell.
    """
    log = local_log(feed.lake.location(MESSAGES_TABLE))
    newest = None if log is None else newest_transaction(log, _application(feed, checkpoint))
    return -1 if newest is None else newest


def _application(feed: Feed, checkpoint: Checkpoint) -> str:
    """The name under which Delta knows the transactions of a checkpoint."""
    return f"{feed.pipeline}/bronze/{feed.name}/{checkpoint.generation}"


def _append_files(part: Part, transaction: Transaction, note: Mapping[str, object], feed: Feed) -> bool:
    """Appends the rows as files that become files of the table; returns whether that was possible."""
    spark, location, folder = part.spark, feed.lake.location(MESSAGES_TABLE), staging(feed)
    if part.write is None or not is_shared(spark, folder) or not takes_files(spark, location, MESSAGES):
        return False
    try:
        written = part.write(folder)
        commit = Commit(transaction, json.dumps({**note, "messages": written.messages}))
        return commit_files(spark, location, MESSAGES, written.files, commit)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def staging(feed: Feed) -> str:
    """The folder for the files of a part before its commit."""
    return f"{feed.lake.checkpoints}/staging/bronze/{feed.name}"


def count_landed(spark: SparkSession, lake: Lakehouse, run_id: str) -> dict[str, tuple[int, int]]:
    """How many files and messages the run has landed for each source, according to the table's history."""
    if not lake.exists(spark, MESSAGES_TABLE):
        return {}
    counts: dict[str, tuple[int, int]] = {}
    for commit in newest_commits(spark, lake.location(MESSAGES_TABLE)):
        note = json.loads(commit.get("userMetadata") or "{}")
        if "run_id" not in note:
            continue  # the upkeep of the table
        if note["run_id"] != run_id:
            break  # one run lands at a time
        files, messages = counts.get(note["source"], (0, 0))
        written = note.get("messages", int(commit["operationMetrics"].get("numOutputRows", 0)))
        counts[note["source"]] = (files + note["files"], messages + written)
    return counts
