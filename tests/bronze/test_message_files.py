"""Files of messages that this process or tasks write hold what Spark would write, and land once."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from bronze import landing
from bronze.files import message_files, sections
from bronze.job import land_sources, run_bronze
from bronze.landing import staging
from bronze.source import Feed
from bronze.sources import files
from framework.config.model import load_config
from framework.contracts.table_names import MESSAGES_TABLE
from framework.lakehouse import file_commits
from framework.lakehouse.lakehouse import Lakehouse, sql_name
from framework.lakehouse.task_files import RowGroups
from framework.pipeline.progress import Progress
from silver.layer import LAYER as SILVER
from tests.bronze.conftest import run_source
from tests.jobs import jobs

Drop = Callable[..., Path]
Landed = Callable[..., list[tuple[object, ...]]]
WAYS = ("spark", "tasks", "process")
COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers", "file", "line")


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, one_disk: None, monkeypatch: pytest.MonkeyPatch) -> str:
    """Who writes the messages."""
    set_way(monkeypatch, request.param)
    return str(request.param)


def set_way(patch: pytest.MonkeyPatch, way: str) -> None:
    patch.setattr(landing, "is_shared", lambda *_: way != "spark")
    patch.setattr(files, "_FEW_BYTES", 0 if way == "tasks" else 8 * 1024**2)


@pytest.mark.slow
@pytest.mark.usefixtures("one_disk")
def test_all_ways_write_the_same_messages(
    spark: SparkSession, feed: Feed, drop: Drop, landed: Landed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sections, "SECTION_BYTES", 1_000)
    monkeypatch.setattr(message_files, "_GROUPS", RowGroups(7, 500))
    drop("large.txt", b"\n".join(b"message %04d" % number for number in range(1, 301)))
    drop("sub/x.txt.gz", gzip.compress(b"g1\n\n\xff\xfe\r\ng2"))
    drop("empty.txt", b"")
    drop("numbers", b"\n\n\n7")
    kcat = {"topic": "t", "partition": 3, "offset": 9, "tstype": "create", "ts": 1_700_000_000_001}
    lines = [{**kcat, "headers": ["a", "1", "b", None], "key": "k", "payload": None}, {**kcat, "offset": 10}]
    text = b"\n".join(json.dumps(line).encode() for line in lines)
    found = {}
    for name in WAYS:
        set_way(monkeypatch, name)
        mine = replace(feed, source=feed.source.model_copy(update={"name": name}))
        assert run_source(spark, mine).error is None
        source = feed.source.model_copy(update={"name": f"kcat_{name}", "layout": "kcat"})
        (Path(str(feed.source.files)) / "k.json").write_bytes(text)
        drop("k.json", text)
        assert run_source(spark, replace(feed, source=source)).error is None
        found[name] = landed(mine, *COLUMNS), landed(replace(feed, source=source), *COLUMNS)
        (Path(str(feed.source.files)) / "k.json").unlink()
    assert len(found["spark"][0]) == 304
    assert len(found["spark"][1]) == 306
    assert found["tasks"] == found["spark"]
    assert found["process"] == found["spark"]


def test_what_has_landed_is_counted_and_leaves_nothing_behind(
    spark: SparkSession, feed: Feed, drop: Drop, way: str
) -> None:
    drop("a.txt", b"1\n2\n3")
    drop("b.txt", b"4")
    drop("empty.txt", b"")
    result = run_source(spark, feed)
    assert (result.error, result.files, result.messages) == (None, 3, 4)
    assert not Path(staging(feed)).exists()
    assert run_source(spark, replace(feed, run_id="run-2")).messages == 0


def test_empty_files_land_without_a_message(spark: SparkSession, feed: Feed, drop: Drop, way: str) -> None:
    drop("empty.txt", b"\n\n")
    result = run_source(spark, feed)
    assert (result.error, result.files, result.messages) == (None, 1, 0)
    assert run_source(spark, replace(feed, run_id="run-2")).files == 0


@pytest.mark.slow
def test_a_broken_file_stops_the_source_in_all_ways(
    spark: SparkSession, feed: Feed, drop: Drop, landed: Landed, way: str
) -> None:
    drop("a.txt", b"1\n2\n3")
    path = drop("b.txt.gz", gzip.compress(b"line\n" * 1_000)[:-9])
    result = run_source(spark, feed)
    assert result.error is not None
    assert result.error.condition == "FILE_CORRUPT"
    assert "b.txt.gz" in str(result.error)
    assert landed(feed) == []
    drop("b.txt.gz", gzip.compress(b"4"), modified=path.stat().st_mtime + 9)
    assert run_source(spark, feed).error is None
    assert [row[2] for row in landed(feed)] == [b"1", b"2", b"3", b"4"]


def test_a_table_that_takes_no_files_gets_rows(
    spark: SparkSession, feed: Feed, drop: Drop, landed: Landed
) -> None:
    drop("a.txt", b"1")
    run_source(spark, feed)
    table = sql_name(feed.lake.location(MESSAGES_TABLE))
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    drop("b.txt", b"2\n3")
    result = run_source(spark, replace(feed, run_id="run-2"))
    assert (result.error, result.messages) == (None, 2)
    assert [row[2] for row in landed(feed)] == [b"1", b"2", b"3"]


@pytest.mark.usefixtures("one_disk")
def test_few_messages_land_without_a_spark_job(spark: SparkSession, feed: Feed, drop: Drop) -> None:
    drop("a.txt", b"1")
    run_source(spark, feed)
    drop("b.txt", b"2\n3")
    before = jobs(spark)
    run_source(spark, replace(feed, run_id="run-2"))
    assert jobs(spark) - before <= 2  # the stream over the log of files


@pytest.mark.usefixtures("one_disk")
def test_files_that_become_files_of_the_table_make_no_rows(
    spark: SparkSession, feed: Feed, drop: Drop, landed: Landed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_read_groups", lambda *_: pytest.fail("rows that nobody needs"))
    drop("a.txt", b"1")
    assert run_source(spark, feed).error is None
    assert [row[2] for row in landed(feed)] == [b"1"]


def test_a_source_without_files_shows_no_bytes(
    spark: SparkSession, feed: Feed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spark.createDataFrame(
        [("v", "t", 0, 1)], "value string, topic string, partition int, offset bigint"
    )
    rows.write.format("delta").save(str(tmp_path / "raw"))
    table = feed.source.model_copy(update={"files": None, "table": str(tmp_path / "raw")})
    progress, seen = Progress(), list[set[str]]()
    progress.begin("bronze")
    append = landing.append_part

    def look_and_append(*given: Any) -> None:
        seen.append(set(progress.snapshot()[-1].counts))
        append(*given)

    monkeypatch.setattr(landing, "append_part", look_and_append)
    assert land_sources(spark, [replace(feed, source=table)], progress).sources[0].error is None
    assert seen == [set()]


@pytest.mark.usefixtures("one_disk")
def test_bytes_are_shown_while_tasks_read_them(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "landing"
    folder.mkdir()
    (folder / "a.txt").write_bytes(b"line\n" * 1_000)
    (tmp_path / "mainstem.yml").write_text(
        "pipeline: shop\nlakehouse: ./lakehouse\nsources: {feed: {format: datahub_blob, files: ./landing}}\n"
    )
    config = load_config(tmp_path / "mainstem.yml", formats=SILVER.options())
    progress, seen = Progress(), list[int]()
    progress.begin("bronze")
    commit = file_commits.commit_files

    def look_and_commit(*given: Any) -> bool:
        seen.append(progress.snapshot()[-1].counts["bytes"].done)
        return bool(commit(*given))

    monkeypatch.setattr(landing, "commit_files", look_and_commit)
    assert not run_bronze(spark, Lakehouse(config.root), config, "run-1", progress).errors
    assert seen == [5_000]
    assert progress.snapshot()[-1].counts["bytes"].done == 5_000


def test_the_files_have_bounds_of_their_topic_and_time(
    spark: SparkSession, feed: Feed, drop: Drop, way: str
) -> None:
    name = "a/" * 40 + "long.txt"
    drop(name, b"1\n2")
    run_source(spark, feed)
    messages = feed.lake.read(spark, MESSAGES_TABLE)
    for condition, count in (
        (f"topic = '{name}'", 2),
        ("topic = 'other'", 0),
        ("ingested_at > timestamp'2020-01-01'", 2),
        ("ingested_at < timestamp'2020-01-01'", 0),
        ("offset = 2", 1),
    ):
        found = messages.where(condition)
        assert found.count() == count, condition
        if not count:
            assert found.rdd.getNumPartitions() == 0, condition
    [file] = Path(feed.lake.location(MESSAGES_TABLE)).glob("*.parquet")
    assert parquet.read_metadata(file).num_rows == 2
