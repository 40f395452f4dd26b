"""The tables of gold that `maintain` cleans, also those that are no longer kept up."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.config.model import Config
from framework.contracts.ddl_actions import RenameTable, TableName
from framework.pipeline.layer import Run
from gold.operations.maintain import tables_to_maintain
from tests.gold.silver_builder import GoldPipeline, ddl, insert, row


@pytest.mark.slow
def test_what_a_renamed_table_leaves_behind_is_cleaned(spark: SparkSession, tmp_path: Path) -> None:
    """Its old files may hold a row that is forgotten."""
    gold = GoldPipeline(spark, tmp_path)
    gold.add_batch(insert("item", 1, row(1)))
    gold.apply()
    gold.add_batch(ddl("item", 2, RenameTable(TableName("db", None, "goods"))))
    gold.apply()
    stored = ["gold/db/goods", "gold/db/item", "ops/tables", "ops/bad_values"]

    def tended(config: Config) -> list[str]:
        tables = tables_to_maintain(Run(spark, gold.lake, config, "maintain"))
        return [table.name for table in tables if gold.lake.exists(spark, table.name)]

    assert tended(gold.config) == stored
    others = {"other": gold.config.sources["feed"]}
    config = gold.config.model_copy(update={"sources": others})
    assert tended(config) == stored  # of a source that is not configured, too
