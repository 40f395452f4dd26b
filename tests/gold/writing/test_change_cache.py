"""The cache of changes has what silver has, cell by cell, or is empty."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from framework.contracts.ddl_actions import AddColumn, CreateTable
from framework.contracts.table_names import CHANGES_TABLE
from framework.contracts.table_schemas import CHANGES
from framework.pipeline.layer import Run
from gold.planning.discovery import all_tasks
from gold.writing import change_cache
from gold.writing.change_cache import cache_changes, changes_of
from tests.gold.silver_builder import GoldPipeline, ddl, delete, insert, row, update

STRANGE = row(1, text="it's 数 \x00 \u2028 🙂", empty="", nothing=None, large="1" + "0" * 400)


@pytest.mark.usefixtures("with_cache")
def test_changes_are_cached_as_they_are_within_limits(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gold = GoldPipeline(spark, tmp_path)
    gold.add_batch(insert("t", 1, STRANGE), insert("other", 2, row(1), moment=-62_000_000_000), ddl("t", 3))
    gold.add_batch(update("t", 4, STRANGE, row(1, text="b"), partial=True), delete("t", 5, row(1)))
    gold.add_batch(ddl("silent", 6, CreateTable((AddColumn("id", "int", "int"),), ("id",))))
    tasks = [task for task in all_tasks(Run(spark, gold.lake, gold.config, "test")) if task.name.table == "t"]
    silent = next(
        task for task in all_tasks(Run(spark, gold.lake, gold.config, "test")) if task.name.table == "silent"
    )

    found = cache_changes(spark, gold.lake, tasks)
    assert found is not None
    kept = gold.lake.read(spark, CHANGES_TABLE).where("`table` = 't' and kind = 'row'")
    frame = changes_of(spark, gold.lake, tasks[0], found)
    texts = [F.to_json(F.struct(*CHANGES.names)), F.hex("after.text"), F.map_keys("after")]
    assert frame.select(*texts).exceptAll(kept.select(*texts)).isEmpty()
    assert (frame.count(), frame.schema) == (3, kept.schema)

    both = cache_changes(spark, gold.lake, all_tasks(Run(spark, gold.lake, gold.config, "test")))
    assert both is not None
    assert both.num_rows == 4
    assert changes_of(spark, gold.lake, tasks[0], both).count() == 3
    assert changes_of(spark, gold.lake, tasks[0], both.slice(0, 0)).isEmpty()
    assert changes_of(spark, gold.lake, silent, both).isEmpty()

    monkeypatch.setattr(change_cache, "MAX_CACHED_CHARACTERS", 400)
    assert cache_changes(spark, gold.lake, tasks) is None
    monkeypatch.setattr(change_cache, "MAX_CACHED_ROWS", 2)
    assert cache_changes(spark, gold.lake, tasks) is None
    assert changes_of(spark, gold.lake, tasks[0], None).count() == 6
