"""The tiles of the dashboard show nothing, and no error, before the first message has come."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.cli import main
from framework.lakehouse.lakehouse import Lakehouse
from tests.architecture.dashboard_checks import queries

PREFIX = "early_"
TEXT = (Path(__file__).parents[2] / "framework" / "operations.lvdash.json").read_text(encoding="utf-8")
MESSAGE = (
    '{"database":"shop","table":"item","type":"INSERT","isDdl":false,"pkNames":["id"],"es":1700000000000,'
    '"ts":1700000000001,"id":1,"sqlType":{"id":4,"name":12},"mysqlType":{"id":"int","name":"varchar(9)"},'
    '"data":[{"id":"1","name":"pen"}],"old":null}\n'
)


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Iterator[Lakehouse]:
    yield Lakehouse(str(tmp_path / "checkpoints"), "spark_catalog", PREFIX)
    spark.sql("USE default")
    for layer in ("bronze", "silver", "gold", "ops"):
        spark.sql(f"DROP SCHEMA IF EXISTS spark_catalog.{PREFIX}{layer} CASCADE")


def rows_of_tiles(spark: SparkSession) -> dict[str, int]:
    spark.sql(f"USE {PREFIX}ops")
    return {name: spark.sql(query).count() for name, query in queries(TEXT).items()}


@pytest.mark.slow
def test_each_tile_has_an_answer_before_the_first_message_and_after_it(
    spark: SparkSession, lake: Lakehouse, tmp_path: Path
) -> None:
    file = tmp_path / "mainstem.yml"
    file.write_text(
        f"pipeline: shop\nlakehouse: {{catalog: spark_catalog, schema_prefix: {PREFIX}}}\n"
        "checkpoints: ./checkpoints\nsources: {feed: {format: canal, files: ./landing}}\n"
    )
    (tmp_path / "landing").mkdir()
    assert main(["run", "-c", str(file)]) == 0
    before = rows_of_tiles(spark)
    assert before.pop("totals") == 1
    assert set(before.values()) == {0}

    (tmp_path / "landing" / "a.jsonl").write_text(MESSAGE)
    assert main(["run", "-c", str(file)]) == 0
    after = rows_of_tiles(spark)
    assert (after["runs"], after["states"], after["sources"], after["bad_values"]) == (1, 1, 1, 0)
    assert after["quality"] > 0
    assert lake.read(spark, "gold/shop/item").select("id", "name").collect() == [(1, "pen")]
