"""`maintain`: many small files become one, old files go where nothing reads them, and no value changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.cli import main
from framework.cli.commands.maintain import maintain_table
from framework.config.model import load_config
from framework.lakehouse.checkpoint_files import is_read_to_end
from framework.lakehouse.lakehouse import Lakehouse, sql_name
from framework.pipeline.layer import MaintainedTable, Run
from framework.quality.layer import LAYER as QUALITY
from silver.layer import LAYER as SILVER


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lakehouse:
    lake = Lakehouse(str(tmp_path / "lake"))
    rows = spark.range(16).selectExpr("id", "concat('row ', id) as text").repartitionByRange(16, "id")
    lake.append(rows, "bronze/messages")
    return lake


def test_the_logs_of_whole_runs_are_tended_too(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "mainstem.yml"
    file.write_text(
        "pipeline: shop\nlakehouse: ./lake\nsources:\n  feed: {format: canal, files: ./landing}\n"
    )
    config = load_config(file, formats=SILVER.options())
    lake = Lakehouse(config.root)
    logs = ["ops/runs", "ops/quality_results"]
    for name in logs:
        log = Path(lake.root) / name / "_delta_log"
        log.mkdir(parents=True)
        (log / f"{0:020d}.json").touch()
    assert QUALITY.tables_to_maintain is not None
    assert list(QUALITY.tables_to_maintain(Run(spark, lake, config, "maintain"))) == [
        MaintainedTable(name) for name in logs
    ]


def checkpoint(lake: Lakehouse, text: str) -> None:
    for name, content in (("offsets", text), ("commits", "v1\n{}")):
        folder = Path(lake.checkpoints) / "silver" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "0").write_text(content)


@pytest.mark.slow
def test_small_files_are_compacted_once_and_hold_the_same_rows(spark: SparkSession, lake: Lakehouse) -> None:
    first = maintain_table(spark, lake, MaintainedTable("bronze/messages"), 7)
    assert (first.files_before, first.is_compacted, first.note, first.has_failed) == (16, True, None, False)
    assert first.files_after < 16
    assert sorted(row["id"] for row in lake.read(spark, "bronze/messages").collect()) == list(range(16))
    second = maintain_table(spark, lake, MaintainedTable("bronze/messages"), 7)
    assert (second.files_before, second.is_compacted) == (first.files_after, False)


def test_a_table_that_cannot_be_maintained_is_reported_and_stops_no_other(
    spark: SparkSession, lake: Lakehouse
) -> None:
    next(Path(lake.location("bronze/messages")).glob("*.parquet")).unlink()
    found = maintain_table(spark, lake, MaintainedTable("bronze/messages"), 7)
    assert found.has_failed
    assert (found.files_after, found.is_compacted) == (found.files_before, False)


def test_bronze_is_read_to_its_end_when_no_commit_with_messages_is_ahead(
    spark: SparkSession, lake: Lakehouse
) -> None:
    assert not is_read_to_end(spark, lake, "bronze/messages", f"{lake.checkpoints}/silver")
    checkpoint(
        lake,
        'v1\n{}\n{"sourceVersion":1,"reservoirId":"x","reservoirVersion":1,"index":-1,"isStartingVersion":false}',
    )
    assert is_read_to_end(spark, lake, "bronze/messages", f"{lake.checkpoints}/silver")
    spark.sql(f"OPTIMIZE {sql_name(lake.location('bronze/messages'))}")
    assert is_read_to_end(spark, lake, "bronze/messages", f"{lake.checkpoints}/silver")
    lake.append(spark.range(1).selectExpr("id", "'new' as text"), "bronze/messages")
    assert not is_read_to_end(spark, lake, "bronze/messages", f"{lake.checkpoints}/silver")
    checkpoint(lake, "cut sho")
    assert not is_read_to_end(spark, lake, "bronze/messages", f"{lake.checkpoints}/silver")


def test_files_of_less_than_a_week_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["maintain", "--days", "6", "-c", str(tmp_path / "none.yml")]) == 2
    assert "RETENTION_TOO_SHORT" in capsys.readouterr().err
