"""Where stops are among the landings of their partitions, and what separates the epochs there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from framework.contracts.epochs import PartitionStart, TopicStart, first_epoch_of_topic
from framework.spark.local_frame import local_frame
from silver.epochs.assignment import landing_order, with_epochs
from silver.epochs.history import History
from silver.epochs.stop_points import StopPoint

_PARTITION = ("source", "topic", "partition")
_NO_OFFSET = 2**63 - 1
_STOPS = (
    "number int, source string, topic string, `partition` int, offset bigint, restart int, "
    "since struct<at:bigint,file:string,line:bigint>"
)


def with_landings(messages: DataFrame, stops: Sequence[StopPoint]) -> list[StopPoint]:
    """The stops with the landings of their messages (from `identify`).

    After a restart, the first landing of it.
    """
    own = messages.where("relanding IS NULL").select(
        *_PARTITION, F.col("offset").alias("its"), _restart().alias("now"), landing_order().alias("landed")
    )
    joined = own.join(_frame_of(messages, stops), list(_PARTITION))
    is_of_restart = (F.col("restart") > 0) & (F.col("now") >= F.col("restart"))
    is_it = (F.col("restart") == 0) & (F.col("now") == 0) & (F.col("its") == F.col("offset"))
    found = (
        joined.where(is_of_restart | is_it).groupBy("number").agg(F.min("landed").alias("landed")).collect()
    )
    landings = {row["number"]: tuple(row["landed"]) for row in found}
    return [replace(stop, landed=landings.get(number)) for number, stop in enumerate(stops)]


def with_restarts(messages: DataFrame, stops: Sequence[StopPoint]) -> list[StopPoint]:
    """The stops with the `restart` of their messages among these (from `identify`)."""
    if all(stop.landed is None for stop in stops):
        return list(stops)
    own = messages.where("relanding IS NULL").select(
        *_PARTITION, _restart().alias("now"), landing_order().alias("landed")
    )
    joined = own.join(_frame_of(messages, stops), list(_PARTITION)).where("landed = since")
    restarts = {
        row["number"]: row["now"] for row in joined.groupBy("number").agg(F.min("now").alias("now")).collect()
    }
    return [replace(stop, restart=restarts.get(number, 0)) for number, stop in enumerate(stops)]


def of_present_topics(messages: DataFrame, history: History, epochs: Mapping[str, int]) -> DataFrame:
    """The messages of sources without those of topics that were created anew before these epochs."""
    firsts = [
        (source, topic, partition, first)
        for (source, topic, partition), starts in history.starts().items()
        if source in epochs and (first := first_epoch_of_topic(starts, epochs[source]))
    ]
    if not firsts:
        return messages
    frame = F.broadcast(
        local_frame(messages.sparkSession, firsts, "source string, topic string, `partition` int, first int")
    )
    placed = with_epochs(messages, history, epochs).join(frame, list(_PARTITION), "left")
    return placed.where("epoch >= coalesce(first, 0)").select(*(F.col(f"`{n}`") for n in messages.columns))


def epoch_starts(messages: DataFrame, unread: DataFrame, stops: Sequence[StopPoint]) -> list[PartitionStart]:
    """Where the epochs that begin at these stops start, judged by all messages of the present topics.

    What has an outcome stays in its epoch: the first message is sought among the `unread` ones (from
    `identify`).

    The offset is enough if it is above all that landed before, or if all messages above it are later: dumps
    may land in any order. Otherwise the topic was created again, and the landing and the times decide.
    """
    if all(stop.landed is None for stop in stops):
        return [PartitionStart(stop.topic, stop.partition, stop.offset) for stop in stops]
    frame = _frame_of(messages, stops)
    firsts = _first_messages(unread.where("relanding IS NULL"), frame)
    rows = messages.select(
        *_PARTITION, F.col("offset").alias("other"), "timestamp", landing_order().alias("landed")
    )
    above = rows.join(frame.join(firsts, "number"), list(_PARTITION))
    above = above.where((F.col("landed") < F.col("since")) & (F.col("other") >= F.col("offset")))
    earlier = above.where(~F.coalesce(F.col("timestamp") > F.col("its_time"), F.lit(False)))
    anew = {row["number"] for row in earlier.select("number").distinct().collect()}
    with_landing = {stop.source for stop in stops if stop.landed is not None}
    anew |= {number for number, stop in enumerate(stops) if stop.restart and stop.source in with_landing}
    if not anew:
        return [PartitionStart(stop.topic, stop.partition, stop.offset) for stop in stops]
    since = _topic_starts(messages, frame, firsts)
    return [
        PartitionStart(stop.topic, stop.partition, 0, stop.landed, since.get(number))
        if number in anew
        else PartitionStart(stop.topic, stop.partition, stop.offset)
        for number, stop in enumerate(stops)
    ]


def of_no_message(since: TopicStart | None) -> TopicStart | None:
    """The start of a topic for a partition of it that has no message yet, so that its times are not known."""
    return None if since is None else since._replace(offset=_NO_OFFSET)


def _first_messages(messages: DataFrame, frame: DataFrame) -> DataFrame:
    """By stop: the time of its message, and the first time and offset of the messages that landed with it."""
    landed = landing_order()
    its = messages.withColumnRenamed("offset", "own").join(frame, list(_PARTITION))
    is_with_it = (landed["at"] == F.col("since.at")) & (landed["file"] == F.col("since.file"))
    times = F.when(landed == F.col("since"), F.col("timestamp"))
    return (
        its.where(is_with_it & (landed >= F.col("since")))
        .groupBy("number")
        .agg(
            F.min(times).alias("its_time"),
            F.min("timestamp").alias("first_time"),
            F.min("own").alias("first_offset"),
        )
    )


def _topic_starts(messages: DataFrame, frame: DataFrame, firsts: DataFrame) -> dict[int, TopicStart]:
    """By stop: how messages of its topic are told from those of the former one (`TopicStart`)."""
    topics = frame.groupBy("source", "topic").agg(F.min("since").alias("since"))
    before = messages.join(F.broadcast(topics), ["source", "topic"]).where(landing_order() < F.col("since"))
    newest = before.groupBy("source", "topic").agg(F.max("timestamp").alias("newest"))
    reached = before.groupBy(*_PARTITION).agg(F.max("offset").alias("reached"))
    joined = frame.join(firsts, "number").join(newest, ["source", "topic"], "left")
    joined = joined.join(reached, list(_PARTITION), "left")
    times = (F.unix_micros("first_time").alias("time"), F.unix_micros("newest").alias("earlier"))
    found = joined.where("first_time IS NOT NULL").select("number", "first_offset", *times, "reached")
    return {number: TopicStart(*start) for number, *start in found.collect()}


def _restart() -> Column:
    return F.coalesce("restart", F.lit(0))


def _frame_of(rows: DataFrame, stops: Sequence[StopPoint]) -> DataFrame:
    found = [(n, s.source, s.topic, s.partition, s.offset, s.restart, s.landed) for n, s in enumerate(stops)]
    return F.broadcast(local_frame(rows.sparkSession, found, _STOPS))
