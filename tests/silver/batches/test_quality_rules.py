"""Rules on changes check every column that an image has, and no column that a partial image leaves out."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from framework.config.quality import OnChange, QualityRule
from silver.batches.quality_rules import breaks

ROWS = (
    "kind string, op string, database string, schema string, `table` string, partial boolean, "
    "after map<string,string>"
)
RULE = QualityRule(match="db.t", not_null=("a", "b"), on_change=OnChange.QUARANTINE)


@pytest.mark.parametrize(
    ("after", "partial", "is_broken"),
    [
        ({"id": "1", "a": None}, True, True),
        ({"id": "1", "b": None}, True, True),
        ({"id": "1", "a": "2"}, True, False),
        ({"id": "1"}, True, False),
        ({"id": "1", "a": "2"}, False, True),
        ({"id": "1", "a": "2"}, None, True),
        ({"id": "1", "a": "2", "b": "3"}, False, False),
        (None, True, False),
    ],
)
def test_a_null_that_is_there_breaks_a_rule_though_another_column_is_left_out(
    spark: SparkSession, after: dict[str, str | None] | None, partial: bool | None, is_broken: bool
) -> None:
    rows = spark.createDataFrame([("row", "update", "db", None, "t", partial, after)], ROWS)
    assert [row[0] for row in rows.select(breaks(RULE)).collect()] == [is_broken]
