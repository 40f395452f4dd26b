"""How far earlier checkpoints of a source had landed when its present one began again.

What comes later has not landed, so that a stream that has begun again does not look it up in
`bronze/messages` for ever. It is noted once for each checkpoint. In notes of earlier releases it is missing;
what has landed meanwhile counts too, then.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bronze.checkpoint import add_facts, facts_of, has_checkpoint
from bronze.deduplication import drop_landed, messages_of
from bronze.files.file_log import log_table, newest_sequence
from bronze.offset_ranges import OffsetRange, Offsets, before_ends, in_ranges
from bronze.source import Feed
from framework.contracts.seed import FROM_A_DUMP

_ENDS, _SEQUENCE = "ends_before", "sequence_before"


def landed_ends(spark: SparkSession, feed: Feed) -> Offsets:
    """The offsets behind the messages of earlier checkpoints, by topic and partition.

    A plan notes nothing, and may be made before the checkpoint begins.
    """
    noted = facts_of(spark, feed).get(_ENDS) if has_checkpoint(spark, feed) else None
    if noted is not None:
        return dict(noted)
    ends: dict[str, dict[str, int]] = {}
    landed = messages_of(spark, feed).where("offset IS NOT NULL").groupBy("topic", "partition")
    for topic, partition, last in landed.agg(F.max("offset")).collect():
        ends.setdefault(topic, {})[str(partition)] = last + 1
    if feed.copied_checkpoint is None:
        add_facts(spark, feed, **{_ENDS: ends})
    return ends


def without_landed(rows: DataFrame, ranges: Sequence[OffsetRange], feed: Feed) -> DataFrame:
    """The rows of MESSAGES that no earlier checkpoint of the source has landed; `ranges` have their offsets.

    Later batches are behind all that had landed: they do not read `bronze/messages`.
    """
    repeated = before_ends(ranges, landed_ends(rows.sparkSession, feed))
    if not repeated:
        return rows
    return drop_landed(rows, messages_of(rows.sparkSession, feed).where(in_ranges(repeated)))


def note_sequence(spark: SparkSession, feed: Feed) -> None:
    """Notes the newest entry of the log of files, if the log has all files that have landed.

    Else a file that it does not know may land again: it may have been away when the log was made anew.
    """
    if _SEQUENCE in facts_of(spark, feed):
        return
    landed = messages_of(spark, feed).where(~F.expr(FROM_A_DUMP) & F.col("file").isNotNull())
    logged = feed.lake.read(spark, log_table(feed.name)).select("file")
    is_whole = landed.select("file").join(logged, "file", "left_anti").isEmpty()
    add_facts(spark, feed, **{_SEQUENCE: newest_sequence(spark, feed) if is_whole else None})


def is_later(spark: SparkSession, feed: Feed, sequence: int) -> bool:
    """Whether files from this entry of the log on cannot have landed before the checkpoint began again."""
    last = facts_of(spark, feed).get(_SEQUENCE)
    return last is not None and sequence > last
