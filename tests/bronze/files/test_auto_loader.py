"""Files of Auto Loader land as those of a listing do. Spark's own file stream stands in for Auto Loader."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bronze.files import auto_loader
from bronze.files.auto_loader import FileStream, arrivals_table, has_auto_loader
from bronze.source import Feed
from bronze.sources.files import peek
from tests.bronze.conftest import LONG_AGO, run_source

Drop = Callable[..., Path]
Landed = Callable[..., list[tuple[object, ...]]]


@pytest.fixture
def watched(feed: Feed, landing: Path, monkeypatch: pytest.MonkeyPatch) -> Feed:
    """A feed on Databricks, in a folder that only Spark reads."""
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "17.3")
    return replace(feed, source=feed.source.model_copy(update={"files": f"file://{landing}"}))


@pytest.mark.slow
def test_files_that_a_stream_tells_of_land_once(
    spark: SparkSession, watched: Feed, drop: Drop, landed: Landed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auto_loader, "AUTO_LOADER", FileStream("binaryFile", {"recursiveFileLookup": "true"}))
    drop("a.txt", b"1\n2\n")
    drop("sub/数量 [1].txt", b"3")
    drop("_hidden.txt", b"no")
    assert peek(spark, watched, "").files == ("a.txt", "sub/数量 [1].txt")
    assert not watched.lake.exists(spark, arrivals_table("orders"))

    first = run_source(spark, watched)
    (drop("b.txt", b"4").parent / "a.txt").unlink()
    gone = drop("c.txt", b"5")
    second, idle = (run_source(spark, replace(watched, run_id=f"run-{n}")) for n in (2, 3))

    assert [(r.files, r.messages, r.error) for r in (first, second, idle)] == [
        (2, 3, None),
        (2, 2, None),
        (0, 0, None),
    ]
    assert landed(watched, "file", "line", "value") == [
        ("a.txt", 1, b"1"), ("a.txt", 2, b"2"), ("b.txt", 1, b"4"), ("c.txt", 1, b"5"),
        ("sub/数量 [1].txt", 1, b"3"),
    ]  # fmt: skip

    gone.unlink()
    late = drop("d.txt", b"6")
    arrived = auto_loader.list_with_auto_loader(spark, watched)
    assert [found.file for found in arrived if found.path.endswith("d.txt")] == ["d.txt"]
    late.unlink()
    stopped = run_source(spark, replace(watched, run_id="run-4"))
    assert stopped.error is not None
    assert (stopped.error.condition, "d.txt" in stopped.error.where) == ("FILE_VANISHED", True)


@pytest.mark.slow
def test_lost_arrivals_are_named_and_all_files_found_again_by_the_advice(
    spark: SparkSession, watched: Feed, drop: Drop, landed: Landed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auto_loader, "AUTO_LOADER", FileStream("binaryFile", {"recursiveFileLookup": "true"}))
    drop("a.txt", b"1")
    assert run_source(spark, watched).messages == 1
    drop("b.txt", b"2")
    auto_loader.list_with_auto_loader(spark, watched)  # a run that died before it logged the file
    shutil.rmtree(watched.lake.location(arrivals_table("orders")))
    Path(f"{watched.checkpoint}.arrivals/commits/0").unlink()  # as Spark removes old ones
    drop("c.txt", b"3")

    lost = run_source(spark, replace(watched, run_id="run-2")).error
    assert lost is not None
    assert lost.condition == "ARRIVALS_LOST"
    assert f"delete {watched.checkpoint}.arrivals" in lost.action
    shutil.rmtree(f"{watched.checkpoint}.arrivals")
    assert run_source(spark, replace(watched, run_id="run-3")).messages == 2
    assert landed(watched, "file", "line", "value") == [
        ("a.txt", 1, b"1"),
        ("b.txt", 1, b"2"),
        ("c.txt", 1, b"3"),
    ]


@pytest.mark.slow
def test_a_landed_file_that_was_uploaded_again_stops_its_source_until_it_is_deleted(
    spark: SparkSession, watched: Feed, drop: Drop, landed: Landed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auto_loader, "AUTO_LOADER", FileStream("binaryFile", {"recursiveFileLookup": "true"}))
    path = drop("a.txt", b"1\n")
    assert run_source(spark, watched).messages == 1
    drop("a.txt", b"1\n", modified=LONG_AGO + 9)
    arrivals = watched.lake.read(spark, arrivals_table("orders"))
    again = arrivals.withColumn("modified_at", F.col("modified_at") + 9_000_000)
    watched.lake.append(again, arrivals_table("orders"))

    stopped = run_source(spark, watched).error
    assert stopped is not None
    assert stopped.condition == "FILE_CHANGED"
    path.unlink()
    drop("b.txt", b"2")
    assert run_source(spark, watched).error is None
    assert landed(watched, "file", "value") == [("a.txt", b"1"), ("b.txt", b"2")]


def test_a_stream_that_does_not_start_is_reported_with_the_way_out(
    spark: SparkSession, watched: Feed, drop: Drop
) -> None:
    drop("a.txt", b"1")
    result = run_source(spark, watched)
    assert result.error is not None
    assert (result.error.condition, "auto_loader: false" in result.error.action) == (
        "AUTO_LOADER_FAILED",
        True,
    )
    listed = replace(watched, source=watched.source.model_copy(update={"auto_loader": False}))
    assert run_source(spark, listed).messages == 1


def test_auto_loader_is_for_object_stores_on_databricks(
    feed: Feed, watched: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert has_auto_loader(watched)
    assert not has_auto_loader(feed)
    volume = replace(feed, source=feed.source.model_copy(update={"files": "/Volumes/main/shop/landing"}))
    assert not has_auto_loader(volume)
    monkeypatch.delenv("DATABRICKS_RUNTIME_VERSION")
    assert not has_auto_loader(watched)
