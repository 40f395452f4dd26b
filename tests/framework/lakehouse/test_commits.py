"""What the commits of a table say of themselves."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.lakehouse import commits
from framework.lakehouse.commits import newest_commits, rows_written
from framework.lakehouse.lakehouse import Lakehouse


def test_the_newest_commits_tell_their_notes_and_rows(spark: SparkSession, tmp_path: Path) -> None:
    local, elsewhere = Lakehouse(str(tmp_path)), Lakehouse(tmp_path.as_uri())
    assert list(newest_commits(spark, local.location("ops/runs"))) == []
    for number in range(4):
        local.append(spark.range(number + 1), "ops/runs", None, {"userMetadata": f"note {number}"})
    for lake in (local, elsewhere):
        place = lake.location("ops/runs")
        told = [
            (each["userMetadata"], int(each["operationMetrics"]["numOutputRows"]))
            for each in newest_commits(spark, place, 3)
        ]
        assert told == [("note 3", 4), ("note 2", 3), ("note 1", 2)]
        assert rows_written(spark, place) == 4


def test_commits_go_on_behind_the_first_that_spark_reads(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lakehouse(tmp_path.as_uri())
    for number in range(3):
        lake.append(spark.range(1), "ops/runs", None, {"userMetadata": f"note {number}"})
    monkeypatch.setattr(commits, "_FIRST", 2)
    told = [commit["userMetadata"] for commit in newest_commits(spark, lake.location("ops/runs"))]
    assert told == ["note 2", "note 1", "note 0"]


def test_commits_end_where_the_log_does(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lakehouse(str(tmp_path))
    for _ in range(3):
        lake.append(spark.range(1), "ops/runs")
    (tmp_path / "ops" / "runs" / "_delta_log" / f"{1:020d}.json").unlink()
    assert len(list(newest_commits(spark, lake.location("ops/runs")))) == 1
