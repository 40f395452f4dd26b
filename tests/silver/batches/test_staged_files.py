"""The files that tasks write themselves hold the rows that Spark would write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from bronze.layer import LAYER as BRONZE
from framework.contracts.table_names import CHANGES_TABLE
from framework.lakehouse import task_files
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.task_files import RowGroups
from framework.pipeline.layer import Run
from silver.batches import decoding, process, staged_files
from silver.layer import LAYER as SILVER
from tests.benchmarks.whole_goals import Pipeline

OWN = ("batch", "topic")


def changes_of(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch, *, has_one_disk: bool, is_copied: bool
) -> list[str]:
    with monkeypatch.context() as patch:
        patch.setattr(decoding, "FEW_MESSAGES", 0)
        patch.setattr(staged_files, "_GROUPS", RowGroups(7, 1_000_000, "table"))
        patch.setattr(decoding, "is_shared", lambda *_: has_one_disk)
        patch.setattr(process, "SMALL_ROWS", 10_000 if is_copied else 0)
        pipeline = Pipeline(spark, folder, tables=3)
        pipeline.land(100)
        with (pipeline.landing / "9999.jsonl").open("w") as bad:
            bad.write("no message\n")
        work = Run(spark, Lakehouse(pipeline.work.lake.root), pipeline.work.config, "one")
        for layer in (BRONZE, SILVER):
            layer.run(work)
    files = list(Path(work.lake.location(CHANGES_TABLE)).glob("part-*.parquet"))
    assert any("_staged_block" in parquet.read_schema(file).names for file in files) is not is_copied
    return sorted(map(str, work.lake.read(spark, CHANGES_TABLE).drop(*OWN).collect()))


@pytest.mark.slow
@pytest.mark.usefixtures("one_disk")
def test_all_ways_to_stage_lead_to_the_same_changes(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways = {"spark": (False, True), "tasks": (True, True), "taken": (True, False)}
    found = [
        changes_of(spark, tmp_path / name, monkeypatch, has_one_disk=one_disk, is_copied=is_copied)
        for name, (one_disk, is_copied) in ways.items()
    ]
    one, *others = (
        [text.replace(f"/{name}/", "/") for text in texts] for name, texts in zip(ways, found, strict=True)
    )
    assert len(one) == 101
    for other in others:
        assert one == other
    assert not list(tmp_path.rglob("staging/silver/*"))


def test_tasks_tell_how_many_messages_they_have_decoded(tmp_path: Path) -> None:
    batch = pa.RecordBatch.from_pylist([{"number": number} for number in range(5)])
    seen = []

    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        seen.append(task_files.counted(str(tmp_path)))
        return iter(())

    write = staged_files.into_parquet(decode, str(tmp_path), 0, of_messages=False)
    assert list(write([batch, batch, batch])) == []
    assert (seen, task_files.counted(str(tmp_path))) == ([0, 5, 10], 15)
    assert task_files.counted(str(tmp_path / "gone")) == 0
