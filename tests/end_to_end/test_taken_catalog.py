"""Tables of a catalog belong to one folder of checkpoints: under another one, nothing lands in them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.cli import main
from framework.lakehouse.lakehouse import Lakehouse
from tests.end_to_end.test_identity import kcat


@pytest.fixture
def catalog(spark: SparkSession, tmp_path: Path) -> Iterator[Lakehouse]:
    yield Lakehouse(str(tmp_path / "one"), "spark_catalog", "taken_")
    for layer in ("bronze", "silver", "gold", "ops"):
        spark.sql(f"DROP SCHEMA IF EXISTS spark_catalog.taken_{layer} CASCADE")


@pytest.mark.slow
def test_of_two_pipelines_under_one_prefix_the_second_lands_nothing(
    spark: SparkSession, catalog: Lakehouse, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    landing, file = tmp_path / "landing", tmp_path / "mainstem.yml"
    landing.mkdir()

    def run(checkpoints: str, number: int) -> tuple[int, str]:
        file.write_text(
            "pipeline: shop\nlakehouse: {catalog: spark_catalog, schema_prefix: taken_}\n"
            f"checkpoints: ./{checkpoints}\n"
            "sources:\n  feed: {format: canal, layout: kcat, files: ./landing}\n"
        )
        (landing / f"{number}.jsonl").write_text(kcat(number, {}) + "\n")
        capsys.readouterr()
        code = main(["run", "--through", "bronze", "-c", str(file)])
        return code, capsys.readouterr().err

    assert run("one", 1)[0] == 0
    code, error = run("two", 2)
    assert (code, "LAKEHOUSE_TAKEN" in error) == (1, True)
    assert catalog.read(spark, "bronze/messages").count() == 1
    shutil.copytree(tmp_path / "one", tmp_path / "moved")
    assert run("moved", 3)[0] == 0
    assert catalog.read(spark, "bronze/messages").count() == 3
