"""Ranges of Kafka's offsets: reads them apart from the stream, and finds an offset that cannot be read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession

from framework.config.sources import Kafka

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
