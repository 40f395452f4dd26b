"""Two sets of rows and what only one of them has."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from framework.spark.comparison import compare, count_differences

Rows = list[tuple[int | None, str]]
SCHEMA = "id int, `a b` string"


@pytest.mark.parametrize(
    ("expected", "found", "differences"),
    [
        ([(1, "x"), (2, "y")], [(2, "y"), (1, "x")], 0),
        ([(1, "x"), (2, "y")], [(1, "x")], 1),
        ([(1, "x")], [(1, "z")], 2),
        ([(1, "x")], [(1, "x"), (1, "x"), (1, "x")], 2),
        ([(None, "x")], [(None, "x")], 0),
        ([], [], 0),
    ],
)
def test_rows_that_only_one_side_has(
    spark: SparkSession, expected: Rows, found: Rows, differences: int
) -> None:
    one, other = (spark.createDataFrame(rows, SCHEMA).coalesce(1) for rows in (expected, found))
    assert count_differences(one, other.select("a b", "id")) == differences


def test_how_often_each_row_is_there(spark: SparkSession) -> None:
    expected = spark.createDataFrame([(1, "x"), (1, "x"), (2, "y")], SCHEMA).coalesce(1)
    found = spark.createDataFrame([(1, "x"), (None, "z")], SCHEMA).coalesce(1)
    assert {tuple(row) for row in compare(expected, found).collect()} == {
        (1, "x", 2, 1),
        (2, "y", 1, 0),
        (None, "z", 0, 1),
    }
