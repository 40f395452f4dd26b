"""A gate checks every column that an image has, and leaves out those that a partial image leaves out."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from framework.contracts.expectations import Rule
from gold.planning.gates import GateFailed, refuse_failing_rows
from gold.schema.columns import TableColumn
from gold.schema.layout import Layout
from tests.gold.silver_builder import Image

LAYOUT = Layout(tuple(TableColumn(name, "int", None) for name in ("id", "a", "b")), ("id",), {})
RULE = Rule("not_null(a, b)", "not_null", ("a", "b"), is_gate=True)


@pytest.mark.parametrize(
    ("after", "is_whole", "is_refused"),
    [
        ({"id": "1", "a": None}, False, True),
        ({"id": "1", "b": None}, False, True),
        ({"id": "1", "a": "2"}, False, False),
        ({"id": "1"}, False, False),
        ({"id": "1", "a": "2"}, True, True),
        ({"id": "1", "a": "2", "b": "3"}, True, False),
    ],
)
def test_a_null_that_is_there_is_refused_though_another_column_is_left_out(
    spark: SparkSession, after: Image, is_whole: bool, is_refused: bool
) -> None:
    rows = spark.createDataFrame(
        [(after, True, is_whole)], "after map<string,string>, is_upsert boolean, is_whole boolean"
    )
    if not is_refused:
        refuse_failing_rows(rows, LAYOUT, [RULE], "t")
        return
    with pytest.raises(GateFailed) as failed:
        refuse_failing_rows(rows, LAYOUT, [RULE], "t")
    assert failed.value.keys == ("id=1",)
