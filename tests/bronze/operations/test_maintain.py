"""The logs of files that `maintain` compacts: sources go on behind them, and begin again from them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bronze.files.file_log import log_table
from bronze.operations.maintain import tables_to_maintain
from bronze.source import Feed
from bronze.sources.files import discover
from framework.cli.commands.maintain import FEW_FILES, maintain_table, maintain_tables
from framework.config.model import load_config
from framework.lakehouse.lakehouse import Lakehouse, sql_name
from framework.pipeline.layer import Run
from framework.spark.no_session import no_session
from silver.layer import LAYER as SILVER
from tests.bronze.conftest import Drop, Landed, run_source


def remove_old_files(spark: SparkSession, lake: Lakehouse, name: str) -> None:
    """Do what `maintain` does once the files that a table does not have any more are old enough."""
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    try:
        spark.sql(f"VACUUM {sql_name(lake.location(name))} RETAIN 0 HOURS")
    finally:
        spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    assert len(list(Path(lake.location(name)).glob("*.parquet"))) == 1


def test_a_source_without_files_has_no_log(tmp_path: Path) -> None:
    file = tmp_path / "mainstem.yml"
    file.write_text(
        "pipeline: shop\nlakehouse: ./lake\nsources:\n  orders: {format: canal, table: somewhere.messages}\n"
    )
    config = load_config(file, formats=SILVER.options())
    assert list(tables_to_maintain(Run(no_session(), Lakehouse(config.root), config, "maintain"))) == []


@pytest.mark.slow
def test_a_source_goes_on_and_begins_again_after_its_log_was_compacted(
    spark: SparkSession, tmp_path: Path, drop: Drop, landed: Landed
) -> None:
    file = tmp_path / "mainstem.yml"
    file.write_text(
        "pipeline: shop\nlakehouse: ./lake\nsources:\n  orders: {format: canal, files: ./landing}\n"
    )
    config = load_config(file, formats=SILVER.options())
    feed = Feed("shop", Lakehouse(config.root), config.sources["orders"], "run-1")
    run = Run(spark, feed.lake, config, "maintain")
    assert maintain_tables(run, list(tables_to_maintain(run)), 7) == []
    drop("0.txt", b"a\n")
    discover(spark, feed, "")
    (unread,) = tables_to_maintain(run)
    assert unread.in_use == "old files stay: bronze has not read them all; run first"
    for number in range(1, FEW_FILES):
        drop(f"{number}.txt", b"a\n")
        assert run_source(spark, feed).error is None

    (table,) = tables_to_maintain(run)
    assert (table.name, table.in_use) == (log_table(feed.name), None)
    found = maintain_table(spark, feed.lake, table, 7)
    assert (found.files_before, found.files_after, found.has_failed) == (FEW_FILES, 1, False)
    remove_old_files(spark, feed.lake, table.name)
    drop("new.txt", b"a\n")
    assert run_source(spark, feed).error is None
    expected = [*((f"{number}.txt", 1, b"a") for number in range(FEW_FILES)), ("new.txt", 1, b"a")]
    assert landed(feed) == expected

    shutil.rmtree(feed.checkpoint)
    Path(f"{feed.checkpoint}.reset").touch()
    drop("newer.txt", b"a\n")
    assert run_source(spark, feed).error is None
    assert landed(feed) == [*expected, ("newer.txt", 1, b"a")]
