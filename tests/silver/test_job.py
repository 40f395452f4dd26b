from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.config.model import Config, load_config
from framework.contracts.table_names import CHANGES_TABLE, MESSAGES_TABLE
from framework.contracts.table_schemas import MESSAGES
from framework.errors import MainstemError
from framework.lakehouse.lakehouse import Lakehouse
from silver import job
from silver.batches.process import process_batch
from silver.batches.run_state import BATCH_ID_STEP, RunState
from silver.changes.source_plans import source_plans
from silver.formats import FORMATS
from silver.job import run_silver
from silver.layer import LAYER
from silver.stream.failures import _gone_file


def test_a_run_that_finds_nothing_landed_does_not_stand_in_the_way_of_the_next(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Bronze makes its table before the first message lands: a source that fails then leaves it empty."""
    (tmp_path / "mainstem.yml").write_text(
        "pipeline: p\nlakehouse: ./lakehouse\nsources:\n  feed: {format: canal, files: ./landing}\n"
    )
    config = load_config(tmp_path / "mainstem.yml", formats=LAYER.options())
    lake = Lakehouse(config.root)
    lake.create(spark, MESSAGES_TABLE, MESSAGES)
    for _ in range(2):
        assert run_silver(spark, lake, config).messages == 0
    state = RunState(lake, config, source_plans(config, FORMATS))
    assert process_batch(spark.createDataFrame([], MESSAGES), BATCH_ID_STEP, state) == 0
    assert lake.exists(spark, CHANGES_TABLE)


@pytest.mark.slow
def test_a_reset_holds_until_the_stream_has_begun(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, lake = _with_messages(spark, tmp_path, 2)
    assert run_silver(spark, lake, config).messages == 2
    checkpoint = Path(lake.checkpoints, "silver")
    shutil.rmtree(checkpoint)
    with pytest.raises(MainstemError, match="CHECKPOINT_LOST"):
        run_silver(spark, lake, config)
    reset = checkpoint.with_name("silver.reset")
    reset.touch()

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(job, "open_state", dies)
        with pytest.raises(KeyboardInterrupt):
            run_silver(spark, lake, config)
    for _ in range(2):
        run_silver(spark, lake, config)
        assert not reset.exists()
    assert lake.read(spark, CHANGES_TABLE).count() == 2


@pytest.mark.slow
def test_a_new_checkpoint_reads_bronze_whatever_the_last_run_noted(
    spark: SparkSession, tmp_path: Path
) -> None:
    config, lake = _with_messages(spark, tmp_path, 3)
    assert run_silver(spark, lake, config).messages == 3
    for place in ("silver", "ops", "_mainstem/silver"):
        shutil.rmtree(Path(lake.root, place))
    assert Path(lake.checkpoints, "silver.progress").exists()
    assert run_silver(spark, lake, config).messages == 3
    assert lake.read(spark, CHANGES_TABLE).count() == 3


def _with_messages(spark: SparkSession, folder: Path, count: int) -> tuple[Config, Lakehouse]:
    """A pipeline whose bronze has so many messages."""
    file = folder / "mainstem.yml"
    file.write_text(
        "pipeline: p\nlakehouse: ./lakehouse\nsources:\n  feed: {format: canal, files: ./landing}\n"
    )
    config = load_config(file, formats=LAYER.options())
    lake, now = Lakehouse(config.root), datetime(2026, 1, 1, tzinfo=UTC)
    text = '{"database":"d","table":"t","type":"INSERT","es":%d,"isDdl":false,"data":[{"id":"1"}]}'
    rows = [
        ("feed", "t", 0, n, None, None, (text % n).encode(), None, None, None, now)
        for n in range(1, count + 1)
    ]
    lake.append(spark.createDataFrame(rows, MESSAGES), MESSAGES_TABLE)
    return config, lake


@pytest.mark.parametrize(
    ("error", "named"),
    [
        (
            "[FAILED_READ_FILE] reading file file:/lake/part-0.snappy.parquet.",
            "file:/lake/part-0.snappy.parquet",
        ),
        (
            "while calling o4752.parquet.\n: reading file s3://lake/part-0.parquet.",
            "s3://lake/part-0.parquet",
        ),
        ("DELTA_LOG_FILE_NOT_FOUND: /lake/_delta_log/01.json is gone", "/lake/_delta_log/01.json"),
        ("while calling o12.parquet.", "which, the table's log tells"),
    ],
)
def test_an_error_names_the_file_that_is_gone(error: str, named: str) -> None:
    assert _gone_file(error) == named
