"""Messages of Kafka topics, by Spark's own connector: keys, values, headers, null values and coordinates as the broker has them.

Keys of `kafka:` other than ours go to Spark's reader as they are: its own (`startingOffsets`, `maxOffsetsPerTrigger`,
`minPartitions`) and, behind `kafka.`, the client's (`kafka.security.protocol`, `kafka.sasl.jaas.config`). Where nothing is
said a source begins at the earliest offset, a commit holds a million messages at most, and lost offsets stop it.

A pattern is the whole name of a topic; Spark alone would also take topics that hold it somewhere.

Offsets that the broker no longer has are never skipped: the source stops with KAFKA_OFFSETS_LOST, which names the range. A
topic that is added later, or that comes to match the pattern, is read from its first message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bronze.source import MESSAGES_TABLE, Discovery, Feed, Part, SourceKind
from framework.config_sources import Kafka
from framework.contracts.tables import MESSAGES
from framework.errors import MainstemError

DEFAULTS: Mapping[str, str] = {"startingOffsets": "earliest", "failOnDataLoss": "true", "maxOffsetsPerTrigger": "1000000"}

_DATA_LOSS = re.compile(r"Some data may have been lost.*?Reason:\s*([^\n]+)", re.DOTALL)
_AFTER_A_LOSS = (
    "nothing was skipped; let the broker have the messages again; or set `failOnDataLoss: false` for one run, which goes on behind the gap,"
    " and take what is missing by a new snapshot under a higher `epoch`"
)
_FAILURES = (
    ("UnknownTopicOrPartitionException", "KAFKA_TOPIC_UNKNOWN", "the broker does not know a topic", "create it, or correct `topics`"),
    ("TopicAuthorizationException", "KAFKA_REFUSED", "the broker refuses a topic", "give the user of `kafka:` the right to read it"),
    ("SaslAuthenticationException", "KAFKA_REFUSED", "the broker refuses the user", "correct the `kafka.sasl.…` keys of `kafka:`"),
    ("SslAuthenticationException", "KAFKA_REFUSED", "no trusted connection", "correct the `kafka.ssl.…` keys of `kafka:`"),
    ("No resolvable bootstrap", "KAFKA_UNREACHABLE", "no server has a known address", "correct `bootstrap_servers`"),
    ("TimeoutException", "KAFKA_UNREACHABLE", "the broker does not answer", "start it, or correct `bootstrap_servers`, and run again"),
)


def reader_options(kafka: Kafka) -> dict[str, str]:
    """The options of Spark's reader; what the configuration says stands above the defaults, in any spelling of case."""
    said = {key.lower() for key in kafka.options}
    options = {key: value for key, value in DEFAULTS.items() if key.lower() not in said}
    options |= {key: value for key, value in kafka.options.items() if key.lower() != "includeheaders"}
    topics = {"subscribe": ",".join(kafka.topics)} if kafka.topics is not None else {"subscribePattern": f"^(?:{kafka.topic_pattern})$"}
    return {**options, **topics, "kafka.bootstrap.servers": kafka.bootstrap_servers, "includeHeaders": "true"}


def discover(spark: SparkSession, feed: Feed, memory: str) -> Discovery:
    """The stream itself asks the broker what is new, and starts no batch where nothing is."""
    return Discovery(is_idle=False)


def read_stream(spark: SparkSession, feed: Feed) -> DataFrame:
    """The topics as a stream."""
    return spark.readStream.format("kafka").options(**reader_options(_kafka(feed))).load()


def parts(batch: DataFrame, feed: Feed, is_reset: bool) -> Iterator[Part]:
    """The batch as one commit; where the checkpoint has begun anew, without what has landed before."""
    rows = as_messages(batch, feed.name)
    if is_reset:
        rows = without_landed(rows, feed.lake.read(batch.sparkSession, MESSAGES_TABLE).where(F.col("source") == feed.name))
    yield Part(0, 0, rows)


def as_messages(records: DataFrame, source: str) -> DataFrame:
    """Records of the connector as rows of MESSAGES."""
    given = {
        "source": F.lit(source),
        "file": F.lit(None).cast("string"),
        "line": F.lit(None).cast("bigint"),
        "ingested_at": F.current_timestamp(),
    }
    return records.select(*(given.get(f.name, F.col(f"`{f.name}`")).cast(f.dataType).alias(f.name) for f in MESSAGES.fields))


def without_landed(rows: DataFrame, landed: DataFrame) -> DataFrame:
    """The rows beyond the highest offset of each partition that has landed."""
    highest = landed.groupBy("topic", "partition").agg(F.max("offset").alias("_landed"))
    joined = rows.join(F.broadcast(highest), ["topic", "partition"], "left")
    return joined.where(F.col("_landed").isNull() | (F.col("offset") > F.col("_landed"))).select(*(F.col(f"`{n}`") for n in MESSAGES.names))


def explain(error: Exception, feed: Feed) -> MainstemError | None:
    """What an error of the connector means, in words; None where it is another."""
    text = str(error)
    where = f"source {feed.name}, kafka {', '.join(_kafka(feed).topics or (_kafka(feed).topic_pattern or '',))}"
    loss = _DATA_LOSS.search(text)
    if loss is not None:
        return MainstemError("KAFKA_OFFSETS_LOST", found=loss[1].strip(), where=where, action=_AFTER_A_LOSS)
    for sign, condition, found, action in _FAILURES:
        if sign in text:
            return MainstemError(condition, found=found, where=where, action=action)
    return None


def _kafka(feed: Feed) -> Kafka:
    assert feed.source.kafka is not None
    return feed.source.kafka


KIND = SourceKind(name="kafka", discover=discover, read_stream=read_stream, parts=parts, explain=explain)
