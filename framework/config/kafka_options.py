"""The keys below `kafka:` that are options of Spark's reader.

Spark ignores an option that it does not know, and a setting of the client without its prefix: the source
would begin at another message, or connect without encryption, and nothing would say so.

The options are those of
https://spark.apache.org/docs/latest/streaming/structured-streaming-kafka-integration.html
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from framework.errors import nearest, suggested

READER_OPTIONS = (
    "failOnDataLoss",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "includeHeaders",
    "kafkaConsumer.pollTimeoutMs",
    "maxOffsetsPerTrigger",
    "maxRecordsPerPartition",
    "maxTriggerDelay",
    "minOffsetsPerTrigger",
    "minPartitions",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
)
"""The options of a stream, without those that Mainstem sets itself."""

_PLACES = frozenset({"subscribe", "subscribepattern", "assign", "kafka.bootstrap.servers"})
_PREFIXES = ("kafka.", "databricks.")
_SPELLINGS = frozenset(option.lower() for option in READER_OPTIONS)


def is_reader_option(key: str) -> bool:
    """Whether Spark's reader takes the key; it compares options without case."""
    name = key.lower()
    return name in _SPELLINGS or (name.startswith(_PREFIXES) and name not in _PLACES)


def instead_of(key: str, own: Iterable[str]) -> str:
    """What to write instead of a key that is none; `own` are the keys that Mainstem has itself."""
    names = tuple(own)
    if key.lower() in _PLACES or get_close_matches(key, names, n=1, cutoff=0.85):
        return suggested(key, names)
    first, dot, rest = key.partition(".")
    if dot and key == key.lower():  # as settings of Kafka's client are spelt
        setting = rest if nearest(first, ("kafka",)) else key
        return f"write `kafka.{setting}`: the settings of Kafka's client have this prefix"
    return suggested(key, (*names, *READER_OPTIONS, "kafka.…"))
