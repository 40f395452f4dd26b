from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from framework.lakehouse.commits import operations
from framework.lakehouse.lakehouse import Lakehouse, is_table, table_version


def test_a_url_is_a_table_once_a_delta_table_is_there(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lakehouse(tmp_path.as_uri())
    spark.range(1).write.parquet(lake.location("files"))
    (tmp_path / "empty").mkdir()
    assert [is_table(spark, lake.location(name)) for name in ("missing", "empty", "files", "ops/runs")] == [
        False
    ] * 4
    assert table_version(spark, lake.location("ops/runs")) is None

    lake.append(spark.range(1), "ops/runs")
    lake.append(spark.range(1), "ops/runs")
    assert is_table(spark, lake.location("ops/runs"))
    assert table_version(spark, lake.location("ops/runs")) == 1
    assert operations(spark, lake.location("ops/runs"), 0) == {"WRITE"}
    assert operations(spark, lake.location("ops/runs"), -1) == {"WRITE"}


def test_what_the_first_rows_of_a_catalogs_table_do_not_lack_later_ones_may(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lakehouse(str(tmp_path), "spark_catalog", "tables_")
    spark.sql(f"CREATE SCHEMA {lake.schema_of('ops')}")
    try:
        lake.append(spark.range(1).select(F.lit("a").alias("reason")), "ops/runs")
        lake.append(spark.range(1).select(F.lit(None).cast("string").alias("reason")), "ops/runs")
        assert sorted(str(row[0]) for row in lake.read(spark, "ops/runs").collect()) == ["None", "a"]
    finally:
        spark.sql(f"DROP SCHEMA {lake.schema_of('ops')} CASCADE")


def test_a_table_is_created_with_the_columns_that_its_schema_has(spark: SparkSession, tmp_path: Path) -> None:
    inner = T.StructType([T.StructField("offset", T.LongType()), T.StructField("at", T.TimestampNTZType())])
    schema = T.StructType(
        [
            T.StructField("a`b", T.StringType(), metadata={"comment": "the source's own: it's"}),
            T.StructField("select", T.DecimalType(38, 2), nullable=False),
            T.StructField("places", T.ArrayType(inner)),
            T.StructField("image", T.MapType(T.StringType(), T.StringType())),
        ]
    )
    lake = Lakehouse(str(tmp_path))
    lake.create(spark, "ops/runs", schema)
    assert lake.read(spark, "ops/runs").schema.json() == schema.json()


@pytest.mark.parametrize("place", ["/nowhere/ops/runs", "file:///nowhere/ops/runs"])
def test_nothing_is_known_of_a_table_that_is_not_there(spark: SparkSession, place: str) -> None:
    assert operations(spark, place, 0) is None
