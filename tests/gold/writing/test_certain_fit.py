"""What certainly fits a type is what Spark's casts keep without a fault."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from gold.schema.casting import fault
from gold.writing.certain_fit import certainly_fits

KINDS = (
    "string", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "date", "timestamp",
    "timestamp_ntz", "binary", "decimal(5,2)", "decimal(38,0)", "decimal(38,38)", "decimal(20,10)",
)  # fmt: skip
WORDS = ("true", "false", "True", "NaN", "Infinity", "1E5", "-0", "0.0", "", " 1", "1 ", "1\n")


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
    texts = {_text(source) for _ in range(6_000)}
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


def _text(source: random.Random) -> str:
    def digits(most: int) -> str:
        return "".join(source.choices("0123456789", k=source.randint(1, most)))

    def zeros() -> str:
        return "0" * source.randrange(3)

    parts = [
        lambda: source.choice(("", "-", "+", "0")) + digits(42),
        lambda: source.choice(("", "-")) + zeros() + digits(20) + "." + digits(40) + zeros(),
        lambda: source.choice(WORDS),
        lambda: _moment(source),
        lambda: "".join(source.choices("ABCxyz019+/=", k=source.choice((0, 2, 3, 4, 8)))),
        lambda: source.choice(("AQ==", "AR==", "AQI=", "/+8=")),
    ]  # fmt: skip
    return source.choice(parts)()


def _moment(source: random.Random) -> str:
    year, month, day = (
        source.choice((0, 1, 1582, 1600, 1900, 2023, 2024, 9999)),
        source.randint(0, 13),
        source.randint(0, 32),
    )
    text = f"{year:04}-{month:02}-{day:02}"
    if source.random() < 0.3:
        return text
    text += f"T{source.randint(0, 24):02}:{source.randint(0, 60):02}:{source.randint(0, 60):02}"
    if source.random() < 0.5:
        text += "." + "".join(source.choices("0123456789", k=source.randint(1, 8)))
    return text + source.choice(("", "Z"))
