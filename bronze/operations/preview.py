"""The messages that a run of bronze would land now, without landing them."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from bronze.checkpoint import Checkpoint, check_checkpoint, has_checkpoint, load_state, messages_table
from bronze.job import kind_of, source_error
from bronze.landing import newest_landed, version_of
from bronze.source import Feed, Waiting
from framework.contracts.table_names import MESSAGES_TABLE
from framework.contracts.table_schemas import MESSAGES
from framework.errors import MainstemError
from framework.lakehouse.parquet_files import read_parquet
from framework.lakehouse.small_files import is_local
from framework.pipeline.layer import Preview, Run


def preview(run: Run) -> Preview:
    """Shows which messages each source would land, or why it fails; lands nothing.

    Returns:
        An entry for each source, and the waiting messages as rows of `bronze/messages`.
    """
    waiting: DataFrame | None = None
    sources = []
    for source in run.config.sources.values():
        feed = Feed(run.config.pipeline, run.lake, source, run.run_id)
        found: dict[str, Any] = {
            "source": feed.name,
            "files": [],
            "messages": 0,
            "unfinished": [],
            "skipped": [],
            "error": None,
        }
        try:
            result = _peek(run.spark, feed, run.scratch)
        except Exception as error:
            found["error"] = str(source_error(error, feed))
        else:
            found |= {
                "files": list(result.files),
                "unfinished": list(result.unfinished),
                "skipped": list(result.skipped),
            }
            if result.messages is not None:
                found["messages"] = result.messages.count()
                waiting = result.messages if waiting is None else waiting.unionByName(result.messages)
        sources.append(found)
    return Preview({"sources": sources}, {} if waiting is None else {MESSAGES_TABLE: waiting})


def _peek(spark: SparkSession, feed: Feed, scratch: str) -> Waiting:
    """What waits in the source; copies its messages, so that later changes of the source do not matter."""
    kind = kind_of(feed.source)
    place = f"{scratch}/bronze/{feed.name}"
    if kind.peek is None:
        return _peek_stream(spark, feed, place, check_checkpoint(spark, feed))
    state = load_state(spark, feed, messages_table(spark, feed.lake))
    result = kind.peek(spark, feed, state)
    if result.messages is not None or not state:  # else a run starts no stream
        check_checkpoint(spark, feed)
    if result.messages is None:
        return result
    result.messages.write.parquet(place)
    return Waiting(read_parquet(spark, MESSAGES, place), result.files, result.unfinished, result.skipped)


def _peek_stream(spark: SparkSession, feed: Feed, place: str, checkpoint: Checkpoint) -> Waiting:
    """What the stream would land; a run that was stopped may have landed the batch that comes first."""
    kind, copy, landed = kind_of(feed.source), f"{place}.checkpoint", newest_landed(feed, checkpoint)
    copied = replace(feed, copied_checkpoint=copy)
    if not is_local(feed.checkpoint):
        raise MainstemError(
            "PLAN_OUT_OF_REACH",
            found="a checkpoint that cannot be copied to this machine",
            where=f"source {feed.name}, {feed.checkpoint}",
            action="run with --through bronze first: `plan` then says what the landed messages would do",
        )
    if has_checkpoint(spark, feed):
        shutil.copytree(feed.checkpoint, copy)

    def write(batch: DataFrame, number: int) -> None:
        for part in kind.parts(batch, copied, checkpoint.is_reset):
            if version_of(number, part) > landed:
                part.rows().write.mode("append").parquet(place)

    stream = kind.read_stream(spark, feed, checkpoint.is_reset)
    writer = stream.writeStream.option("checkpointLocation", copy)
    writer.trigger(availableNow=True).foreachBatch(write).start().awaitTermination()
    return Waiting(read_parquet(spark, MESSAGES, place)) if os.path.isdir(place) else Waiting()
