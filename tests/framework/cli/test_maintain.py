"""`maintain`: many small files become one, old files go where nothing reads them, and no value changes."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.conf import RuntimeConfig

from framework.cli import main
from framework.cli.commands import maintain as module
from framework.cli.commands.maintain import MaintenanceResult, maintain_table, maintain_tables
from framework.config.model import Config, load_config
from framework.lakehouse.checkpoint_files import is_read_to_end
from framework.lakehouse.lakehouse import Lakehouse, sql_name
from framework.lakehouse.tended_tables import TendedTables
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
    logs = ["ops/runs", "ops/quality_results", "ops/alerts"]
    assert QUALITY.tables_to_maintain is not None
    assert list(QUALITY.tables_to_maintain(Run(spark, lake, config, "maintain"))) == [
        MaintainedTable(name) for name in logs
    ]


DAY = 24 * 60 * 60


def load(lake: Lakehouse) -> Config:
    file = Path(lake.root).parent / "mainstem.yml"
    text = "pipeline: shop\nlakehouse: ./lake\nsources:\n  feed: {format: canal, files: ./landing}\n"
    file.write_text(text)
    return load_config(file, formats=SILVER.options())


def age(lake: Lakehouse, *names: str) -> None:
    """Make every file of these tables eight days old."""
    moment = time.time() - 8 * DAY
    for file in (path for name in names for path in Path(lake.location(name)).rglob("*")):
        if file.is_file():
            os.utime(file, (moment, moment))


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


@pytest.mark.slow
def test_a_table_without_a_commit_since_the_last_time_is_not_visited_again(
    spark: SparkSession, lake: Lakehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.append(spark.range(1).select("id"), "ops/runs")
    tables = [MaintainedTable("bronze/messages"), MaintainedTable("ops/runs")]
    visited: list[str] = []

    def visit(session: SparkSession, lake: Lakehouse, table: MaintainedTable, days: int) -> MaintenanceResult:
        visited.append(table.name)
        return maintain_table(session, lake, table, days)

    def maintained() -> list[str]:
        """What is visited now; every table has the same files as when it was visited."""
        visited.clear()
        found = maintain_tables(Run(spark, lake, load(lake), "maintain"), tables, 7)
        assert [one.table for one in found] == [table.name for table in tables]
        assert not any(one.has_failed for one in found)
        for one in found:
            assert one.files_after == len(lake.read(spark, one.table).inputFiles())
        return sorted(visited)

    monkeypatch.setattr(module, "maintain_table", visit)
    both = ["bronze/messages", "ops/runs"]
    tables[0] = MaintainedTable("bronze/messages", "they stay")
    age(lake, *both)
    assert maintained() == both
    tables[0] = MaintainedTable("bronze/messages")
    age(lake, "bronze/messages")
    assert maintained() == ["bronze/messages"]
    assert maintained() == []
    lake.append(spark.range(1).select("id"), "ops/runs")
    assert maintained() == ["ops/runs"]
    assert maintained() == ["ops/runs"]  # what this commit has replaced is not old enough yet
    age(lake, "ops/runs")
    assert maintained() == ["ops/runs"]
    assert maintained() == []
    left = Path(lake.location("bronze/messages")) / "part-without-a-commit.parquet"
    left.touch()  # by a write that was killed
    os.utime(left, (time.time() - 6 * DAY,) * 2)
    assert maintained() == ["bronze/messages"]
    assert left.exists()
    os.utime(left, (time.time() - 7.5 * DAY,) * 2)
    assert maintained() == ["bronze/messages"]
    assert not left.exists()
    assert maintained() == []


def orphan(lake: Lakehouse, days: float) -> Path:
    """A file of bronze that no commit has, so old."""
    file = Path(lake.location("bronze/messages")) / f"part-of-{days}-days.parquet"
    file.touch()
    os.utime(file, (time.time() - days * DAY,) * 2)
    return file


@pytest.mark.slow
def test_unused_files_stay_for_the_days_that_were_asked_for_or_that_the_table_says(
    spark: SparkSession, lake: Lakehouse
) -> None:
    def kept(days: int) -> int | None:
        found = maintain_table(spark, lake, MaintainedTable("bronze/messages"), days)
        assert (found.note, found.has_failed) == (None, False)
        return found.days

    def keep(interval: str) -> None:
        name = sql_name(lake.location("bronze/messages"))
        spark.sql(
            f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = '{interval}')"
        )

    files = {days: orphan(lake, days) for days in (2, 8, 31)}
    assert kept(30) == 30
    assert [days for days, file in files.items() if file.exists()] == [2, 8]
    keep("interval 1 day")
    assert kept(9) == 9
    assert [days for days, file in files.items() if file.exists()] == [2, 8]
    keep("interval 1 week 50 hours")
    assert kept(7) == 10
    assert [days for days, file in files.items() if file.exists()] == [2, 8]
    keep("interval 1 day")
    assert kept(7) == 7
    assert [days for days, file in files.items() if file.exists()] == [2]


@pytest.mark.slow
def test_a_table_that_keeps_its_files_longer_is_visited_until_they_are_gone(
    spark: SparkSession, lake: Lakehouse
) -> None:
    name = sql_name(lake.location("bronze/messages"))
    spark.sql(
        f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 30 days')"
    )
    run = Run(spark, lake, load(lake), "maintain")
    tables, file = [MaintainedTable("bronze/messages")], orphan(lake, 8)
    maintain_tables(run, tables, 7)  # it makes one file of sixteen
    age(lake, "bronze/messages")
    maintain_tables(run, tables, 7)
    assert file.exists()
    assert TendedTables(spark, lake).size_of("bronze/messages") is None


def test_a_platform_that_does_not_let_a_session_choose_is_told_of(
    spark: SparkSession, lake: Lakehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = "spark.databricks.delta.vacuum.retentionWindowIgnore.enabled"
    allowed = type(spark.conf).set

    def set_it(conf: RuntimeConfig, key: str, value: str) -> None:
        if key == refused:
            raise PySparkException("CONFIG_NOT_AVAILABLE")
        allowed(conf, key, value)

    monkeypatch.setattr(type(spark.conf), "set", set_it)
    found = maintain_table(spark, lake, MaintainedTable("bronze/messages"), 30)
    assert found.note is not None
    assert found.note.startswith("old files may go after 7 days")
    assert maintain_table(spark, lake, MaintainedTable("bronze/messages"), 7).note is None


def test_a_table_that_cannot_be_maintained_is_reported_and_stops_no_other(
    spark: SparkSession, lake: Lakehouse
) -> None:
    next(Path(lake.location("bronze/messages")).glob("*.parquet")).unlink()
    found = maintain_table(spark, lake, MaintainedTable("bronze/messages"), 7)
    assert found.has_failed
    assert (found.files_after, found.is_compacted) == (found.files_before, False)


def test_a_damaged_table_stops_no_other_and_one_that_is_not_there_has_no_result(
    spark: SparkSession, lake: Lakehouse
) -> None:
    lake.append(spark.range(1).select("id"), "ops/runs")
    (Path(lake.location("bronze/messages")) / "_delta_log" / f"{0:020d}.json").write_text("{cut sho")
    checkpoint(lake, 'v1\n{}\n{"sourceVersion":1,"reservoirId":"x","reservoirVersion":1,"index":-1}')
    assert not is_read_to_end(spark, lake, "bronze/messages", f"{lake.checkpoints}/silver")
    tables = [MaintainedTable(name) for name in ("bronze/messages", "ops/alerts", "ops/runs")]
    found = maintain_tables(Run(spark, lake, load(lake), "maintain"), tables, 7)
    assert [(one.table, one.has_failed) for one in found] == [("bronze/messages", True), ("ops/runs", False)]
    assert (found[0].files_before, found[0].size) == (0, 0)
    assert (found[0].note or "").startswith("failed: ")


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
