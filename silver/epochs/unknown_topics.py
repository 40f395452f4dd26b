"""Messages of which neither offset nor time says whether they are of a topic or of the one before it.

A topic was created again, and its messages from an offset on were the first of it to land. A message below
that offset that lands later and is older than those may be one of the new topic. It may also be the former
topic's, sent after all of it that landed. It is the new topic's only if the former topic had reached its
offset before. Otherwise its source stops: an epoch that is guessed may let old values win.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from framework.contracts.epochs import PartitionStart, first_epoch_of_topic
from framework.spark.local_frame import local_frame
from silver.epochs.assignment import with_epochs
from silver.epochs.history import History
from silver.epochs.resets import UNKNOWN_TOPIC, StopPoint

_PARTITION = ("source", "topic", "partition")
_STARTS = (
    "source string, topic string, `partition` int, epoch int, first bigint, since bigint, earlier bigint, "
    "former struct<low:int,high:int>"
)


def find_unknown_topics(
    messages: DataFrame, bronze: DataFrame, history: History, newest: Mapping[str, int]
) -> list[StopPoint]:
    """A stop in each partition with such messages, at the first of them.

    Args:
        messages: The messages of a batch, with their epochs (from `identify`).
        bronze: All messages that have landed.
        history: The epochs of the sources.
        newest: The newest epoch of each source.
    """
    starts = [
        (*place, epoch, start.since.offset, start.since.time, start.since.earlier, _former(of_place, epoch))
        for place, of_place in history.starts().items()
        for epoch, start in of_place.items()
        if start.since is not None and start.since.offset > 0
    ]
    if not starts:
        return []
    frame = F.broadcast(local_frame(messages.sparkSession, starts, _STARTS))
    sent = F.unix_micros("timestamp")
    between = messages.where("relanding IS NULL").join(frame, [*_PARTITION, "epoch"])
    between = between.where((F.col("offset") < F.col("first")) & (sent < F.col("since")))
    between = between.where(F.coalesce(sent > F.col("earlier"), F.lit(True)))
    seen = between.groupBy(*_PARTITION, "epoch", "former").agg(F.max("offset").alias("highest"))
    if seen.isEmpty():
        return []
    former = with_epochs(bronze.select(*_BRONZE), history, newest).withColumnRenamed("epoch", "its")
    reached = former.join(F.broadcast(seen), list(_PARTITION))
    reached = reached.where("its BETWEEN former.low AND former.high")
    reached = reached.groupBy(*_PARTITION, "epoch").agg(F.max("offset").alias("reached"))
    unknown = between.join(F.broadcast(reached), [*_PARTITION, "epoch"], "left")
    unknown = unknown.where(F.coalesce(F.col("offset") > F.col("reached"), F.lit(True)))
    first = unknown.groupBy(*_PARTITION).agg(F.min("offset"), F.min_by("first", "offset"))
    return [
        StopPoint(
            row[0],
            row[1],
            row[2],
            row[3],
            UNKNOWN_TOPIC,
            f"its topic was created again, and its messages from offset {row[4]} on landed before this one,"
            " which may be of the former topic",
        )
        for row in first.collect()
    ]


def _former(starts: Mapping[int, PartitionStart], epoch: int) -> tuple[int, int]:
    """The first and the last epoch of the topic before the one that a partition has in this epoch."""
    last = first_epoch_of_topic(starts, epoch) - 1
    return first_epoch_of_topic(starts, last), last


_BRONZE = ("source", "topic", "partition", "offset", "timestamp", "ingested_at", "file", "line")
