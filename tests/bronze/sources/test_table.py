from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

from bronze.source import Feed
from bronze.sources.table import as_messages, check_columns
from framework.config.sources import MessageColumn, Source
from framework.contracts.messages import BAD_COORDINATES
from framework.contracts.table_names import MESSAGES_TABLE
from framework.contracts.table_schemas import MESSAGES
from framework.errors import MainstemError
from framework.lakehouse.lakehouse import Lakehouse
from tests.bronze.conftest import NoOptions, run_source
from tests.logs import expire_log


@pytest.mark.parametrize("missing", ["value", "topic", "partition", "offset"])
def test_a_needed_column_that_is_missing_is_named_with_the_nearest(missing: str) -> None:
    there = [name for name in ("value", "topic", "partition", "offset") if name != missing] + [f"{missing}s"]
    with pytest.raises(MainstemError) as refused:
        check_columns(there, {}, "/t", "crm")
    assert refused.value.condition == "TABLE_COLUMN_MISSING"
    assert f"columns: {{{missing}: {missing}s}}" in str(refused.value)


def test_an_optional_column_that_is_named_must_be_there() -> None:
    there = ["value", "topic", "partition", "offset"]
    check_columns(there, {}, "/t", "crm")
    with pytest.raises(MainstemError):
        check_columns(there, {"key": "k"}, "/t", "crm")


def test_rows_become_messages_under_the_tables_own_names(spark: SparkSession) -> None:
    rows = spark.createDataFrame(
        [("v", "t", 1, 7, "k")], "payload string, topic string, partition int, seq bigint, key string"
    )
    found = as_messages(rows, {"value": "payload", "offset": "seq"}, "crm", "/raw")
    assert found.schema.names == MESSAGES.names
    (row,) = found.collect()
    assert (row["value"], row["key"], row["topic"], row["partition"], row["offset"]) == (
        b"v",
        b"k",
        "t",
        1,
        7,
    )
    assert (row["headers"], row["timestamp"], row["file"]) == (None, None, None)


def test_headers_under_our_names_are_renamed_and_text_that_is_not_utf_8_stays_readable(
    spark: SparkSession,
) -> None:
    header = (
        "array(named_struct('key', 'mainstem.forgotten', 'value', X'00'), null, named_struct('key', "
        "string(X'FF'), 'value', null))"
    )
    others = ("'v' AS value", "string(X'61FF') AS topic", "0 AS `partition`", "1L AS offset")
    rows = spark.range(1).selectExpr(
        *others, f"concat({header}, array(named_struct('key', null, 'value', null))) AS headers"
    )
    (found,) = as_messages(rows, {}, "crm", "/raw").select("topic", "headers").collect()
    names = [None if header is None else header["key"] for header in found["headers"]]
    assert (found["topic"], names) == (
        "not-utf8:61FF",
        ["mainstem.mainstem.forgotten", None, "not-utf8:FF", None],
    )


def test_a_row_that_lacks_a_coordinate_has_a_place_of_its_own_and_says_what_it_lacks(
    spark: SparkSession,
) -> None:
    rows = [
        ("a", "t", 0, None),
        ("b", "t", 0, None),
        ("b", "t", 0, None),
        ("c", None, None, 7),
        ("d", "t", 1, 7),
    ]
    frame = spark.createDataFrame(rows, "value string, topic string, `partition` int, offset bigint")
    *bare, last = as_messages(frame, {}, "crm", "/raw").orderBy("value").collect()
    assert (last["topic"], last["partition"], last["offset"], last["file"], last["headers"]) == (
        ("t", 1, 7, None, None)
    )
    assert [bytes(row["value"]) for row in bare] == [b"a", b"b", b"b", b"c"]
    assert {(row["topic"], row["partition"], row["file"]) for row in bare} == {("/raw", 0, "/raw")}
    offsets = [row["offset"] for row in bare]
    assert (len(set(offsets)), offsets[1], min(offsets) >= 0) == (3, offsets[2], True)
    assert offsets == [row["line"] for row in bare]
    assert [[(header["key"], bytes(header["value"])) for header in row["headers"]] for row in bare] == [
        [(BAD_COORDINATES, f"{lacks}".encode())]
        for lacks in (
            *["topic t, partition 0, offset null"] * 3,
            "topic null, partition null, offset 7",
        )
    ]


@pytest.mark.slow
@pytest.mark.spark
def test_a_growing_table_lands_once(spark: SparkSession, tmp_path: Path) -> None:
    table = str(tmp_path / "raw")
    source = Source(
        name="crm", format="debezium", table=table, columns={MessageColumn.OFFSET: "seq"}, options=NoOptions()
    )
    feed = Feed("shop", Lakehouse(str(tmp_path / "lake")), source, "run-1")
    for first in (0, 2):
        rows = [(f"v{n}", "t", 0, n) for n in (first, first + 1)]
        spark.createDataFrame(rows, "value string, topic string, partition int, seq bigint").write.format(
            "delta"
        ).mode("append").save(table)
        assert run_source(spark, feed).error is None
    landed = feed.lake.read(spark, MESSAGES_TABLE).orderBy("offset").collect()
    assert [(row["offset"], bytes(row["value"])) for row in landed] == [
        (n, f"v{n}".encode()) for n in range(4)
    ]


@pytest.mark.slow
@pytest.mark.spark
def test_a_table_may_be_moved_and_another_one_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed("shop", Lakehouse(str(tmp_path / "lake")), cast("Source", None), "run-1")
    for name, number in (("raw", 0), ("raw", 1), ("other", 2)):
        rows = [(f"v{number}", "t", 0, number)]
        frame = spark.createDataFrame(rows, "value string, topic string, partition int, offset bigint")
        frame.write.format("delta").mode("append").save(str(tmp_path / name))
        if number == 1:
            (tmp_path / "raw").rename(tmp_path / "moved")
            name = "moved"
        source = Source(name="crm", format="debezium", table=str(tmp_path / name), options=NoOptions())
        error = run_source(spark, replace(feed, source=source)).error
        assert (error and error.condition) == (None if number < 2 else "SOURCE_CHANGED")
    landed = feed.lake.read(spark, MESSAGES_TABLE).orderBy("offset").collect()
    assert [bytes(row["value"]) for row in landed] == [b"v0", b"v1"]


@pytest.mark.slow
@pytest.mark.spark
def test_a_table_whose_log_has_lost_commits_is_read_again_as_the_error_says(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = tmp_path / "raw"
    source = Source(name="crm", format="debezium", table=str(table), options=NoOptions())
    feed = Feed("shop", Lakehouse(str(tmp_path / "lake")), source, "run-1")

    def append(number: int) -> None:
        rows = spark.createDataFrame([(f"v{number}", "t", 0, number)], "value string, topic string, "
        "partition int, offset bigint")  # fmt: skip
        rows.write.format("delta").mode("append").save(str(table))

    append(0)
    assert run_source(spark, feed).error is None
    append(1)
    append(2)
    expire_log(spark, table)
    error = run_source(spark, feed).error
    assert error is not None
    assert (error.condition, str(table) in error.found) == ("LOG_EXPIRED", True)
    shutil.rmtree(feed.checkpoint)
    Path(f"{feed.checkpoint}.reset").touch()
    assert run_source(spark, feed).error is None
    landed = feed.lake.read(spark, MESSAGES_TABLE).orderBy("offset").collect()
    assert [(row["offset"], bytes(row["value"])) for row in landed] == [
        (n, f"v{n}".encode()) for n in range(3)
    ]


@pytest.fixture
def raw(tmp_path: Path) -> Feed:
    """A source that reads the table of another job."""
    source = Source(name="crm", format="debezium", table=str(tmp_path / "raw"), options=NoOptions())
    return Feed("shop", Lakehouse(str(tmp_path / "lake")), source, "run-1")


@pytest.fixture
def append(spark: SparkSession, raw: Feed) -> Callable[..., None]:
    """Appends messages with these offsets in one file."""

    def write(*offsets: int) -> None:
        rows = [(f"v{offset}", "t", 0, offset) for offset in offsets]
        frame = spark.createDataFrame(rows, "value string, topic string, partition int, offset bigint")
        frame.coalesce(1).write.format("delta").mode("append").save(raw.source.table)

    return write


def values(spark: SparkSession, feed: Feed) -> list[str]:
    landed = feed.lake.read(spark, MESSAGES_TABLE).select("value").collect()
    return sorted(bytes(row["value"]).decode() for row in landed)


def begin_again(feed: Feed) -> None:
    shutil.rmtree(feed.checkpoint)
    Path(f"{feed.checkpoint}.reset").touch()


@pytest.mark.slow
@pytest.mark.spark
def test_a_commit_that_only_removes_files_stops_nothing_and_loses_nothing(
    spark: SparkSession, raw: Feed, append: Callable[..., None]
) -> None:
    append(0)
    assert run_source(spark, raw).error is None
    append(1, 2)
    spark.sql(f"DELETE FROM delta.`{raw.source.table}` WHERE offset < 3")
    append(3)
    assert run_source(spark, raw).error is None
    assert values(spark, raw) == ["v0", "v1", "v2", "v3"]


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(
    "change", ["UPDATE {} SET value = 'new' WHERE offset = 2", "DELETE FROM {} WHERE offset = 2"]
)
def test_changed_rows_stop_the_source_until_it_begins_again(
    spark: SparkSession, raw: Feed, append: Callable[..., None], change: str
) -> None:
    append(0)
    assert run_source(spark, raw).error is None
    append(1, 2)
    spark.sql(change.format(f"delta.`{raw.source.table}`"))
    for _ in range(2):
        error = run_source(spark, raw).error
        assert error is not None
        assert (error.condition, error.found.partition(" of ")[0]) == ("TABLE_REWRITTEN", "version 2")
    begin_again(raw)
    assert run_source(spark, raw).error is None
    assert values(spark, raw) == sorted(["v0", "v1", *(["new"] if "UPDATE" in change else [])])


@pytest.mark.slow
@pytest.mark.spark
def test_removed_files_that_are_gone_before_they_were_read_stop_the_source(
    spark: SparkSession, raw: Feed, append: Callable[..., None]
) -> None:
    append(0)
    assert run_source(spark, raw).error is None
    append(1)
    (unread,) = (
        file for file in Path(raw.source.table or "").glob("*.parquet") if b"v1" in file.read_bytes()
    )
    spark.sql(f"DELETE FROM delta.`{raw.source.table}` WHERE offset = 1")
    append(2)
    unread.unlink()  # as VACUUM does
    error = run_source(spark, raw).error
    assert error is not None
    assert (error.condition, unread.name in error.found) == ("TABLE_REWRITTEN", True)
    begin_again(raw)
    assert run_source(spark, raw).error is None
    assert values(spark, raw) == ["v0", "v2"]
