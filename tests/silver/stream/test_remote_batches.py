"""What a run on Spark Connect knows of its batches, which run in another process."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from framework.contracts.table_names import CHANGES_TABLE
from framework.lakehouse import commits
from framework.lakehouse.lakehouse import Lakehouse
from framework.pipeline.progress import Count, Progress
from framework.spark.session import is_connect
from silver.stream.remote_batches import Batches, batches_since, follow


def test_each_batch_is_told_with_its_messages_while_the_stream_runs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_connect(spark):
        pytest.skip("its batches are other processes, which cannot use what this test holds")
    lake, progress, seen = Lakehouse(str(tmp_path / "lakehouse")), Progress(), list[int]()
    progress.begin("silver")
    assert batches_since(spark, lake, -1) == Batches(0, 0)
    for count in (11, 11, 11):
        spark.range(count).coalesce(1).write.mode("append").parquet(str(tmp_path / "in"))

    def commit(frame: DataFrame, number: int) -> None:
        if number == 2:  # ends after the next look
            while (told := progress.snapshot()[0].counts.get("messages", Count()).done) < 22:
                time.sleep(0.1)  # the first look may not have been taken yet
            seen.append(told)
        note = {"userMetadata": json.dumps({"batch": 100 + number, "messages": frame.count()})}
        lake.append(frame, CHANGES_TABLE, None, note)

    query = (
        spark.readStream.schema("id long")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(tmp_path / "in"))
        .writeStream.trigger(availableNow=True)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .foreachBatch(commit)
        .start()
    )
    assert follow(query, partial(batches_since, spark, lake, 99), progress, every=1) == Batches(3, 33)
    counts = progress.snapshot()[0].counts
    assert (counts["messages"].done, counts["batches"].done) == (33, 3)
    assert seen == [22]
    assert batches_since(spark, lake, 101) == Batches(1, 11)
    monkeypatch.setattr(commits, "_FIRST", 2)
    assert batches_since(spark, Lakehouse((tmp_path / "lakehouse").as_uri()), 99) == Batches(3, 33)
