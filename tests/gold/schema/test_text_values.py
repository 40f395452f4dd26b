"""A text that silver or Spark writes for a value is compared by that value, in this process as in Spark."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from gold.schema.casting import typed_key
from gold.schema.text_values import READINGS, as_written_by_either, comparable, read_all, reader, readings
from tests.gold.schema.test_casting import GOOD, PRECISION, REFUSED, _kept_numbers

NOON = datetime(2024, 2, 29, 12)
# kind → the texts of silver and of Spark, and the value
BOTH: list[tuple[str, str, str, Any]] = [
    ("string", "1.50", "1.50", "1.50"),
    ("boolean", "true", "true", True),
    ("tinyint", "01", "1", 1),
    ("smallint", "5.00", "5", 5),
    ("int", "-0", "0", 0),
    ("bigint", "-0012", "-12", -12),
    ("decimal(20,2)", "1.5", "1.50", Decimal("1.5")),
    ("decimal(20,10)", "0.0000000001", "1E-10", Decimal("1E-10")),
    ("decimal(20,10)", "0", "0E-10", Decimal(0)),
    ("float", "1", "1.0", 1.0),
    ("double", "10000000000", "1.0E10", 1e10),
    ("double", "-0.0", "0.0", 0.0),
    ("double", "NaN", "NaN", "NaN"),
    ("date", "2024-02-29", "2024-02-29", date(2024, 2, 29)),
    ("timestamp", "2024-02-29T12:00:00Z", "2024-02-29 12:00:00", NOON),
    ("timestamp", "2024-02-29T12:00:00.100000000Z", "2024-02-29 12:00:00.1", NOON.replace(microsecond=10**5)),
    ("timestamp_ntz", "2024-02-29T12:00:00.000", "2024-02-29 12:00:00", NOON),
    ("binary", "Y2Fmw6k=", "café", "café".encode()),
]
MORE = {
    "binary": ["AQI", "A QI=", "AQI= ", "AQ==", "AQ=", "AR==", "AQIDBA", "\tAQID\n", "é", "AQID=", "===="],
    "double": ["9" * 400, "0e999", "5.", "1e-320", "-0", "9007199254740993", "0.30000000000000004", "1E22"],
    "float": ["3.4028236e38", "16777217", "1e-45", "0.1", "5.e3"],
    "bigint": ["0" * 5_000 + "7", "9" * 5_000, "-", "-00", "00.00", "-9223372036854775808.0"],
    "decimal(10,2)": ["5.", ".5", "-.5", "0" * 50 + "1", "-0"],
    "timestamp": ["2024-02-29T10:00:00.1234560000Z", "0000-01-01T00:00:00Z"],
}


@pytest.mark.parametrize(("kind", "silver", "spark", "value"), BOTH)
def test_both_texts_of_a_value_are_compared_by_it(kind: str, silver: str, spark: str, value: Any) -> None:
    found = comparable(silver, kind)
    assert (type(found), found) == (type(value), value)
    assert comparable(as_written_by_either(spark, kind), kind) == found
    assert as_written_by_either(silver, kind) == silver


def test_a_text_of_bytes_is_first_that_of_silver() -> None:
    kinds = {"a": "binary", "b": "binary", "c": "timestamp", "d": "binary"}
    key = {"a": "blue", "b": "€", "c": "2024-02-29 12:00:00", "d": None}
    day = "2024-02-29T12:00:00Z"
    assert [read_all(read, key, kinds) for read in READINGS] == [
        {"a": "blue", "b": "4oKs", "c": day, "d": None},
        {"a": "Ymx1ZQ==", "b": "4oKs", "c": day, "d": None},
        key,
    ]


@pytest.mark.parametrize("text", ["2024-02-29 18:00:00.5", "2024-02-29T18:00:00.5"])
def test_a_wall_time_may_be_one_of_the_zone_of_the_source(text: str) -> None:
    """But first it is in UTC, as results of checks show instants."""
    kinds = {"t": "timestamp", "w": "timestamp_ntz"}
    found = [read_all(read, {"t": text, "w": text}, kinds) for read in readings("Asia/Shanghai")]
    assert found[-1] == {"t": "2024-02-29T10:00:00.5Z", "w": "2024-02-29T18:00:00.5"}
    assert found[:-1] == [read_all(read, {"t": text, "w": text}, kinds) for read in readings("UTC")]
    assert len(found) == len(READINGS) + 1
    assert readings("Asia/Shanghai")[-1]("0001-01-01 00:00:00", "timestamp") == "0001-01-01 00:00:00"


@pytest.mark.parametrize("kind", GOOD)
def test_a_text_that_does_not_fit_is_compared_as_it_is(kind: str) -> None:
    for text in REFUSED.get(kind, []):
        assert as_written_by_either(text, kind) == text or kind in ("binary", "timestamp_ntz"), text
        assert (reader(kind)(text), comparable(text, kind)) == (None, text), text
    assert comparable(None, kind) is None


def test_what_is_no_canonical_type_is_a_bug() -> None:
    with pytest.raises(ValueError, match="no canonical type: varchar"):
        reader("varchar")


def test_values_are_those_of_spark(spark: SparkSession) -> None:
    """One job reads all texts of all types, and gives each value its text."""
    numbers = _kept_numbers()
    cases = [
        (kind, text)
        for kind in GOOD
        for texts in (GOOD, REFUSED, PRECISION, MORE, numbers)
        for text in texts.get(kind, ())
    ]
    frame = spark.createDataFrame(cases, "kind string, text string").repartition(2)
    columns: dict[str, Any] = {}
    for kind in GOOD:
        value = F.when(F.col("kind") == kind, typed_key(F.col("text"), kind))
        shown = value.cast("timestamp_ntz").cast("string") if kind.startswith("timestamp") else value
        columns |= {kind: shown, f"as text {kind}": value.cast("string")}
    wrong = []
    for row in frame.select("kind", "text", *(c.alias(name) for name, c in columns.items())).collect():
        kind, text, theirs, shown = row["kind"], row["text"], row[row["kind"]], row[f"as text {row['kind']}"]
        mine = reader(kind)(text)
        if not _is_same(mine, theirs):
            wrong.append(f"{text!r} as {kind}: {mine!r}, in Spark {theirs!r}")
        elif kind != "binary" and mine is not None:
            again = comparable(as_written_by_either(shown, kind), kind)
            if again != comparable(text, kind):
                wrong.append(f"{text!r} as {kind}: {shown!r} is {again!r}")
    assert not wrong, "\n".join(wrong[:50])


def _is_same(mine: Any, theirs: Any) -> bool:
    if isinstance(mine, datetime):
        shown = mine.isoformat(" ", "microseconds").rstrip("0").rstrip(".")
        return bool(shown == theirs)
    if isinstance(mine, float) and isinstance(theirs, float) and math.isnan(mine):
        return math.isnan(theirs)
    return bool(mine == theirs)
