from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.lakehouse.small_files import is_there, remove


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_an_empty_file_is_there_until_it_is_removed(spark: SparkSession, tmp_path: Path, scheme: str) -> None:
    """As users create the file that lets a checkpoint begin again: on this disk, and elsewhere."""
    file = tmp_path / "a [b] {c}.reset"
    place = f"{scheme}{file}"
    assert not is_there(spark, place)
    file.touch()
    assert is_there(spark, place)
    remove(spark, place)
    assert not is_there(spark, place)
    remove(spark, place)


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_folder_is_there_with_its_files(spark: SparkSession, tmp_path: Path, scheme: str) -> None:
    assert not is_there(spark, f"{scheme}{tmp_path}/offsets")
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets/0").write_text("v1")
    assert is_there(spark, f"{scheme}{tmp_path}/offsets")
