"""Rows whose plan is made before a writer has them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from framework.lakehouse.lakehouse import read_table, sql_name
from framework.spark.planned_rows import planned, seen
from framework.spark.session import is_connect, worker_sessions


def newest(spark: SparkSession) -> DataFrame:
    """One row for each of three keys, of nine that are observed under the name `nine`."""
    rows = spark.range(9).select(F.concat(F.lit("key ö\n"), F.col("id") % 3).alias("key"), "id")
    if not is_connect(spark):
        rows = rows.observe("nine", F.count("*").alias("rows"), F.max("key").alias("high"), F.max("id") < 0)
    place = F.row_number().over(Window.partitionBy("key").orderBy(F.desc("id")))
    return rows.withColumn("place", place).where("place = 1").drop("place")


@pytest.mark.parametrize("is_adaptive", ["true", "false"])
def test_what_is_seen_on_the_way_into_a_table_is_known(
    spark: SparkSession, tmp_path: Path, is_adaptive: str
) -> None:
    (session,) = worker_sessions(spark, 1)
    before = session.conf.get("spark.sql.adaptive.enabled")
    session.conf.set("spark.sql.adaptive.enabled", is_adaptive)
    try:
        rows = newest(session)
        made = planned(rows)
        for _ in range(2):
            made.select("key", F.col("id").alias("n", metadata={"comment": "a number"})).writeTo(
                sql_name(str(tmp_path))
            ).using("delta").createOrReplace()
    finally:
        session.conf.set("spark.sql.adaptive.enabled", before or "true")
    stored = read_table(spark, str(tmp_path))
    assert sorted(row["n"] for row in stored.collect()) == [6, 7, 8]
    assert stored.schema["n"].metadata["comment"] == "a number"
    assert made.schema == rows.schema
    if is_connect(spark):
        assert seen(rows, "nine") is None


def test_each_row_is_seen_once(spark: SparkSession, tmp_path: Path) -> None:
    if is_connect(spark):
        pytest.skip("nothing is seen on Spark Connect")
    rows = newest(spark)
    first = seen(rows, "nine")
    assert first is not None
    assert (first["rows"], first["high"], first["(max(id) < 0)"]) == (0, None, None)
    planned(rows).writeTo(sql_name(str(tmp_path))).using("delta").createOrReplace()
    assert seen(rows, "nine") == {"rows": 9, "high": "key ö\n2", "(max(id) < 0)": False}
    assert seen(rows, "ten") is None


def test_rows_without_any_partition_make_an_empty_table(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.createDataFrame([], "id int, name string")
    planned(rows).writeTo(sql_name(str(tmp_path))).using("delta").createOrReplace()
    stored = read_table(spark, str(tmp_path))
    assert (stored.columns, stored.count()) == (["id", "name"], 0)


def test_an_error_on_the_way_is_raised(spark: SparkSession, tmp_path: Path) -> None:
    rows = newest(spark).select(F.raise_error(F.col("key")).cast("string").alias("x"))
    with pytest.raises(Exception, match="key ö"):
        planned(rows).writeTo(sql_name(str(tmp_path))).using("delta").createOrReplace()
