from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.staging import clear_staging


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
