"""A dropped database drops its tables; a table that is created again in it starts empty."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.contracts.ddl_actions import CreateTable, DropDatabase
from gold.planning.table_state import State
from tests.gold.silver_builder import GoldPipeline, ddl, insert, row


@pytest.mark.slow
def test_tables_of_a_dropped_database_are_dropped_and_start_empty(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = GoldPipeline(spark, tmp_path / "p")
    pipeline.add_batch(insert("gone", 1, row(1, a="x")), insert("again", 2, row(1, a="x")))
    pipeline.apply()
    pipeline.add_batch(ddl("", 3, DropDatabase()))
    applied = pipeline.apply()
    assert {name: one.state.state for name, one in applied.items()} == {
        "gone": State.DROPPED,
        "again": State.DROPPED,
    }
    assert pipeline.rows("gone") == [{"id": 1, "a": "x"}]
    pipeline.add_batch(ddl("again", 4, CreateTable()), insert("again", 5, row(2, a="new")))
    applied = pipeline.apply()
    assert [(name, one.state.state) for name, one in applied.items()] == [("again", State.ACTIVE)]
    assert pipeline.rows("again") == [{"id": 2, "a": "new"}]
    assert pipeline.apply() == {}
    assert pipeline.state("gone").state is State.DROPPED
