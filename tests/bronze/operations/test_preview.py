"""What `plan` says of sources that a run would refuse."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession

from bronze.offset_ranges import OffsetRange
from bronze.operations.preview import preview
from bronze.source import Feed
from bronze.sources import kafka
from bronze.sources.kafka import check_topics
from framework.config.sources import Source
from framework.pipeline.layer import Run
from tests.bronze.conftest import NoOptions, run_source


def test_a_plan_refuses_a_lost_checkpoint_as_a_run_does(
    spark: SparkSession, feed: Feed, drop: Callable[..., Path], tmp_path: Path
) -> None:
    drop("a.txt", b"a\n")
    run_source(spark, feed)
    shutil.rmtree(feed.checkpoint)
    config = SimpleNamespace(pipeline=feed.pipeline, sources={feed.name: feed.source})
    plan = preview(Run(spark, feed.lake, config, "plan", scratch=str(tmp_path / "scratch")))
    (refused,) = plan.summary["sources"]
    assert (refused["messages"], refused["error"].partition("\n")[0]) == (0, "CHECKPOINT_LOST")


@pytest.fixture
def raw(feed: Feed, tmp_path: Path) -> Feed:
    """A source that reads the table of another job."""
    source = Source(name="raw", format="datahub_blob", table=str(tmp_path / "raw"), options=NoOptions())
    return replace(feed, source=source)


@pytest.fixture
def append(spark: SparkSession, raw: Feed) -> Callable[..., None]:
    def write(*offsets: int) -> None:
        rows = [("v", "t", 0, offset) for offset in offsets]
        frame = spark.createDataFrame(rows, "value string, topic string, partition int, offset bigint")
        frame.coalesce(1).write.format("delta").mode("append").save(raw.source.table)

    return write


@pytest.fixture
def planned(spark: SparkSession, raw: Feed, tmp_path: Path) -> Callable[[], int]:
    """How many messages a plan says would land."""

    def plan() -> int:
        config = SimpleNamespace(pipeline=raw.pipeline, sources={"raw": raw.source})
        scratch = tempfile.mkdtemp(dir=tmp_path)
        found = preview(Run(spark, raw.lake, config, "plan", scratch=scratch))
        assert found.summary["sources"][0]["error"] is None
        return int(found.summary["sources"][0]["messages"])

    return plan


@pytest.mark.slow
def test_a_plan_of_a_stream_that_begins_again_leaves_out_what_has_landed_as_a_run_does(
    spark: SparkSession, raw: Feed, append: Callable[..., None], planned: Callable[[], int]
) -> None:
    append(1, 2)
    Path(raw.checkpoint).parent.mkdir(parents=True)
    Path(f"{raw.checkpoint}.reset").touch()
    assert planned() == 2  # nothing has landed yet
    assert run_source(spark, raw).messages == 2
    shutil.rmtree(raw.checkpoint)
    Path(f"{raw.checkpoint}.reset").touch()
    append(3)
    assert planned() == run_source(spark, replace(raw, run_id="run-2")).messages == 1


@pytest.mark.slow
def test_a_plan_leaves_out_a_batch_that_has_landed_before_its_run_was_stopped(
    spark: SparkSession, raw: Feed, append: Callable[..., None], planned: Callable[[], int]
) -> None:
    for offset in (1, 2):
        append(offset)
        assert run_source(spark, raw).error is None
    (Path(raw.checkpoint) / "commits" / "1").unlink()
    append(3, 4, 5)
    assert planned() == run_source(spark, replace(raw, run_id="run-2")).messages == 3


def test_a_plan_compares_the_messages_before_those_that_it_would_read(
    spark: SparkSession, feed: Feed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream's own checkpoint ends where the last run has ended."""
    copy = tmp_path / "copy"
    for place, batches in ((Path(feed.checkpoint), 1), (copy, 2)):
        for log, text in (("offsets", 'v1\n{}\n{"t":{"0":%d}}\n'), ("commits", "v1\n{}")):
            (place / log).mkdir(parents=True)
            for number in range(batches):
                (place / log / str(number)).write_text(
                    text % (5 + number) if log == "offsets" else text, encoding="utf-8"
                )
    (copy / "commits" / "1").unlink()
    compared: list[tuple[str, int]] = []
    monkeypatch.setattr(
        kafka, "_check_spans", lambda *given: compared.extend((span.topic, span.end) for span in given[-1])
    )
    assert check_topics(spark, feed) == []
    assert check_topics(spark, replace(feed, copied_checkpoint=str(copy))) == [OffsetRange("t", 0, 5, 6)]
    assert compared == [("t", 5)]
