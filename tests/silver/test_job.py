from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from framework.config import load_config
from framework.contracts.tables import MESSAGES
from framework.tables import Lakehouse
from silver import derived
from silver.batch import MESSAGES_TABLE, normalize_batch
from silver.desk import STRIDE, Desk, source_plans
from silver.job import run_silver
from silver.layer import LAYER


def test_a_run_that_finds_nothing_landed_does_not_stand_in_the_way_of_the_next(spark: SparkSession, tmp_path: Path) -> None:
    """Bronze makes its table before the first message lands: a source that fails then leaves it empty."""
    (tmp_path / "mainstem.yml").write_text("pipeline: p\nlakehouse: ./lakehouse\nsources:\n  feed: {format: canal, files: ./landing}\n")
    config = load_config(tmp_path / "mainstem.yml", formats=LAYER.options())
    lake = Lakehouse(config.root)
    lake.create(spark, MESSAGES_TABLE, MESSAGES)
    for _ in range(2):
        assert run_silver(spark, lake, config).messages == 0
    desk = Desk(lake, config, source_plans(config))
    assert normalize_batch(spark.createDataFrame([], MESSAGES), STRIDE, desk) == 0
    assert lake.exists(spark, derived.CHANGES_TABLE)
