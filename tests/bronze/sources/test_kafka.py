from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from bronze.deduplication import drop_landed, offsets_with_other_messages
from bronze.job import source_error
from bronze.landing import land
from bronze.source import Feed
from bronze.sources import KINDS
from bronze.sources.kafka import KIND, as_messages, explain, reader_options
from framework.config.sources import Kafka, Source
from framework.contracts.erasure import FORGOTTEN
from framework.contracts.table_schemas import HEADERS, MESSAGES
from framework.errors import MainstemError
from framework.lakehouse.checkpoint_files import newest_offsets
from framework.lakehouse.lakehouse import Lakehouse
from tests.bronze.conftest import NoOptions

RECORD = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int"
)


@pytest.fixture
def stream(tmp_path: Path) -> Feed:
    kafka = Kafka(bootstrap_servers="localhost:9092", topics=("crm.orders",))
    return Feed(
        "shop",
        Lakehouse(str(tmp_path / "lake")),
        Source(name="crm", format="debezium", kafka=kafka, options=NoOptions()),
        "run-1",
    )


def records(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    return spark.createDataFrame(list(rows), RECORD).withColumn("headers", F.lit(None).cast(HEADERS))


def options(*, is_reset: bool = False, **keys: Any) -> dict[str, str]:
    kafka = Kafka(**{"bootstrap_servers": "one:9092,two:9092", "topics": ("a", "b"), **keys})
    return reader_options(kafka, is_reset=is_reset)


def test_topics_and_defaults_of_the_reader() -> None:
    assert options() == {
        "kafka.bootstrap.servers": "one:9092,two:9092",
        "subscribe": "a,b",
        "includeHeaders": "true",
        "startingOffsets": "earliest",
        "failOnDataLoss": "true",
        "maxOffsetsPerTrigger": "1000000",
    }


def test_a_pattern_instead_of_topics() -> None:
    found = options(topics=None, topic_pattern=r"crm\..*")
    assert found["subscribePattern"] == r"^(?:crm\..*)$"
    assert "subscribe" not in found


def test_other_keys_go_to_spark_as_they_are() -> None:
    found = options(
        **{
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.jaas.config": "secret",
            "minPartitions": 8,
            "failOnDataLoss": False,
        }
    )
    assert (found["kafka.security.protocol"], found["kafka.sasl.jaas.config"]) == ("SASL_SSL", "secret")
    assert (found["minPartitions"], found["failOnDataLoss"]) == ("8", "false")


def test_a_default_steps_back_in_any_spelling_and_headers_stay() -> None:
    found = options(startingoffsets="latest", includeHeaders=False)
    assert "startingOffsets" not in found
    assert (found["startingoffsets"], found["includeHeaders"]) == ("latest", "true")


@pytest.mark.parametrize(
    "start",
    [
        {"startingOffsets": "latest"},
        {"startingoffsets": '{"a": {"0": 3}}'},
        {"startingOffsetsByTimestamp": '{"a": {"0": 1700000000000}}'},
        {"startingTimestamp": 1_700_000_000_000},
    ],
)
def test_a_checkpoint_that_begins_again_begins_at_the_first_message(start: dict[str, Any]) -> None:
    assert options(is_reset=True, maxOffsetsPerTrigger=5, **start) == {
        **options(),
        "maxOffsetsPerTrigger": "5",
    }


def test_a_stream_knows_that_its_checkpoint_begins_again(
    spark: SparkSession, stream: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the source has no message yet: what came since its first run must not be skipped."""
    asked: list[bool] = []

    class NoBrokerError(Exception):
        pass

    def read_stream(spark: SparkSession, feed: Feed, is_reset: bool) -> DataFrame:
        asked.append(is_reset)
        raise NoBrokerError

    Path(stream.checkpoint).parent.mkdir(parents=True)
    for _ in range(2):
        with pytest.raises(NoBrokerError):
            land(spark, stream, replace(KIND, read_stream=read_stream), frozenset)
        Path(f"{stream.checkpoint}.reset").touch()
    assert asked == [False, True]


def test_kinds_are_named_as_the_configuration_names_them() -> None:
    assert list(KINDS) == ["files", "kafka", "table"]
    assert KINDS["kafka"] is KIND


def test_records_become_messages_with_their_coordinates(spark: SparkSession) -> None:
    at = datetime(2024, 2, 29, 10, tzinfo=UTC)
    rows = as_messages(records(spark, (b"k", None, "crm.orders", 2, 41, at, 0)), "crm")
    assert rows.schema.names == MESSAGES.names
    assert [field.dataType for field in rows.schema] == [field.dataType for field in MESSAGES]
    (found,) = rows.drop("ingested_at", "timestamp").collect()
    assert found == Row(
        source="crm",
        topic="crm.orders",
        partition=2,
        offset=41,
        key=bytearray(b"k"),
        value=None,
        headers=None,
        file=None,
        line=None,
    )


def test_a_time_that_python_does_not_have_lands_as_null(spark: SparkSession) -> None:
    """Records of the years 9999, 10000, 200000, of 2 January of the year 1 and of the second before."""
    seconds = (253_402_300_799, 253_402_300_800, 6_250_000_000_000, -62_135_510_400, -62_135_510_401)
    rows = records(spark, *((b"k", b"v", "t", 0, n, None, 0) for n in range(5)))
    at = F.element_at(F.lit(list(seconds)), F.col("offset").cast("int") + 1)
    found = as_messages(rows.withColumn("timestamp", F.timestamp_seconds(at)), "crm").orderBy("offset")
    assert [row["timestamp"] and row["timestamp"].year for row in found.collect()] == [
        9999,
        None,
        None,
        1,
        None,
    ]


def test_headers_under_our_names_are_renamed(spark: SparkSession) -> None:
    sent = "array(struct('mainstem.seed' AS key, X'7B7D' AS value), struct('x' AS key, null AS value))"
    rows = records(spark, (b"k", b"v", "t", 0, 1, None, 0)).withColumn("headers", F.expr(sent).cast(HEADERS))
    (found,) = as_messages(rows, "crm").select("headers").collect()
    assert [tuple(header) for header in found["headers"]] == [
        ("mainstem.mainstem.seed", bytearray(b"{}")),
        ("x", None),
    ]


def test_a_new_checkpoint_leaves_out_what_has_landed(spark: SparkSession) -> None:
    at = datetime(2024, 2, 29, 10, tzinfo=UTC)
    rows = as_messages(
        records(
            spark, *((b"", b"", "t", partition, offset, at, 0) for partition in (0, 1) for offset in (5, 6))
        ),
        "crm",
    )
    landed = rows.where("partition = 0 and offset = 5")
    assert {(row["partition"], row["offset"]) for row in drop_landed(rows, landed).collect()} == {
        (0, 6),
        (1, 5),
        (1, 6),
    }


def test_a_new_checkpoint_takes_a_topic_that_was_created_anew_whole(spark: SparkSession) -> None:
    """A new topic counts its offsets from 0, so offsets alone prove nothing.

    Of an erased message the time decides.
    """
    old, new = datetime(2024, 2, 29, 10, tzinfo=UTC), datetime(2024, 3, 1, 10, tzinfo=UTC)
    there = as_messages(
        records(spark, *((b"k", b"old", "t", 0, offset, old, 0) for offset in range(4))), "crm"
    )
    erased = F.array(F.struct(F.lit(FORGOTTEN).alias("key"), F.lit(None).cast("binary").alias("value")))
    is_erased = F.col("offset") == 3
    landed = there.withColumn("headers", F.when(is_erased, erased)).withColumn(
        "value", F.when(~is_erased, F.col("value"))
    )
    repeated = as_messages(
        records(spark, *((b"k", b"old", "t", 0, offset, old, 0) for offset in range(4))), "crm"
    )
    assert drop_landed(repeated, landed).isEmpty()
    anew = as_messages(
        records(spark, *((b"k", b"new", "t", 0, offset, new, 0) for offset in range(6))), "crm"
    )
    assert sorted(row["offset"] for row in drop_landed(anew, landed).collect()) == [*range(6)]


def test_messages_that_replace_others_at_their_offsets(spark: SparkSession) -> None:
    """Landed messages are recognised, also if their bytes were erased or an old topic had their offsets."""
    old, new = datetime(2024, 2, 29, 10, tzinfo=UTC), datetime(2024, 3, 1, 10, tzinfo=UTC)
    landed = as_messages(
        records(spark, *((b"k", b"old", "t", 0, offset, old, 0) for offset in range(3))), "crm"
    )
    erased = F.array(F.struct(F.lit(FORGOTTEN).alias("key"), F.lit(None).cast("binary").alias("value")))
    landed = landed.withColumn("headers", F.when(F.col("offset") == 2, erased)).withColumn(
        "value", F.when(F.col("offset") != 2, F.col("value"))
    )
    same = as_messages(
        records(spark, *((b"k", b"old", "t", 0, offset, old, 0) for offset in range(5))), "crm"
    )
    assert offsets_with_other_messages(same, landed).isEmpty()
    others = as_messages(
        records(spark, *((b"k", b"new", "t", 0, offset, new, 0) for offset in range(5))), "crm"
    )
    assert sorted(row["offset"] for row in offsets_with_other_messages(others, landed).collect()) == [0, 1, 2]
    assert offsets_with_other_messages(others, landed.unionByName(others)).isEmpty()


def test_the_offsets_before_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    assert newest_offsets(spark, str(tmp_path)) == (None, None)
    for number, text in ((8, '{"t":{"0":5}}'), (9, '{"t":{"0":7,"1":2}}'), (10, '{"t":{"0":9,"1":2}}')):
        (tmp_path / "offsets").mkdir(exist_ok=True)
        (tmp_path / "offsets" / str(number)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{text}\n')
    assert newest_offsets(spark, str(tmp_path)) == (None, '{"t":{"0":9,"1":2}}')
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / "9").write_text('v1\n{"nextBatchWatermarkMs":0}')
    found = newest_offsets(spark, str(tmp_path))
    assert found == ('{"t":{"0":7,"1":2}}', '{"t":{"0":9,"1":2}}')
    assert newest_offsets(spark, f"file:{tmp_path}") == found


LOSS = (
    "[FOREACH_BATCH_USER_FUNCTION_ERROR] org.apache.spark.sql.kafka010.KafkaIllegalStateException: Some "
    "data may have been"
    " lost because they are not available in Kafka any more;\n  either the data was aged out by Kafka or "
    "the topic may have been deleted.\n"
    "If you don't want your streaming query to fail on such cases, set the source option failOnDataLoss to "
    "false.\n"
    "Reason: Could not read records in offset [5, 9) for topic partition crm.orders-0\nwith consumer group "
    "spark-1.\n\tat org.apache.spark"
)


def test_lost_offsets_name_the_range_and_nothing_is_skipped(stream: Feed) -> None:
    found = explain(RuntimeError(LOSS), stream)
    assert found is not None
    assert found.condition == "KAFKA_OFFSETS_LOST"
    shown = str(found)
    assert "[5, 9) for topic partition crm.orders-0" in shown
    assert "source crm" in shown
    assert "org.apache" not in shown


@pytest.mark.parametrize(
    ("partitions", "condition"),
    [
        ("Set(old.t-1-0, old.t-1-1)", "KAFKA_TOPIC_LEFT_OUT"),
        ("HashSet(old-0)", "KAFKA_TOPIC_LEFT_OUT"),
        ("Set(old-0, crm.orders-0)", "KAFKA_OFFSETS_LOST"),
        ("Set(crm.orders-0)", "KAFKA_OFFSETS_LOST"),
    ],
)
def test_a_topic_that_is_not_configured_any_more_is_not_lost(
    stream: Feed, partitions: str, condition: str
) -> None:
    text = LOSS.replace("Could not read", f"Partitions {partitions} have been deleted.\nCould not read")
    found = explain(RuntimeError(text), stream)
    assert found is not None
    assert found.condition == condition


def test_a_pattern_in_the_syntax_of_java_explains_lost_offsets_too(stream: Feed) -> None:
    kafka = Kafka(bootstrap_servers="localhost:9092", topic_pattern=r"(?<db>crm|shop)\.\p{Alpha}+")
    source = stream.source.model_copy(update={"kafka": kafka})
    text = LOSS.replace("Could not", "Partitions Set(crm.orders-0) have been deleted.\nCould not")
    found = source_error(RuntimeError(text), replace(stream, source=source))
    assert found.condition == "KAFKA_OFFSETS_LOST"


def test_an_error_that_cannot_be_explained_stops_its_source_alone(
    stream: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = replace(KIND, explain=Mock(side_effect=ValueError))
    monkeypatch.setattr("bronze.job.KINDS", {"kafka": kind})
    found = source_error(RuntimeError("division by zero"), stream)
    assert (found.condition, "division by zero" in found.found) == ("SOURCE_FAILED", True)


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        (
            "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: This server does not host",
            "KAFKA_TOPIC_UNKNOWN",
        ),
        (
            "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment",
            "KAFKA_UNREACHABLE",
        ),
        (
            "org.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed",
            "KAFKA_REFUSED",
        ),
        (
            "Job aborted due to stage failure: Task 0 in stage 8.0 failed 1 times, most recent failure:"
            " java.lang.ArithmeticException: long overflow\n\tat "
            "org.apache.spark.sql.kafka010.KafkaRecordToRow",
            "KAFKA_TIMESTAMP_UNREADABLE",
        ),
    ],
)
def test_what_stops_a_broker_is_said_in_words(stream: Feed, text: str, condition: str) -> None:
    found = source_error(RuntimeError(text), stream)
    assert found.condition == condition
    assert "org.apache" not in str(found)


def test_other_errors_stay_what_they_are(stream: Feed) -> None:
    assert explain(RuntimeError("division by zero"), stream) is None
    assert source_error(RuntimeError("division by zero"), stream).condition == "SOURCE_FAILED"
    own = MainstemError("X", found="a", where="b", action="c")
    assert source_error(own, replace(stream, run_id="2")) is own
