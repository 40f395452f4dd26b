from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta, timezone

import pytest
from pyspark.sql import SparkSession

from framework.contracts.ddl_actions import TableName
from framework.spark.local_frame import local_frame
from gold.planning.table_state import State

_SCHEMA = (
    "a bigint, b string, c boolean, d double, e timestamp, f array<string>, "
    "g array<struct<name:string,is_key:boolean>>, h int, `i j` binary"
)
_NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)


def test_rows_come_back_as_they_are(spark: SparkSession) -> None:
    rows = [
        (2**62, "é\u2028", True, 1.5, _NOON, ["x", None], [("id", True)], -1, b"\x00\xff"),
        (None,) * 9,
        (0, "", False, 0, _NOON.astimezone(timezone(timedelta(hours=8))), [], [], 0, b""),
        (1, State.PARKED, None, None, _NOON.replace(tzinfo=None), ["y"], None, 5, None),
    ]

    found = [tuple(row) for row in local_frame(spark, rows, _SCHEMA).orderBy("a").collect()]

    noon = _NOON.replace(tzinfo=None)
    assert found == [
        (None,) * 9,
        (0, "", False, 0.0, noon, [], [], 0, b""),
        (1, "parked", None, None, noon, ["y"], None, 5, None),
        (2**62, "é\u2028", True, 1.5, noon, ["x", None], [("id", True)], -1, b"\x00\xff"),
    ]
    assert local_frame(spark, rows, _SCHEMA).schema.simpleString() == (
        spark.createDataFrame([], _SCHEMA).schema.simpleString()
    )


def test_there_may_be_no_row_and_iterators_are_read_once(spark: SparkSession) -> None:
    assert local_frame(spark, [], _SCHEMA).collect() == []
    names = (TableName("shop", None, name) for name in "ab")
    found = local_frame(
        spark, ((n.database, n.schema, n.table) for n in names), "x string, y string, z string"
    )
    assert sorted(map(tuple, found.collect())) == [("shop", None, "a"), ("shop", None, "b")]


def test_a_value_of_another_type_is_refused(spark: SparkSession) -> None:
    with pytest.raises((TypeError, ValueError)):
        local_frame(spark, [("seven",)], "a bigint")


@pytest.mark.skipif("SPARK_REMOTE" in os.environ, reason="Spark Connect shows no plan of the JVM")
def test_rows_reach_the_jvm_without_a_python_worker(spark: SparkSession) -> None:
    def lineage(rows: object) -> str:
        frame = (
            spark.createDataFrame([(1,)], "a bigint")
            if rows is None
            else local_frame(spark, [(1,)], "a bigint")
        )
        return str(frame._jdf.queryExecution().toRdd().toDebugString())

    assert "PythonRDD" in lineage(None)
    assert "PythonRDD" not in lineage([])
