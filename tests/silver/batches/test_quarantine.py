"""Quarantined messages are stored once, with their bytes: as files of the tasks, or merged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bronze.layer import LAYER as BRONZE
from framework.contracts.table_names import QUARANTINE_TABLE
from framework.lakehouse.lakehouse import sql_name
from framework.lakehouse.merge import Merge
from silver.batches import process
from silver.layer import LAYER as SILVER
from tests.benchmarks.whole_goals import Pipeline
from tests.large_batches import take_for_large

COLUMNS = ("topic", "offset", "ordinal", "reason", "CAST(value AS string)", "batch", "is_resolved")


@pytest.fixture
def pipeline(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_disk: None
) -> Pipeline:
    """A pipeline whose tasks write files, also for few messages."""
    take_for_large(monkeypatch)
    return Pipeline(spark, tmp_path / "pipeline")


def land_bad(pipeline: Pipeline, name: str, count: int) -> None:
    lines = "".join(f"no message {number}\n" for number in range(count))
    (pipeline.landing / name).write_text(lines)
    pipeline.land(5)
    BRONZE.run(pipeline.work)


def stored(pipeline: Pipeline) -> list[tuple[Any, ...]]:
    rows = pipeline.work.lake.read(pipeline.spark, QUARANTINE_TABLE).selectExpr(*COLUMNS)
    return sorted(tuple(row) for row in rows.collect())


@pytest.mark.slow
def test_files_of_new_messages_become_files_of_the_table(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    merged: list[str] = []
    execute = Merge.execute

    def note(merge: Merge) -> Any:
        merged.append(str(merge))
        return execute(merge)

    monkeypatch.setattr(Merge, "execute", note)
    for name in ("a.txt", "b.txt"):
        land_bad(pipeline, name, 3)
        assert not SILVER.run(pipeline.work).errors
    assert merged == []
    found = stored(pipeline)
    assert [row[:5] for row in found] == [
        (name, number + 1, 0, "not_json", f"no message {number}")
        for name in ("a.txt", "b.txt")
        for number in range(3)
    ]
    assert {row[6] for row in found} == {False}
    times = pipeline.work.lake.read(pipeline.spark, QUARANTINE_TABLE).where(
        "first_seen_at = last_seen_at AND dismissed_at IS NULL AND dismissed_by IS NULL"
    )
    assert times.count() == 6


@pytest.mark.slow
def test_a_run_that_dies_behind_them_stores_no_message_twice(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    land_bad(pipeline, "a.txt", 3)

    def die(point: str) -> None:
        if point == "silver.after_quarantine":
            raise OSError("the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr(process, "crash_point", die)
        with pytest.raises(Exception, match="the disk is gone"):
            SILVER.run(pipeline.work)
    assert len(stored(pipeline)) == 3
    assert not SILVER.run(pipeline.work).errors
    assert len(stored(pipeline)) == 3


@pytest.mark.slow
def test_messages_that_are_there_already_are_merged(pipeline: Pipeline) -> None:
    land_bad(pipeline, "a.txt", 3)
    SILVER.run(pipeline.work)
    land_bad(pipeline, "b.txt", 4)
    table = sql_name(pipeline.work.lake.location(QUARANTINE_TABLE))
    # as if silver had decoded one of the new messages before, and had lost its changes
    pipeline.spark.sql(f"UPDATE {table} SET topic = 'b.txt', offset = 2, batch = -5 WHERE offset = 2")
    assert not SILVER.run(pipeline.work).errors
    assert [row[:2] for row in stored(pipeline)] == [
        ("a.txt", 1), ("a.txt", 3), ("b.txt", 1), ("b.txt", 2), ("b.txt", 3), ("b.txt", 4)
    ]  # fmt: skip
