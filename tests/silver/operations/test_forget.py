"""The messages in quarantine that may belong to a forgotten row."""

from __future__ import annotations

from pyspark.sql import SparkSession

from silver.operations.forget import messages_with
from tests.plans import plan_text

MESSAGES = "offset bigint, value binary, key binary"


def test_a_message_is_found_by_each_text_that_it_contains(spark: SparkSession) -> None:
    values = [b"{id: 7", b"{id: Ada", None, b"\xff Zo\xc3\xab", b""]
    rows = spark.createDataFrame([(n, value, b"{id: 9}") for n, value in enumerate(values)], MESSAGES)
    assert sorted(row["offset"] for row in messages_with(rows, {"7", "Ada"}).collect()) == [0, 1]
    assert [row["offset"] for row in messages_with(rows, {"Zoë", '"quoted"'}).collect()] == [3]
    assert messages_with(rows, {"9"}).count() == len(values)  # in the keys
    many = [f"text {n}" for n in range(10_000)]
    assert messages_with(rows, many).count() == 0
    assert messages_with(rows, [*many, "Ada"]).count() == 1


def test_many_texts_make_the_plan_longer_only_by_their_own_length(spark: SparkSession) -> None:
    rows = spark.createDataFrame([], MESSAGES)
    texts = [f"text {n:04d}" for n in range(1_000)]
    one, all_ = len(plan_text(messages_with(rows, texts[:1]))), len(plan_text(messages_with(rows, texts)))
    assert all_ - one < 2 * sum(len(f'"{text}", ') for text in texts)
