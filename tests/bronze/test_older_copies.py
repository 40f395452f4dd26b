"""A table that is put back from an older copy than its checkpoint knows is refused; the advice repairs it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bronze.files.file_log import log_table
from bronze.source import Feed
from framework.contracts.table_names import MESSAGES_TABLE
from framework.errors import MainstemError
from framework.spark.session import is_connect
from tests.bronze.conftest import Drop, Landed, run_source
from tests.older_copies import put_back


@pytest.fixture(autouse=True)
def own_session(spark: SparkSession) -> None:
    if is_connect(spark):
        pytest.skip("the session of another process keeps what it knows of a table")


def follow(error: MainstemError | None, feed: Feed) -> None:
    """Do what the error says where there is no newer copy."""
    assert error is not None
    assert error.condition == "OLDER_COPY"
    for part in (f"delete {feed.checkpoint}", f"create the empty file {feed.checkpoint}.reset"):
        assert part in error.action
    shutil.rmtree(feed.checkpoint)
    Path(f"{feed.checkpoint}.reset").touch()


@pytest.mark.parametrize("name", ["ops/files/orders", pytest.param(MESSAGES_TABLE, marks=pytest.mark.slow)])
def test_a_source_notices_an_older_copy_of_its_log_or_of_the_messages(
    spark: SparkSession, feed: Feed, drop: Drop, landed: Landed, tmp_path: Path, name: str
) -> None:
    assert log_table(feed.name) == "ops/files/orders"
    table = Path(feed.lake.location(name))
    drop("1.txt", b"1\n")
    run_source(spark, feed)
    shutil.copytree(table, tmp_path / "backup")
    drop("2.txt", b"2\n")
    run_source(spark, feed)

    put_back(spark, tmp_path / "backup", table)
    drop("3.txt", b"3\n")
    for _ in range(2):
        error = run_source(spark, feed).error
    follow(error, feed)
    assert run_source(spark, feed).error is None
    assert landed(feed) == [(f"{number}.txt", 1, b"%d" % number) for number in (1, 2, 3)]
    drop("4.txt", b"4\n")
    assert run_source(spark, feed).error is None


def test_an_older_copy_of_the_messages_is_noticed_without_a_new_file_and_lost_files_are_named(
    spark: SparkSession, feed: Feed, drop: Drop, tmp_path: Path
) -> None:
    table = Path(feed.lake.location(MESSAGES_TABLE))
    drop("1.txt", b"1\n")
    run_source(spark, feed)
    shutil.copytree(table, tmp_path / "backup")
    lost = drop("2.txt", b"2\n")
    run_source(spark, feed)
    lost.unlink()
    put_back(spark, tmp_path / "backup", table)
    follow(run_source(spark, feed).error, feed)
    error = run_source(spark, feed).error
    assert error is not None
    assert (error.condition, str(lost) in error.where) == ("FILE_VANISHED", True)
