"""Statements that say again what the table has: `IF NOT EXISTS` changes nothing in a table that exists."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.contracts.ddl_actions import AddColumn, CreateTable
from tests.gold.silver_builder import GoldPipeline, ddl, insert, row


@pytest.mark.slow
def test_a_table_that_exists_keeps_its_key_whatever_if_not_exists_says(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Applications send the statement of their first release at each start; the source logs it again."""
    create = CreateTable((AddColumn("id", "bigint", "bigint"),), ("id",), if_not_exists=True)
    key = ("tenant", "id")
    pipeline = GoldPipeline(spark, tmp_path)
    pipeline.add_batch(
        insert("old", 1, row(1, tenant="a"), keys=key),
        insert("old", 2, row(1, tenant="b"), keys=key),
        ddl("old", 3, create),
        ddl("new", 3, create),
        insert("new", 4, row(1), keys=None),
    )
    pipeline.apply()
    assert sorted(found["tenant"] for found in pipeline.rows("old")) == ["a", "b"]
    assert (pipeline.state("old").keys, pipeline.state("new").keys) == (key, ("id",))


@pytest.mark.slow
def test_old_rows_keep_the_default_of_the_statement_that_added_the_column(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = GoldPipeline(spark, tmp_path)
    pipeline.add_batch(
        insert("t", 1, row(1)),
        ddl("t", 2, AddColumn("n", "int", "int", default="1")),
        insert("t", 3, row(2, n="9")),
        ddl("t", 4, AddColumn("n", "int", "int", default="5")),
        insert("t", 5, row(3, n="8")),
    )
    pipeline.apply()
    assert pipeline.rows("t") == [{"id": 1, "n": 1}, {"id": 2, "n": 9}, {"id": 3, "n": 8}]
