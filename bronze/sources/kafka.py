"""Messages of Kafka topics, read with Spark's connector: coordinates, keys, values and headers of the broker.

Other keys of `kafka:` are options of Spark's reader and go to it unchanged: its own (`startingOffsets`,
`maxOffsetsPerTrigger`, `minPartitions`) and, with the prefix `kafka.`, those of the client
(`kafka.security.protocol`, `kafka.sasl.jaas.config`). By default a source begins at the earliest offset, a
commit has at most a million messages, and lost offsets stop the source. The options are those of
https://spark.apache.org/docs/latest/streaming/structured-streaming-kafka-integration.html

A checkpoint that begins again begins at the earliest offset, whatever is configured: the configured offsets
belong to the first start. They say nothing of the messages that came since, and may be those of a topic that
was deleted.

`topic_pattern` must match the whole name of a topic; Spark alone also reads topics that match in part.

A topic that was deleted and created again counts its offsets from 0. Once it has more messages than the old
topic had, Spark would continue in the middle of it. Therefore the messages just before a batch are compared
with those that have landed: where they differ, the source stops with KAFKA_TOPIC_RECREATED.

Offsets that the broker no longer has are never skipped: the source stops with KAFKA_OFFSETS_LOST, which names
the range. A topic that is added later, or that matches the pattern later, is read from its first message.

A record whose time Spark cannot read stops the source with KAFKA_TIMESTAMP_UNREADABLE, which names it: Spark
fails before any code of Mainstem sees the record, so it can neither land nor be quarantined.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bronze.deduplication import messages_of, offsets_with_other_messages
from bronze.headers import escape_reserved_headers
from bronze.offset_ranges import OffsetRange, first_failing, in_ranges, new_ranges, ranges_of, read_ranges
from bronze.record_times import representable_time
from bronze.restarts import without_landed
from bronze.source import Discovery, Feed, Part, SourceKind
from bronze.sources.brokers import why_unreachable
from framework.config.sources import Kafka
from framework.contracts.table_schemas import MESSAGES
from framework.errors import MainstemError
from framework.lakehouse.checkpoint_files import newest_offsets
from framework.spark.session import is_connect

DEFAULTS: Mapping[str, str] = {
    "startingOffsets": "earliest",
    "failOnDataLoss": "true",
    "maxOffsetsPerTrigger": "1000000",
}

_STARTS = ("startingoffsets", "startingoffsetsbytimestamp", "startingtimestamp")

_DATA_LOSS = re.compile(r"Some data may have been lost.*?Reason:\s*([^\n]+)", re.DOTALL)
_AFTER_A_RECREATION = (
    "delete {checkpoint}, create the empty file {checkpoint}.reset, raise `epoch` by one and run:"
    " the new topic is then read from its first message, and what has landed stays"
)
_AFTER_A_LOSS = (
    "nothing was skipped; restore the messages on the broker;"
    " or, where the topic was deleted and created again, "
    + _AFTER_A_RECREATION
    + "; or set `failOnDataLoss: false` for one run, which continues after the gap,"
    " and load what is missing with a new snapshot under a higher `epoch`"
)
_DELETED = re.compile(r"Partitions (?:\w+\()?(.*?)\)? have been deleted")
_AFTER_LEAVING_OUT = (
    "name the topic again; or delete {checkpoint}, create the empty file {checkpoint}.reset and run:"
    " the other topics go on, and what has landed stays"
)
_UNREADABLE = "KAFKA_TIMESTAMP_UNREADABLE"
_OVERFLOW = re.compile(r"ArithmeticException\)?:? long overflow")
_AFTER_AN_UNREADABLE_TIME = (
    "delete the records of this partition up to and including it (kafka-delete-records.sh), run once with"
    " `failOnDataLoss: false`, and load the messages before it that have not landed with a new snapshot under"
    " a higher `epoch`; so that it does not happen again, let the broker refuse or replace such times:"
    " set `message.timestamp.after.max.ms=3600000` or `message.timestamp.type=LogAppendTime` for the topic"
)
_MESSAGES_COMPARED = 10
"""How many messages just before a batch are compared with those that have landed."""
_TOPICS_PER_QUERY = 50
_FAILURES = (
    (
        "UnknownTopicOrPartitionException",
        "KAFKA_TOPIC_UNKNOWN",
        "the broker does not know a topic",
        "create it, or correct `topics`",
    ),
    (
        "TopicAuthorizationException",
        "KAFKA_REFUSED",
        "the broker refuses a topic",
        "give the user of `kafka:` the right to read it",
    ),
    (
        "SaslAuthenticationException",
        "KAFKA_REFUSED",
        "the broker refuses the user",
        "correct the `kafka.sasl.…` keys of `kafka:`",
    ),
    (
        "SslAuthenticationException",
        "KAFKA_REFUSED",
        "no trusted connection",
        "correct the `kafka.ssl.…` keys of `kafka:`",
    ),
    (
        "No resolvable bootstrap",
        "KAFKA_UNREACHABLE",
        "no server has a known address",
        "correct `bootstrap_servers`",
    ),
    (
        "TimeoutException",
        "KAFKA_UNREACHABLE",
        "the broker does not answer",
        "start it, or correct `bootstrap_servers`, and run again",
    ),
)


def reader_options(kafka: Kafka, *, is_reset: bool) -> dict[str, str]:
    """The options of Spark's reader; configured options override the defaults, whatever their case.

    With `is_reset` all topics are read from their first message.
    """
    ignored = {"includeheaders", *(_STARTS if is_reset else ())}
    own = {key: value for key, value in kafka.options.items() if key.lower() not in ignored}
    configured = {key.lower() for key in own}
    options = {key: value for key, value in DEFAULTS.items() if key.lower() not in configured} | own
    topics = (
        {"subscribe": ",".join(kafka.topics)}
        if kafka.topics is not None
        else {"subscribePattern": f"^(?:{kafka.topic_pattern})$"}
    )
    return {**options, **topics, "kafka.bootstrap.servers": kafka.bootstrap_servers, "includeHeaders": "true"}


def discover(spark: SparkSession, feed: Feed, state: str) -> Discovery:
    """Never idle: the stream itself asks the broker what is new, and starts no batch where nothing is.

    Raises:
        MainstemError: KAFKA_UNREACHABLE where no broker accepts a connection from this machine, if the driver
            runs on it.
    """
    reason = None if is_connect(spark) else why_unreachable(_kafka(feed).bootstrap_servers)
    if reason is not None:
        raise MainstemError(
            "KAFKA_UNREACHABLE",
            found=f"no server of `bootstrap_servers` accepts a connection: {reason}",
            where=f"source {feed.name}",
            action="start the broker, or correct `bootstrap_servers`, and run again",
        )
    return Discovery(is_idle=False)


def read_stream(spark: SparkSession, feed: Feed, is_reset: bool) -> DataFrame:
    """The topics as a stream."""
    options = reader_options(_kafka(feed), is_reset=is_reset)
    return spark.readStream.format("kafka").options(**options).load()


def parts(batch: DataFrame, feed: Feed, is_reset: bool) -> Iterator[Part]:
    """The batch as one commit; with `is_reset` without the messages of earlier checkpoints.

    Raises:
        MainstemError: KAFKA_TOPIC_RECREATED where the batch does not continue what has landed.
    """
    rows = as_messages(batch, feed.name)
    ranges = check_topics(batch.sparkSession, feed)
    if is_reset:
        rows = without_landed(rows, ranges_of(rows) if ranges is None else ranges, feed)
    messages = None if ranges is None else sum(one.end - one.first for one in ranges)
    yield Part(batch.sparkSession, 0, 0, lambda: rows, messages=messages)


def check_topics(spark: SparkSession, feed: Feed) -> list[OffsetRange] | None:
    """Raises KAFKA_TOPIC_RECREATED where the messages before the planned batch are not those that landed.

    Checks one partition of each topic. Passes where the broker or bronze no longer has these messages.
    Returns the offsets of the planned batch; None where no batch is planned.
    """
    before, after = newest_offsets(spark, feed.checkpoint)
    if feed.copied_checkpoint is not None:  # a plan lands nothing: the last run has landed all
        after = newest_offsets(spark, feed.copied_checkpoint)[1]
    committed, planned = json.loads(before or "{}"), json.loads(after or "{}")
    spans = [
        span
        for topic, ends in sorted(committed.items())
        if (span := _span(topic, ends, planned.get(topic, {})))
    ]
    for first in range(0, len(spans), _TOPICS_PER_QUERY):
        _check_spans(spark, feed, spans[first : first + _TOPICS_PER_QUERY])
    return None if after is None else new_ranges(committed, planned)


def _span(topic: str, ends: Mapping[str, int], planned: Mapping[str, int]) -> OffsetRange | None:
    """The offsets to compare, in the longest partition with new messages."""
    continuing = [(end, partition) for partition, end in ends.items() if 0 < end < planned.get(partition, 0)]
    if not continuing:
        return None
    end, partition = max(continuing)
    return OffsetRange(topic, int(partition), max(end - _MESSAGES_COMPARED, 0), end)


def _check_spans(spark: SparkSession, feed: Feed, spans: Sequence[OffsetRange]) -> None:
    landed = messages_of(spark, feed).where(in_ranges(spans))
    other = (
        offsets_with_other_messages(as_messages(read_ranges(spark, _kafka(feed), spans), feed.name), landed)
        .select("topic", "partition", "offset")
        .first()
    )
    if other is not None:
        raise MainstemError(
            "KAFKA_TOPIC_RECREATED",
            found=f"topic {other['topic']}: at partition {other['partition']}, offset {other['offset']}"
            " the broker has another message than the one that landed:"
            " the topic was deleted and created again",
            where=f"source {feed.name}",
            action=_AFTER_A_RECREATION.format(checkpoint=feed.checkpoint),
        )


def as_messages(records: DataFrame, source: str) -> DataFrame:
    """Records of the connector as rows of MESSAGES.

    Headers that begin with Mainstem's prefix are renamed; a time outside the years 1 to 9999 is null.
    """
    values = {
        "source": F.lit(source),
        "timestamp": representable_time(F.col("timestamp")),
        "headers": escape_reserved_headers(F.col("headers")),
        "file": F.lit(None).cast("string"),
        "line": F.lit(None).cast("bigint"),
        "ingested_at": F.current_timestamp(),
    }
    return records.select(
        *(values.get(f.name, F.col(f"`{f.name}`")).cast(f.dataType).alias(f.name) for f in MESSAGES.fields)
    )


def explain(error: Exception, feed: Feed) -> MainstemError | None:
    """Explains an error of the connector; None where it is unknown."""
    text = str(error)
    topics = ", ".join(_kafka(feed).topics or (_kafka(feed).topic_pattern or "",))
    where = f"source {feed.name}, kafka {topics}"
    loss = _DATA_LOSS.search(text)
    left_out = _left_out(text, _kafka(feed)) if loss is not None else ()
    if left_out:
        return MainstemError(
            "KAFKA_TOPIC_LEFT_OUT",
            found=f"`{'topics' if _kafka(feed).topics else 'topic_pattern'}` does not name"
            f" {', '.join(left_out)} any more, which the source has read",
            where=where,
            action=_AFTER_LEAVING_OUT.format(checkpoint=feed.checkpoint),
        )
    if loss is not None:
        return MainstemError(
            "KAFKA_OFFSETS_LOST",
            found=loss[1].strip(),
            where=where,
            action=_AFTER_A_LOSS.format(checkpoint=feed.checkpoint),
        )
    if _OVERFLOW.search(text):
        return MainstemError(
            _UNREADABLE,
            found="a record whose time Spark's connector cannot read: it is later than the year 294247",
            where=where,
            action=_AFTER_AN_UNREADABLE_TIME,
        )
    return explained(error, where)


def _left_out(text: str, kafka: Kafka) -> Sequence[str]:
    """The topics that Spark misses because they are not configured any more; none where others are gone."""
    gone = _DELETED.search(text)
    topics = sorted({name.rpartition("-")[0] for name in gone[1].split(", ")}) if gone is not None else []
    return () if any(map(partial(_is_named, kafka), topics)) else topics


def _is_named(kafka: Kafka, topic: str) -> bool:
    if kafka.topics is not None:
        return topic in kafka.topics
    try:
        return re.fullmatch(kafka.topic_pattern or "", topic) is not None
    except re.error:  # the pattern is one of Java, which has more syntax
        return True


def explained(error: Exception, where: str) -> MainstemError | None:
    """Explains why a broker gave no messages; None where the cause is unknown."""
    text = str(error)
    for pattern, condition, found, action in _FAILURES:
        if pattern in text:
            return MainstemError(condition, found=found, where=where, action=action)
    return None


def locate(spark: SparkSession, error: MainstemError, feed: Feed) -> str | None:
    """The first record of the planned batch whose time cannot be read; None for other errors.

    Reads the batch's records about twice, in some dozens of small jobs.
    """
    if error.condition != _UNREADABLE:
        return None
    committed, planned = (json.loads(text or "{}") for text in newest_offsets(spark, feed.checkpoint))

    def fails(ranges: Sequence[OffsetRange]) -> bool:
        try:
            read_ranges(spark, _kafka(feed), ranges).count()
        except Exception as failure:  # a failed job of a classic session is no PySparkException
            if _OVERFLOW.search(str(failure)):
                return True
            raise
        return False

    found = first_failing(new_ranges(committed, planned), fails)
    if found is None:
        return None
    return f"topic {found.topic}, partition {found.partition}, offset {found.first}"


def _kafka(feed: Feed) -> Kafka:
    assert feed.source.kafka is not None
    return feed.source.kafka


KIND = SourceKind(
    name="kafka",
    discover=discover,
    read_stream=read_stream,
    parts=parts,
    explain=explain,
    locate=locate,
)
