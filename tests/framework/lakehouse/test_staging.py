from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.lakehouse import staging as module
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.staging import clear_staging, scratch_folder


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_no_file_with_rows_is_left(spark: SparkSession, tmp_path: Path, scheme: str) -> None:
    lake, staging = Lakehouse(f"{scheme}{tmp_path}"), tmp_path / "_mainstem" / "staging"
    for name in ("silver/rows", "again/decoded"):
        (staging / name).mkdir(parents=True)
        (staging / name / "part-0.parquet").write_text("a row")
    for _ in range(2):  # also where nothing is left
        clear_staging(spark, lake)
        assert not [file for file in staging.rglob("part-0.parquet") if "a row" in file.read_text()]
        assert not (staging / "again").exists()
    if scheme:
        assert spark.read.parquet(f"{scheme}{staging}").count() == 0


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_command_that_changes_nothing_has_a_folder_where_tasks_write(
    spark: SparkSession, tmp_path: Path, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a cluster, the temporary folder of the driver is not that of the tasks."""
    lake = Lakehouse(f"{scheme}{tmp_path}")
    with scratch_folder(spark, lake, "plan") as folder:
        assert not folder.startswith(str(tmp_path))
    monkeypatch.setattr(module, "is_shared", lambda *_: False)
    with scratch_folder(spark, lake, "plan") as folder, scratch_folder(spark, lake, "plan") as other:
        assert folder.startswith(f"{scheme}{tmp_path}/_mainstem/staging/")
        assert folder != other
        spark.range(3).write.parquet(f"{folder}/silver/rows")
    assert not list(tmp_path.rglob("silver"))
