"""What waits for bronze: the messages that a run would land now, without landing them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from bronze.checkpoint import recall
from bronze.job import kind_of, stopped_by
from bronze.source import MESSAGES_TABLE, Feed, SourceKind, Waiting
from framework.contracts.tables import MESSAGES
from framework.errors import MainstemError
from framework.layer import Outlook, Run
from framework.notes import is_local


def outlook(run: Run) -> Outlook:
    """Each source's files and messages that wait, or why it cannot go on; the messages as rows to be of `bronze/messages`."""
    waiting: DataFrame | None = None
    sources = []
    for source in run.config.sources.values():
        feed = Feed(run.config.pipeline, run.lake, source, run.run_id)
        found: dict[str, Any] = {"source": feed.name, "files": [], "messages": 0, "unfinished": [], "error": None}
        try:
            seen = _peeked(run.spark, feed, run.scratch)
        except Exception as error:
            found["error"] = str(stopped_by(error, feed))
        else:
            found |= {"files": list(seen.files), "unfinished": list(seen.unfinished)}
            if seen.messages is not None:
                found["messages"] = seen.messages.count()
                waiting = seen.messages if waiting is None else waiting.unionByName(seen.messages)
        sources.append(found)
    return Outlook({"sources": sources}, {} if waiting is None else {MESSAGES_TABLE: waiting})


def _peeked(spark: SparkSession, feed: Feed, scratch: str) -> Waiting:
    """What waits, its messages kept in a file of this run: looked at once, whatever happens in the place meanwhile."""
    kind = kind_of(feed.source)
    place = str(Path(scratch) / "bronze" / feed.name)
    if kind.peek is None:
        return _streamed(spark, feed, kind, place)
    seen = kind.peek(spark, feed, recall(spark, feed))
    if seen.messages is None:
        return seen
    seen.messages.write.parquet(place)
    return Waiting(spark.read.schema(MESSAGES).parquet(place), seen.files, seen.unfinished)


def _streamed(spark: SparkSession, feed: Feed, kind: SourceKind, place: str) -> Waiting:
    if not is_local(feed.checkpoint):
        raise MainstemError(
            "PLAN_OUT_OF_REACH",
            found="a checkpoint that cannot be copied to this machine",
            where=f"source {feed.name}, {feed.checkpoint}",
            action="run with --through bronze first: `plan` then tells what the landed messages would do",
        )
    checkpoint = f"{place}.checkpoint"
    if os.path.isdir(feed.checkpoint):
        shutil.copytree(feed.checkpoint, checkpoint)

    def keep(batch: DataFrame, number: int) -> None:
        for part in kind.parts(batch, feed, False):
            part.rows.write.mode("append").parquet(place)

    writer = kind.read_stream(spark, feed).writeStream.option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).foreachBatch(keep).start().awaitTermination()
    return Waiting(spark.read.schema(MESSAGES).parquet(place)) if os.path.isdir(place) else Waiting()
