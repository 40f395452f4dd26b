"""A sample of topics: the first messages of each partition, with their bytes and coordinates."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.sql import SparkSession

from bronze.sources import topic_sample
from bronze.sources.topic_sample import first_messages, sample_topics
from framework.config.sources import Kafka
from framework.contracts.file_messages import FiledMessage, Sample
from framework.contracts.messages import RawMessage
from framework.errors import MainstemError

AT = datetime(2024, 2, 29, 10, tzinfo=UTC)


def test_each_partition_gives_its_first_messages(spark: SparkSession) -> None:
    # two tasks with five records each, the first of which has nothing but its place
    ids = spark.range(0, 10, 1, 2)
    is_empty = "id = 0"
    records = ids.selectExpr(
        "'t' AS topic",
        "CAST(id DIV 5 AS int) AS partition",
        "id % 5 AS offset",
        f"IF({is_empty}, NULL, TIMESTAMP '2024-02-29 10:00:00') AS timestamp",
        f"IF({is_empty}, NULL, CAST('k' AS binary)) AS key",
        f"IF({is_empty}, NULL, CAST('vvvvvvvvvv' AS binary)) AS value",
        f"IF({is_empty}, NULL, array(named_struct('key', 'a', 'value', CAST('x' AS binary)),"
        " named_struct('key', 'b', 'value', CAST(NULL AS binary)))) AS headers",
    )
    found = [topic_sample._filed(row) for row in first_messages(records, 2, 1_000_000).collect()]
    assert [(each.message.partition, each.line) for each in found] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert found[0] == FiledMessage("t", 0, "kafka", RawMessage("", "t", 0, 0, None, None, None))
    microseconds = int(AT.timestamp()) * 1_000_000
    message = RawMessage("", "t", 0, 1, microseconds, b"k", b"v" * 10, (("a", b"x"), ("b", None)))
    assert found[1] == FiledMessage("t", 1, "kafka", message)
    # the first block of records passes whatever its size, and none follows it
    assert first_messages(records, 100, 1).count() == 10


def test_a_broker_that_does_not_answer_is_told_with_its_address(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(kafka: Kafka) -> dict[str, str]:
        raise RuntimeError("org.apache.kafka.common.errors.TimeoutException: Timed out")

    monkeypatch.setattr(topic_sample, "_batch_options", fail)
    with pytest.raises(MainstemError) as raised:
        list(sample_topics(spark, Kafka(bootstrap_servers="a:1", topics=("t",)), Sample()))
    assert (raised.value.condition, raised.value.where) == ("KAFKA_UNREACHABLE", "kafka a:1, t")


def test_settings_of_streams_are_no_settings_of_a_sample() -> None:
    kafka = Kafka.model_validate(
        {
            "bootstrap_servers": "a:1",
            "topic_pattern": "t.*",
            "maxOffsetsPerTrigger": 5,
            "startingOffsets": "latest",
            "kafka.security.protocol": "SSL",
            "kafka.request.timeout.ms": 700,
        }
    )
    assert topic_sample._batch_options(kafka) == {
        "kafka.request.timeout.ms": "700",
        "kafka.default.api.timeout.ms": "15000",
        "fetchOffset.numRetries": "1",
        "subscribePattern": "^(?:t.*)$",
        "kafka.bootstrap.servers": "a:1",
        "kafka.security.protocol": "SSL",
        "includeHeaders": "true",
        "startingOffsets": "earliest",
        "endingOffsets": "latest",
        "failOnDataLoss": "false",
    }
