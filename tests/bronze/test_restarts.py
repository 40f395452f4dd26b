"""A stream that has begun again reads of `bronze/messages` what it needs, and later nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bronze.checkpoint import facts_of
from bronze.files.file_log import log_table
from bronze.offset_ranges import OffsetRange, ranges_of
from bronze.restarts import without_landed
from bronze.source import Feed
from bronze.sources import kafka
from bronze.sources.kafka import as_messages, parts
from framework.config.sources import Kafka, Source
from framework.contracts.table_names import MESSAGES_TABLE
from framework.contracts.table_schemas import HEADERS
from tests.bronze.conftest import Drop, Landed, NoOptions, run_source

Append = Callable[..., None]


@pytest.fixture
def table(feed: Feed, tmp_path: Path) -> Feed:
    source = Source(name="crm", format="debezium", table=str(tmp_path / "raw"), options=NoOptions())
    return replace(feed, source=source)


@pytest.fixture
def append(spark: SparkSession, table: Feed) -> Append:
    """Appends messages with these offsets to the table of the other job, in one file."""

    def write(*offsets: int, topic: str = "t") -> None:
        rows = [(f"v{offset}", topic, 0, offset) for offset in offsets]
        frame = spark.createDataFrame(rows, "value string, topic string, partition int, offset bigint")
        frame.coalesce(1).write.format("delta").mode("append").save(table.source.table)

    return write


def begin_again(feed: Feed) -> None:
    shutil.rmtree(feed.checkpoint)
    Path(f"{feed.checkpoint}.reset").touch()


def offsets(spark: SparkSession, feed: Feed) -> list[int]:
    rows = feed.lake.read(spark, MESSAGES_TABLE).where(F.col("source") == feed.name)
    return sorted(row["offset"] for row in rows.select("offset").collect())


def hide(feed: Feed, versions: Iterable[int]) -> None:
    """Removes the data files of these versions of bronze from the disk: who opens one fails."""
    place = Path(feed.lake.location(MESSAGES_TABLE))
    for version in versions:
        text = (place / "_delta_log" / f"{version:020d}.json").read_text()
        for action in map(json.loads, text.splitlines()):
            if "add" in action:
                (place / unquote(action["add"]["path"])).unlink()


def version(spark: SparkSession, feed: Feed) -> int:
    return feed.lake.version(spark, MESSAGES_TABLE) or 0


@pytest.mark.slow
@pytest.mark.spark
def test_batches_behind_all_that_had_landed_do_not_read_it(
    spark: SparkSession, table: Feed, append: Append
) -> None:
    append(0, 1)
    assert run_source(spark, table).error is None
    begin_again(table)
    append(2)
    assert run_source(spark, table).error is None
    assert offsets(spark, table) == [0, 1, 2]
    last = version(spark, table)
    hide(table, range(1, last + 1))
    for offset in (3, 4):
        append(offset)
        assert run_source(spark, table).error is None
    assert version(spark, table) == last + 2


@pytest.mark.slow
@pytest.mark.spark
def test_what_had_landed_is_left_out_whenever_it_comes_again(
    spark: SparkSession, table: Feed, append: Append
) -> None:
    append(0, 1)
    append(5, topic="u")
    assert run_source(spark, table).error is None
    begin_again(table)
    assert run_source(spark, table).error is None
    for offset in (0, 2, 5):
        append(offset)
        assert run_source(spark, table).error is None
    append(5, 6, topic="u")
    assert run_source(spark, table).error is None
    assert offsets(spark, table) == [0, 1, 2, 5, 5, 6]


@pytest.mark.slow
@pytest.mark.spark
def test_only_files_with_the_offsets_of_a_batch_are_read(
    spark: SparkSession, table: Feed, append: Append
) -> None:
    for pair in ((0, 1), (2, 3)):
        append(*pair)
        assert run_source(spark, table).error is None
    begin_again(table)
    append(4)
    assert run_source(spark, table).error is None
    rows = table.lake.read(spark, MESSAGES_TABLE).where("offset >= 2").localCheckpoint()
    hide(table, [1])
    ranges = ranges_of(rows)
    assert ranges == [OffsetRange("t", 0, 2, 5)]
    found = without_landed(rows.withColumn("value", F.lit(b"new")), ranges, table)
    assert (found.count(), without_landed(rows, ranges, table).count()) == (3, 0)


def test_the_ends_of_a_topic_are_noted_once(
    spark: SparkSession, feed: Feed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of what comes behind them nothing is looked up; the broker is not asked here."""
    reader = Kafka(bootstrap_servers="localhost:9092", topics=("t",))
    stream = replace(feed, source=Source(name="crm", format="debezium", kafka=reader, options=NoOptions()))
    monkeypatch.setattr(kafka, "_check_spans", lambda *given: None)
    checkpoint = Path(stream.checkpoint)

    def plan(batch: int, *ends: int) -> None:
        for log in ("commits", "offsets"):
            (checkpoint / log).mkdir(parents=True, exist_ok=True)
        planned = {"t": {str(partition): end for partition, end in enumerate(ends)}}
        (checkpoint / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{json.dumps(planned)}\n")
        if batch:
            (checkpoint / "commits" / str(batch - 1)).write_text("v1\n{}")

    def fresh(*coordinates: tuple[int, int]) -> list[tuple[int, int]]:
        batch = _records(spark, coordinates)
        (part,) = parts(batch, stream, True)
        return sorted((row["partition"], row["offset"]) for row in part.rows().collect())

    stream.lake.append(as_messages(_records(spark, [(0, 0), (0, 1), (1, 7)]), "crm"), MESSAGES_TABLE)
    Path(f"{stream.checkpoint}.generation").parent.mkdir(parents=True)
    Path(f"{stream.checkpoint}.generation").write_text('{"generation":"g","table":"","is_reset":true}')
    plan(0, 3, 7)
    assert fresh((0, 0), (0, 1), (0, 2)) == [(0, 2)]
    assert facts_of(spark, stream)["ends_before"] == {"t": {"0": 2, "1": 8}}
    plan(1, 3, 9)
    assert fresh((1, 7), (1, 8)) == [(1, 8)]
    hide(stream, range(1))
    plan(2, 5, 10)
    assert fresh((0, 3), (0, 4), (1, 9)) == [(0, 3), (0, 4), (1, 9)]


def _records(spark: SparkSession, coordinates: Iterable[tuple[int, int]]) -> DataFrame:
    rows = [(b"k", b"v", "t", partition, offset, None, 0) for partition, offset in coordinates]
    columns = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp"
    frame = spark.createDataFrame(rows, f"{columns}, timestampType int")
    return frame.withColumn("headers", F.lit(None).cast(HEADERS))


@pytest.mark.slow
@pytest.mark.spark
def test_files_that_came_after_a_restart_are_not_looked_up(
    spark: SparkSession, feed: Feed, drop: Drop, landed: Landed
) -> None:
    drop("b.txt", b"b\n")
    drop("c.txt", b"c\n")
    assert run_source(spark, feed).error is None
    begin_again(feed)
    drop("d.txt", b"d\n")
    assert run_source(spark, feed).error is None
    assert landed(feed) == [(f"{name}.txt", 1, name.encode()) for name in "bcd"]
    last = version(spark, feed)
    hide(feed, range(1, last + 1))
    drop("bb.txt", b"e\n")
    assert run_source(spark, feed).error is None
    assert version(spark, feed) == last + 1


@pytest.mark.slow
@pytest.mark.spark
def test_a_file_that_was_away_when_the_log_was_made_anew_is_left_out(
    spark: SparkSession, feed: Feed, drop: Drop, landed: Landed
) -> None:
    away = drop("a.txt", b"a\n")
    assert run_source(spark, feed).error is None
    away.unlink()
    drop("b.txt", b"b\n")
    shutil.rmtree(feed.lake.location(log_table(feed.name)))
    begin_again(feed)
    assert run_source(spark, feed).error is None
    drop("a.txt", b"a\n")
    drop("c.txt", b"c\n")
    assert run_source(spark, feed).error is None
    assert landed(feed) == [(f"{name}.txt", 1, name.encode()) for name in "abc"]
