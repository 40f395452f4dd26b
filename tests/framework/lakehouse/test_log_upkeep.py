from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.lakehouse import log_upkeep
from framework.lakehouse.lakehouse import Lakehouse, Transaction
from framework.lakehouse.log_rows import RowCommit, append_rows
from framework.lakehouse.log_upkeep import remove_old_checksums, remove_read_commits
from framework.lakehouse.merge import Merge


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The log of a table with a commit in each of 58 versions, the last checkpoint after 50 of them."""
    folder = tmp_path / "table" / "_delta_log"
    folder.mkdir(parents=True)
    for version in range(58):
        (folder / f"{version:020d}.json").touch()
        (folder / f"{version:020d}.crc").touch()
    for version in range(10, 51, 10):
        (folder / f"{version:020d}.checkpoint.parquet").touch()
    (folder / "_last_checkpoint").write_text(json.dumps({"version": 50}))
    return folder


def versions(log: Path, ending: str) -> list[int]:
    return sorted(int(file.name.partition(".")[0]) for file in log.glob(f"*.{ending}"))


def test_only_the_checksums_of_versions_long_before_the_last_checkpoint_go(log: Path) -> None:
    remove_old_checksums(str(log.parent))
    assert versions(log, "crc") == list(range(30, 58))
    assert versions(log, "json") == list(range(58))
    assert versions(log, "checkpoint.parquet") == [10, 20, 30, 40, 50]


def test_commits_that_all_readers_have_read_go_with_their_checkpoints(log: Path) -> None:
    remove_read_commits(str(log.parent))
    assert versions(log, "crc") == versions(log, "json") == list(range(30, 58))
    assert versions(log, "checkpoint.parquet") == [30, 40, 50]


def test_the_look_ends_where_an_earlier_one_has_been(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (log / f"{20:020d}.crc").unlink()
    remove_old_checksums(str(log.parent))
    assert versions(log, "crc") == [*range(20), *range(30, 58)]


def test_a_table_without_a_checkpoint_keeps_all(log: Path) -> None:
    (log / "_last_checkpoint").unlink()
    remove_read_commits(str(log.parent))
    remove_read_commits("catalog.schema.table")
    remove_read_commits(str(log.parent.parent / "no table"))
    assert versions(log, "json") == versions(log, "crc") == list(range(58))


@pytest.mark.slow
def test_delta_reads_and_writes_a_table_whose_old_files_of_the_log_are_gone(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_upkeep, "_KEPT", 2)
    lake, name = Lakehouse(str(tmp_path)), "ops/log"
    for number in range(24):
        append_rows(spark, (lake, name), [(number,)], "n int", RowCommit(Transaction("a", number)))
    log = tmp_path / name / "_delta_log"
    assert versions(log, "crc") == list(range(18, 24))
    remove_read_commits(lake.location(name))
    assert versions(log, "json") == list(range(18, 24))
    assert versions(log, "checkpoint.parquet") == [20]
    append_rows(spark, (lake, name), [(23,)], "n int", RowCommit(Transaction("a", 23)))  # is there
    for number in range(24, 30):
        Merge(
            lake.location(name), spark.range(number, number + 1).selectExpr("int(id) n"), "t.n = s.n"
        ).insert({"n": "s.n"}).execute()
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    append_rows(spark, (lake, name), [(30,)], "n int", RowCommit(Transaction("a", 30)))
    assert [row[0] for row in lake.read(spark, name).orderBy("n").collect()] == list(range(31))
    assert versions(log, "crc") == list(range(28, 31))
