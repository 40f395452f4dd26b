from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from bronze.job import stopped_by
from bronze.source import Feed
from bronze.sources import KINDS
from bronze.sources.kafka import KIND, as_messages, explain, reader_options, without_landed
from framework.config_sources import Kafka, Source
from framework.contracts.tables import HEADERS, MESSAGES
from framework.errors import MainstemError
from framework.tables import Lakehouse
from tests.bronze.conftest import NoOptions

RECORD = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"


@pytest.fixture
def stream(tmp_path: Path) -> Feed:
    kafka = Kafka(bootstrap_servers="localhost:9092", topics=("crm.orders",))
    return Feed("shop", Lakehouse(str(tmp_path / "lake")), Source(name="crm", format="debezium", kafka=kafka, options=NoOptions()), "run-1")


def records(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    from pyspark.sql import functions as F

    return spark.createDataFrame(list(rows), RECORD).withColumn("headers", F.lit(None).cast(HEADERS))


def options(**keys: Any) -> dict[str, str]:
    return reader_options(Kafka(**{"bootstrap_servers": "one:9092,two:9092", "topics": ("a", "b"), **keys}))


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
        **{"kafka.security.protocol": "SASL_SSL", "kafka.sasl.jaas.config": "secret", "minPartitions": 8, "failOnDataLoss": False}
    )
    assert (found["kafka.security.protocol"], found["kafka.sasl.jaas.config"]) == ("SASL_SSL", "secret")
    assert (found["minPartitions"], found["failOnDataLoss"]) == ("8", "false")


def test_a_default_steps_back_in_any_spelling_and_headers_stay() -> None:
    found = options(startingoffsets="latest", includeHeaders=False)
    assert "startingOffsets" not in found
    assert (found["startingoffsets"], found["includeHeaders"]) == ("latest", "true")


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
        source="crm", topic="crm.orders", partition=2, offset=41, key=bytearray(b"k"), value=None, headers=None, file=None, line=None
    )


def test_a_new_checkpoint_leaves_out_what_has_landed(spark: SparkSession) -> None:
    at = datetime(2024, 2, 29, 10, tzinfo=UTC)
    rows = as_messages(records(spark, *((b"", b"", "t", partition, offset, at, 0) for partition in (0, 1) for offset in (5, 6))), "crm")
    landed = rows.where("partition = 0 and offset = 5")
    assert {(row["partition"], row["offset"]) for row in without_landed(rows, landed).collect()} == {(0, 6), (1, 5), (1, 6)}


LOSS = (
    "[FOREACH_BATCH_USER_FUNCTION_ERROR] org.apache.spark.sql.kafka010.KafkaIllegalStateException: Some data may have been"
    " lost because they are not available in Kafka any more;\n  either the data was aged out by Kafka or the topic may have been deleted.\n"
    "If you don't want your streaming query to fail on such cases, set the source option failOnDataLoss to false.\n"
    "Reason: Could not read records in offset [5, 9) for topic partition crm.orders-0\nwith consumer group spark-1.\n\tat org.apache.spark"
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
    ("text", "condition"),
    [
        ("org.apache.kafka.common.errors.UnknownTopicOrPartitionException: This server does not host", "KAFKA_TOPIC_UNKNOWN"),
        ("org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment", "KAFKA_UNREACHABLE"),
        ("org.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed", "KAFKA_REFUSED"),
    ],
)
def test_what_stops_a_broker_is_said_in_words(stream: Feed, text: str, condition: str) -> None:
    found = stopped_by(RuntimeError(text), stream)
    assert found.condition == condition
    assert "org.apache" not in str(found)


def test_other_errors_stay_what_they_are(stream: Feed) -> None:
    assert explain(RuntimeError("division by zero"), stream) is None
    assert stopped_by(RuntimeError("division by zero"), stream).condition == "SOURCE_FAILED"
    own = MainstemError("X", found="a", where="b", action="c")
    assert stopped_by(own, replace(stream, run_id="2")) is own
