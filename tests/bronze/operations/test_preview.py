"""What `plan` says of sources that a run would refuse."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

from pyspark.sql import SparkSession

from bronze.operations.preview import preview
from bronze.source import Feed
from framework.pipeline.layer import Run
from tests.bronze.conftest import run_source


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
