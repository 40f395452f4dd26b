"""The files that tasks write themselves hold the rows that Spark would write."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bronze.layer import LAYER as BRONZE
from framework.contracts.table_names import CHANGES_TABLE
from framework.lakehouse.lakehouse import Lakehouse
from framework.pipeline.layer import Run
from silver.batches import decoding, staged_files
from silver.layer import LAYER as SILVER
from tests.benchmarks.whole_goals import Pipeline

OWN = ("batch", "topic")


def changes_of(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch, has_one_disk: bool
) -> list[str]:
    with monkeypatch.context() as patch:
        patch.setattr(decoding, "FEW_MESSAGES", 0)
        patch.setattr(staged_files, "_ROWS", 7)
        patch.setattr(decoding, "_has_one_disk", lambda *_: has_one_disk)
        pipeline = Pipeline(spark, folder, tables=3)
        pipeline.land(100)
        with (pipeline.landing / "9999.jsonl").open("w") as bad:
            bad.write("no message\n")
        work = Run(spark, Lakehouse(pipeline.work.lake.root), pipeline.work.config, "one")
        for layer in (BRONZE, SILVER):
            layer.run(work)
    return sorted(map(str, work.lake.read(spark, CHANGES_TABLE).drop(*OWN).collect()))


def test_both_ways_to_stage_lead_to_the_same_changes(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (one, other) = (changes_of(spark, tmp_path / str(has), monkeypatch, has) for has in (True, False))
    assert len(one) == 101
    assert [text.replace("/True/", "/") for text in one] == [text.replace("/False/", "/") for text in other]
    assert not list(tmp_path.rglob("staging/silver/*"))
