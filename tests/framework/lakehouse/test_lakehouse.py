from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from framework.lakehouse.commits import operations
from framework.lakehouse.lakehouse import Lakehouse, is_table, table_properties, table_version
from framework.spark.session import is_connect


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
    now, before = datetime.now(UTC), datetime(2020, 1, 1, tzinfo=UTC)
    assert operations(spark, lake.location("ops/runs"), 0, now) == {"WRITE"}
    assert operations(spark, lake.location("ops/runs"), 1, now) == set()
    assert operations(spark, lake.location("ops/runs"), 0, before) is None
    assert operations(spark, lake.location("ops/runs"), 2, now) is None


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


def test_a_table_is_created_where_a_killed_process_left_a_log_without_commits(
    spark: SparkSession, tmp_path: Path
) -> None:
    if is_connect(spark):
        pytest.skip("on Spark Connect a statement creates the table, and it takes such a folder for a table")
    lake = Lakehouse(str(tmp_path))
    log = tmp_path / "ops" / "runs" / "_delta_log"
    log.mkdir(parents=True)
    (log / ".00000000000000000000.json.1.tmp").write_text("{}")
    lake.create(spark, "ops/runs", "number bigint", {"delta.appendOnly": "true"})
    assert lake.read(spark, "ops/runs").collect() == []
    assert table_properties(spark, lake.location("ops/runs")) == {"delta.appendOnly": "true"}


@pytest.mark.parametrize("place", ["/nowhere/ops/runs", "file:///nowhere/ops/runs"])
def test_nothing_is_known_of_a_table_that_is_not_there(spark: SparkSession, place: str) -> None:
    assert operations(spark, place, 0, datetime.now(UTC)) is None


@pytest.mark.parametrize(
    ("lake", "noted", "found"),
    [
        (Lakehouse("/new/lake"), "/old/lake/gold/shop/item", "/new/lake/gold/shop/item"),
        (Lakehouse("/new/lake"), "/new/lake/gold/shop/item", "/new/lake/gold/shop/item"),
        (Lakehouse("/new"), "/gold/lake/gold/shop/item__history", "/new/gold/shop/item__history"),
        (Lakehouse("/new/gold"), "/old/gold/gold/crm/gold/item", "/new/gold/gold/crm/gold/item"),
        (Lakehouse("s3://b/lake"), "s3://a/lake/gold/shop/public/item", "s3://b/lake/gold/shop/public/item"),
        (Lakehouse("/new"), "/elsewhere/item", "/elsewhere/item"),
        (Lakehouse("/new"), "main.shop_gold.shop__item", "main.shop_gold.shop__item"),
        (Lakehouse("/new"), None, None),
        (Lakehouse("/v", "main", "x_"), "dev.y_gold.shop__item", "main.x_gold.shop__item"),
        (Lakehouse("/v", "main", "x_"), "dev.y_gold.`shop__a.``b`", "main.x_gold.`shop__a.``b`"),
        (Lakehouse("/v", "main", "x_"), "/old/lake/gold/shop/item", "/old/lake/gold/shop/item"),
    ],
)
def test_a_noted_location_is_that_of_this_lakehouse(
    lake: Lakehouse, noted: str | None, found: str | None
) -> None:
    assert lake.own_location(noted) == found


def test_a_database_that_is_called_as_a_layer_is_found_by_its_folder(tmp_path: Path) -> None:
    (tmp_path / "new/gold/gold/shop/item/_delta_log").mkdir(parents=True)
    (tmp_path / "new/gold/gold/shop/item/_delta_log/0.json").touch()
    lake = Lakehouse(str(tmp_path / "new"))
    assert lake.own_location("/old/gold/gold/shop/item") == f"{tmp_path}/new/gold/gold/shop/item"
