"""Which rows are of the same full load."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from gold.changes.full_loads import is_of_load, load_of
from silver.values.sequence import sequence_of

BINLOG = (3, 484, 0, 0)
TIE = ("shop.orders", 0, 7, 0)
FILE = ("part-1.jsonl", 0, 8, 0)


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (sequence_of(1, None, TIE), sequence_of(1, None, FILE), True),
        (sequence_of(1, None, TIE), sequence_of(2, None, TIE), False),
        (sequence_of(1, (1709200800, 0, 0, 0), TIE), sequence_of(1, (1709200900, 0, 0, 0), TIE), True),
        (sequence_of(1, (*BINLOG, 0, 17), None), sequence_of(1, (*BINLOG, 0, 18), None), True),
        (sequence_of(1, (*BINLOG, 0, 17), None), sequence_of(1, (3, 500, 0, 0, 0, 18), None), False),
        (sequence_of(1, (*BINLOG, 0, 17), TIE), sequence_of(1, (*BINLOG, 0, 18), FILE), True),
        (sequence_of(1, (*BINLOG, 0, 17), TIE), sequence_of(1, (*BINLOG, 0, 18), None), True),
        (sequence_of(1, (*BINLOG, 0, 17), TIE), sequence_of(1, (3, 500, 0, 0, 0, 17), TIE), False),
        (sequence_of(1, (5, 0, 0, 0, 1, 0), TIE), sequence_of(1, (6, 0, 0, 0, 1, 0), TIE), True),
        (sequence_of(1, (*BINLOG, 1, 0), None), sequence_of(1, (*BINLOG, 1, 0), None), False),
        (sequence_of(1, (316,), None), sequence_of(1, (317,), None), False),
    ],
)
def test_two_rows_of_snapshots(spark: SparkSession, one: str, other: str, is_same: bool) -> None:
    rows = spark.createDataFrame([(one, other)], "one string, other string")
    (found,) = rows.select(load_of(F.col("one")) == load_of(F.col("other"))).collect()
    assert bool(found[0]) is is_same


def test_only_reads_are_of_a_load(spark: SparkSession) -> None:
    rows = spark.createDataFrame([("insert",), ("read",)], "op string")
    found = rows.select(is_of_load(F.col("op"), F.lit(sequence_of(1, None, TIE)))).collect()
    assert [row[0] for row in found] == [False, True]
