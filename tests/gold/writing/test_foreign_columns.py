"""Columns that somebody has added to a replica, and that its source gets later."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from gold.planning.table_state import State
from tests.gold.silver_builder import GoldPipeline, insert, row


@pytest.mark.slow
def test_a_column_of_somebody_else_gives_way_to_that_of_the_source(
    spark: SparkSession, tmp_path: Path
) -> None:
    gold = GoldPipeline(spark, tmp_path)
    tables = ("before", "after", "spelled")
    gold.add_batch(*(insert(table, 1, row(1)) for table in tables))
    gold.apply()

    def add(table: str, name: str) -> None:
        path = f"delta.`{gold.lake.root}/gold/db/{table}`"
        spark.sql(f"ALTER TABLE {path} ADD COLUMNS ({name} string)")
        spark.sql(f"UPDATE {path} SET {name} = 'ours'")

    add("before", "note")
    gold.add_batch(*(insert(table, 2, row(2)) for table in tables))
    gold.apply()
    add("after", "note")
    add("spelled", "Note")
    gold.add_batch(*(insert(table, 3, row(3, note="x")) for table in tables))
    done = gold.apply()
    assert {name: (one.state.state, one.state.reason) for name, one in done.items()} == dict.fromkeys(
        tables, (State.ACTIVE, None)
    )
    for table in tables:
        assert gold.rows(table) == [{"id": 1}, {"id": 2}, {"id": 3, "note": "x"}]
    assert {one.notes for one in done.values()} == {
        ("rebuilt: note is stored already, in a column that no change has filled",)
    }
