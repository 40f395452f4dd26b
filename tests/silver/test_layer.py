"""What silver adds to `mainstem status`."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from framework.config.model import load_config
from framework.contracts.table_names import BATCHES_TABLE
from framework.lakehouse.lakehouse import Lakehouse
from framework.pipeline.layer import Run
from silver.batches.batch_counts import COUNTS_SCHEMA
from silver.layer import LAYER


def test_the_status_of_a_lakehouse_without_messages_and_changes(spark: SparkSession, tmp_path: Path) -> None:
    """Both tables may be lost: `status` still counts, and `status --verify` says what is gone."""
    (tmp_path / "mainstem.yml").write_text(
        "pipeline: p\nlakehouse: ./lakehouse\nsources:\n  feed: {format: canal, files: ./landing}\n"
    )
    config = load_config(tmp_path / "mainstem.yml", formats=LAYER.options())
    lake = Lakehouse(config.root)
    lake.create(spark, BATCHES_TABLE, COUNTS_SCHEMA)
    spark.sql(
        f"INSERT INTO delta.`{lake.location(BATCHES_TABLE)}` (batch, source, kind, rows, merged)"
        " VALUES (0, 'feed', 'row', 2, 1), (0, 'feed', 'duplicate', 1, 1)"
    )
    found = LAYER.status(Run(spark, lake, config, "status"))
    assert (found["changes"], found["duplicates"], found["without_fate"]) == (2, 1, 0)
    assert found["merged_halves"] == 2  # one of the pair that is a change, one of the same pair again
