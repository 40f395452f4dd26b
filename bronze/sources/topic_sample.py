"""Reads a sample of topics without landing it, for commands that look at a feed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bronze.headers import escape_reserved_headers
from bronze.record_times import representable_time
from bronze.sources.kafka import explained, reader_options
from framework.config.sources import Kafka
from framework.contracts.file_messages import FiledMessage, Sample
from framework.contracts.messages import RawMessage
from framework.spark.session import is_connect

LAYOUT = "kafka"
_LEAST_MESSAGES = 20
_LEAST_BYTES = 1024 * 1024
_PARTITIONS = 40
"""How many partitions are assumed where their number is unknown."""
_IMPATIENT = {
    "kafka.request.timeout.ms": "10000",
    "kafka.default.api.timeout.ms": "15000",
    "fetchOffset.numRetries": "1",
    "endingOffsets": "latest",
}
"""Somebody waits for the answer: a broker that is not there is told in less than a minute."""
_SAMPLED = "topic string, partition int, offset bigint, timestamp bigint, key binary, value binary, " + (
    "headers array<struct<key: string, value: binary>>"
)


def sample_topics(spark: SparkSession, kafka: Kafka, sample: Sample) -> Iterator[FiledMessage]:
    """The first messages of each partition that the broker still has, in the order of topic and offset.

    The limits of `sample` are shared out to the partitions; it is updated with what was read. `file` of a
    message is its topic, `line` its offset.

    Raises:
        MainstemError: KAFKA_UNREACHABLE, KAFKA_TOPIC_UNKNOWN or KAFKA_REFUSED.
    """
    topics = ", ".join(kafka.topics or (kafka.topic_pattern or "",))
    place = f"kafka {kafka.bootstrap_servers}, {topics}"
    try:
        records = spark.read.format("kafka").options(**_batch_options(kafka)).load()
        partitions = _PARTITIONS if is_connect(spark) else records.rdd.getNumPartitions()
        share = max(sample.messages // max(partitions, 1), _LEAST_MESSAGES)
        size = max(sample.size // max(partitions, 1), _LEAST_BYTES)
        rows = first_messages(records, share, size).limit(sample.messages).collect()
    except Exception as error:
        known = explained(error, place)
        if known is None:
            raise
        raise known from error
    counts = Counter((row["topic"], row["partition"]) for row in rows)
    sample.files = len({row["topic"] for row in rows})
    sample.is_cut = len(rows) >= sample.messages or any(count >= share for count in counts.values())
    sample.messages -= len(rows)
    for row in sorted(rows, key=lambda row: (row["topic"], row["partition"], row["offset"])):
        yield _filed(row)


def _batch_options(kafka: Kafka) -> dict[str, str]:
    """The options of the reader, without those that only a stream has."""
    stream = ("maxoffsetspertrigger", "minoffsetspertrigger", "maxtriggerdelay", "startingoffsets")
    options = {
        key: value
        for key, value in reader_options(kafka, is_reset=False).items()
        if key.lower() not in stream
    }
    return {**_IMPATIENT, **options, "startingOffsets": "earliest", "failOnDataLoss": "false"}


def first_messages(records: DataFrame, messages: int, size: int) -> DataFrame:
    """The first records of each task, at most so many, and no more once their values have so many bytes."""
    rows = records.select(
        "topic",
        "partition",
        "offset",
        F.unix_micros(representable_time(F.col("timestamp"))).alias("timestamp"),
        "key",
        "value",
        escape_reserved_headers(F.col("headers")).alias("headers"),
    )
    return rows.mapInArrow(_taking(messages, size), _SAMPLED)


def _taking(messages: int, size: int) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    def take(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        left, room = messages, size
        for batch in batches:
            taken = batch.slice(0, left)
            left -= taken.num_rows
            room -= taken.nbytes
            yield taken
            if left <= 0 or room <= 0:
                return

    return take


def _filed(row: Any) -> FiledMessage:
    value = None if row["value"] is None else bytes(row["value"])
    key = None if row["key"] is None else bytes(row["key"])
    headers = tuple(
        (header["key"], None if header["value"] is None else bytes(header["value"]))
        for header in row["headers"] or ()
    )
    message = RawMessage(
        "", row["topic"], row["partition"], row["offset"], row["timestamp"], key, value, headers
    )
    return FiledMessage(row["topic"], row["offset"], LAYOUT, message)
