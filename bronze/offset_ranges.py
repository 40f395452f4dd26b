"""Ranges of offsets: reads those of Kafka apart from the stream, and finds an offset that cannot be read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.config.sources import Kafka

_MOST_RANGES = 100
"""A condition on more ranges would take longer to plan than it saves."""

_CLIENT_OPTION_PREFIXES = ("kafka.", "kafkaconsumer.", "fetchoffset.", "groupidprefix")

Offsets = Mapping[str, Mapping[str, int]]
"""Offsets by topic and partition, as Spark writes them."""


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets of one partition, `end` excluded."""

    topic: str
    partition: int
    first: int
    end: int


def new_ranges(committed: Offsets, planned: Offsets) -> list[OffsetRange]:
    """The offsets that a planned batch adds; a partition that is new begins at 0."""
    return [
        OffsetRange(topic, int(partition), first, end)
        for topic, ends in sorted(planned.items())
        for partition, end in sorted(ends.items())
        if (first := committed.get(topic, {}).get(partition, 0)) < end
    ]


def ranges_of(rows: DataFrame) -> list[OffsetRange]:
    """The offsets of rows of MESSAGES, none of them null; runs a job."""
    ends = (F.min("offset"), F.max("offset"))
    found = rows.groupBy("topic", "partition").agg(*ends).collect()
    return [OffsetRange(topic, partition, first, last + 1) for topic, partition, first, last in found]


def before_ends(ranges: Sequence[OffsetRange], ends: Offsets) -> list[OffsetRange]:
    """The ranges that begin before the end of their partition; a partition that is not named ends at 0."""
    return [one for one in ranges if one.first < ends.get(one.topic, {}).get(str(one.partition), 0)]


def in_ranges(ranges: Sequence[OffsetRange]) -> Column:
    """Whether a message may be in one of the ranges; certain where they are few.

    Its bounds are literals: with them Delta finds the files of a table that have such messages.
    """
    if not ranges:
        return F.lit(False)
    if len(ranges) <= _MOST_RANGES:
        return reduce(or_, map(_is_in, ranges))
    topics = [one.topic for one in ranges]
    first, last = min(one.first for one in ranges), max(one.end for one in ranges) - 1
    return F.col("topic").between(min(topics), max(topics)) & F.col("offset").between(first, last)


def _is_in(one: OffsetRange) -> Column:
    is_partition = (F.col("topic") == one.topic) & (F.col("partition") == one.partition)
    return is_partition & F.col("offset").between(one.first, one.end - 1)


def read_ranges(spark: SparkSession, kafka: Kafka, ranges: Sequence[OffsetRange]) -> DataFrame:
    """The records of these offsets that the broker still has."""
    client = {
        key: value for key, value in kafka.options.items() if key.lower().startswith(_CLIENT_OPTION_PREFIXES)
    }
    partitions: dict[str, list[int]] = {}
    starts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for one in ranges:
        partitions.setdefault(one.topic, []).append(one.partition)
        starts.setdefault(one.topic, {})[str(one.partition)] = one.first
        ends.setdefault(one.topic, {})[str(one.partition)] = one.end
    reader = spark.read.format("kafka").options(**client, includeHeaders="true", failOnDataLoss="false")
    reader = reader.option("kafka.bootstrap.servers", kafka.bootstrap_servers)
    reader = reader.option("assign", json.dumps(partitions))
    return (
        reader.option("startingOffsets", json.dumps(starts)).option("endingOffsets", json.dumps(ends)).load()
    )


def first_failing(
    ranges: Sequence[OffsetRange], fails: Callable[[Sequence[OffsetRange]], bool]
) -> OffsetRange | None:
    """A range of one offset for which `fails` holds; None where it holds for none of the ranges.

    Of the first range that has such an offset it is the lowest. Calls `fails` about log2 times for the number
    of ranges and for that of their offsets.
    """
    if not ranges or not fails(ranges):
        return None
    while len(ranges) > 1:
        half = ranges[: len(ranges) // 2]
        ranges = half if fails(half) else ranges[len(half) :]
    one = ranges[0]
    while one.end - one.first > 1:
        middle = (one.first + one.end) // 2
        lower = replace(one, end=middle)
        one = lower if fails([lower]) else replace(one, first=middle)
    return one
