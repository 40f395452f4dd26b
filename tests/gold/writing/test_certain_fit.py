"""What certainly fits a type is what Spark's casts keep without a fault."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from gold.schema.casting import fault, typed_key
from gold.writing.certain_fit import certainly_fits, is_only_text
from tests.gold.texts import KINDS, drawn_text


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("12", "int"),
        ("-128", "tinyint"),
        ("9000000000000000004", "bigint"),
        ("-9223372036854775808", "bigint"),
        ("true", "boolean"),
        ("1.5", "double"),
        ("0.30000000000000004", "double"),
        ("0.10000000000000001", "double"),
        ("123456789012345.0000", "double"),
        ("3.1415927", "float"),
        ("0.10000000149011612", "float"),
        ("100000000000000000000", "float"),
        ("2024-02-29", "date"),
        ("2024-02-29T10:00:00.123456Z", "timestamp"),
        ("2024-02-29T10:00:00", "timestamp_ntz"),
        ("AQI=", "binary"),
        ("-123.45", "decimal(5,2)"),
    ],
)
def test_usual_values_need_no_job(text: str, kind: str) -> None:
    assert certainly_fits(text, kind)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("128", "tinyint"),
        ("9223372036854775808", "bigint"),
        ("12\n", "int"),
        ("٣", "int"),
        ("TRUE", "boolean"),
        ("1e400", "double"),
        ("99999999999999.99", "double"),
        ("9007199254740993", "double"),
        ("16777217", "float"),
        ("1234.56789", "float"),
        ("2023-02-29", "date"),
        ("0000-00-00", "date"),
        ("2024-02-29T10:00:00.1234567Z", "timestamp"),
        ("2024-02-29T10:00:00", "timestamp"),
        ("2024-02-29T10:00:00Z", "timestamp_ntz"),
        ("2024-02-29T10:00:60", "timestamp_ntz"),
        ("AQI", "binary"),
        ("1234.5", "decimal(5,2)"),
        ("1.234", "decimal(5,2)"),
    ],
)
def test_a_value_that_may_not_fit_is_left_to_spark(text: str, kind: str) -> None:
    assert not certainly_fits(text, kind)


def test_spark_finds_no_fault_in_what_certainly_fits(spark: SparkSession) -> None:
    source = random.Random(7)
    texts = {drawn_text(source) for _ in range(6_000)}
    frame = spark.createDataFrame([(text,) for text in texts], "text string")
    faults = frame.select("text", *(fault(F.col("text"), kind).alias(kind) for kind in KINDS)).collect()
    wrong = [
        (row["text"], kind)
        for row in faults
        for kind in KINDS
        if certainly_fits(row["text"], kind) and row[kind]
    ]
    assert wrong == []
    sure = {kind for kind in KINDS for text in texts if certainly_fits(text, kind)}
    assert sure == set(KINDS)


def test_no_two_only_texts_are_one_value(spark: SparkSession) -> None:
    source = random.Random(8)
    texts = {drawn_text(source) for _ in range(6_000)} | {"0", "-0", "1", "01", "1.0", "1.50", "1.5", "-1"}
    frame = spark.createDataFrame([(text,) for text in texts], "text string")
    for kind in KINDS:
        mine = [text for text in texts if is_only_text(text, kind)]
        rows = frame.where(F.col("text").isin(mine))
        values = rows.select(typed_key(F.col("text"), kind).alias("value")).where("value IS NOT NULL")
        assert values.distinct().count() == len(mine), kind
    sure = {kind for kind in KINDS for text in texts if is_only_text(text, kind)}
    assert sure == set(KINDS) - {"float", "double"}
