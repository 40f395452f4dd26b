"""Rows of this process in a log: once, with statistics, by fewer jobs than Spark takes to write them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from framework.lakehouse import file_commits, new_tables
from framework.lakehouse.lakehouse import Lakehouse, Transaction, sql_name
from framework.lakehouse.log_rows import RowCommit, append_rows
from framework.spark.local_frame import local_frame
from framework.spark.session import is_connect
from tests.jobs import jobs

NAME = "ops/things"
SCHEMA = "number bigint, text string, at timestamp, names array<string>"
MOMENT = datetime(9999, 12, 31, 23, 59, 59, 999_999)


@pytest.fixture
def lake(tmp_path: Path) -> Lakehouse:
    return Lakehouse(str(tmp_path / "lakehouse"))


def rows_of(spark: SparkSession, lake: Lakehouse) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in lake.read(spark, NAME).orderBy("number").collect()]


def test_rows_are_appended_once(spark: SparkSession, lake: Lakehouse) -> None:
    append_rows(spark, (lake, NAME), [(1, "one", MOMENT, ["a", None])], SCHEMA)
    for _ in range(2):
        append_rows(spark, (lake, NAME), [(2, None, None, None)], SCHEMA, RowCommit(Transaction("log", 7)))
    assert rows_of(spark, lake) == [(1, "one", MOMENT, ["a", None]), (2, None, None, None)]
    assert not list(Path(lake.checkpoints).rglob("*.parquet"))


def test_spark_writes_nothing(spark: SparkSession, lake: Lakehouse) -> None:
    if is_connect(spark):
        pytest.skip("on Spark Connect Spark writes the files")
    append_rows(spark, (lake, NAME), [(1, "one", None, None)], SCHEMA)
    counts = []
    for frame in (None, local_frame(spark, [(2, "two", None, None)], SCHEMA)):
        before = jobs(spark)
        if frame is None:
            append_rows(spark, (lake, NAME), [(2, "two", None, None)], SCHEMA)
        else:
            lake.append(frame, NAME)
        counts.append(jobs(spark) - before)
    assert counts[0] < counts[1]


def test_a_new_table_is_created_with_its_rows_in_one_commit(spark: SparkSession, lake: Lakehouse) -> None:
    counts, properties = list[int](), {"delta.appendOnly": "true", "delta.dataSkippingStatsColumns": "number"}
    commit = RowCommit(Transaction("log", 1), properties)
    schema = T.StructType([T.StructField("number", T.LongType(), nullable=False)])
    for name in ("ops/new", "ops/by_spark"):
        before = jobs(spark)
        if name == "ops/new":
            append_rows(spark, (lake, name), [(1,)], schema, commit)
        else:
            lake.append(local_frame(spark, [(1,)], schema).coalesce(1), name, properties=properties)
        counts.append(jobs(spark) - before)
    append_rows(spark, (lake, "ops/new"), [(1,)], schema, commit)  # is there
    append_rows(spark, (lake, "ops/new"), [(None,)], "number bigint")
    lake.create(spark, "ops/other", "number bigint", properties)
    assert [row["number"] for row in lake.read(spark, "ops/new").collect()] in ([1, None], [None, 1])
    new, other = (
        spark.sql(f"DESCRIBE DETAIL {sql_name(lake.location(name))}")
        .select("description", "properties", "minReaderVersion", "minWriterVersion")
        .first()
        for name in ("ops/new", "ops/other")
    )
    assert new == other
    if not is_connect(spark):
        assert counts[0] < counts[1]
        assert lake.version(spark, "ops/new") == 1
        log = Path(lake.location("ops/new"), "_delta_log", f"{0:020d}.json").read_text()
        added = next(json.loads(line)["add"] for line in log.splitlines() if '"add"' in line)
        assert json.loads(added["stats"])["maxValues"] == {"number": 1}


@pytest.mark.parametrize("mode", ["name", "id"])
def test_the_first_rows_are_there_where_the_session_maps_columns_to_other_names(
    spark: SparkSession, lake: Lakehouse, mode: str
) -> None:
    default = "spark.databricks.delta.properties.defaults.columnMapping.mode"
    spark.conf.set(default, mode)
    try:
        for number in (1, 2):
            append_rows(spark, (lake, NAME), [(number, "one", None, None)], SCHEMA)
    finally:
        spark.conf.unset(default)
    assert rows_of(spark, lake) == [(1, "one", None, None), (2, "one", None, None)]


def test_rows_follow_those_of_another_process_that_creates_the_table_meanwhile(
    spark: SparkSession, lake: Lakehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_connect(spark):
        pytest.skip("on Spark Connect Spark creates the table")
    move = file_commits.moved_files

    def create_first(*given: Any) -> list[dict[str, Any]]:
        monkeypatch.undo()
        append_rows(spark, (lake, NAME), [(0, "zero", None, None)], SCHEMA)
        return move(*given)

    monkeypatch.setattr(new_tables, "moved_files", create_first)
    append_rows(spark, (lake, NAME), [(1, "one", None, None)], SCHEMA)
    assert lake.version(spark, NAME) == 1
    assert rows_of(spark, lake) == [(0, "zero", None, None), (1, "one", None, None)]


def test_files_have_bounds_of_bounded_length(spark: SparkSession, lake: Lakehouse) -> None:
    if is_connect(spark):
        pytest.skip("on Spark Connect Spark writes the files")
    append_rows(spark, (lake, NAME), [(1, "one", None, None)], SCHEMA)
    append_rows(spark, (lake, NAME), [(5, "x" * 500, None, None), (9, "y", None, None)], SCHEMA)
    log = Path(lake.location(NAME), "_delta_log", f"{1:020d}.json").read_text().splitlines()
    added = next(json.loads(line)["add"] for line in log if '"add"' in line)
    stats = json.loads(added["stats"])
    assert stats["numRecords"] == 2
    assert stats["minValues"] == {"number": 5, "text": "x" * 64}
    assert stats["maxValues"] == {"number": 9, "text": "y"}


def test_a_table_of_an_earlier_release_gets_the_columns_that_it_lacks(
    spark: SparkSession, lake: Lakehouse
) -> None:
    append_rows(spark, (lake, NAME), [(1, "one")], "number bigint, text string")
    append_rows(spark, (lake, NAME), [(2, "two", datetime(2026, 1, 1, tzinfo=UTC), ["b"])], SCHEMA)
    assert rows_of(spark, lake) == [(1, "one", None, None), (2, "two", datetime(2026, 1, 1), ["b"])]
