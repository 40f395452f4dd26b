"""Rows that somebody has put into a replica: they have no position."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.gold.silver_builder import GoldPipeline, delete, insert, row, truncate, update


@pytest.mark.slow
def test_a_row_without_a_position_makes_way_for_the_changes_of_its_key(
    spark: SparkSession, tmp_path: Path
) -> None:
    gold = GoldPipeline(spark, tmp_path, "  - {match: db.soft*, deletes: soft}\n")
    tables = ("plain", "soft", "emptied", "soft_emptied")
    gold.add_batch(*(insert(table, 1, row(1, n="1")) for table in tables))
    gold.apply()
    for table in tables:
        path = f"{gold.lake.root}/gold/db/{table}"
        marked = ", _cdc_deleted" if table == "soft" else ""
        value = ", false" if table == "soft" else ""
        for number in (7, 8, 9):
            spark.sql(f"INSERT INTO delta.`{path}` (id, n{marked}) VALUES ({number}, 0{value})")
    for table in ("plain", "soft"):  # an insert does not meet a row of the source
        gold.add_batch(insert(table, 2, row(7, n="2")), delete(table, 3, row(8)))
    gold.add_batch(
        update("plain", 4, None, row(9, n="3")),
        truncate("emptied", 5),
        insert("emptied", 6, row(7, n="2")),
        truncate("soft_emptied", 5),
    )
    gold.apply()
    assert gold.rows("plain") == [{"id": 1, "n": 1}, {"id": 7, "n": 2}, {"id": 9, "n": 3}]
    assert gold.rows("soft", "_cdc_deleted") == [
        {"id": 1, "n": 1, "_cdc_deleted": False},
        {"id": 7, "n": 2, "_cdc_deleted": False},
        {"id": 8, "n": 0, "_cdc_deleted": True},
        {"id": 9, "n": 0, "_cdc_deleted": False},
    ]
    assert all(row["_cdc_deleted"] for row in gold.rows("soft_emptied", "_cdc_deleted"))
    assert {gold.state(table).collisions.inserts for table in tables} == {0}
    assert gold.rows("emptied") == [{"id": 7, "n": 2}]


@pytest.mark.slow
def test_a_partial_change_keeps_no_cell_of_somebody_else(spark: SparkSession, tmp_path: Path) -> None:
    gold = GoldPipeline(spark, tmp_path)
    gold.add_batch(insert("t", 1, row(1, n="1", m="1")))
    gold.apply()
    spark.sql(f"INSERT INTO delta.`{gold.lake.root}/gold/db/t` (id, n, m) VALUES (7, 9, 9)")
    gold.add_batch(
        update("t", 2, None, row(7, n="2"), partial=True), update("t", 3, None, row(1, n="2"), partial=True)
    )
    gold.apply()
    assert gold.rows("t") == [{"id": 1, "n": 2, "m": "1"}, {"id": 7, "n": 2}]
