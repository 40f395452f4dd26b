"""`make scale` at its smallest: each group runs, and `status` agrees with what was simulated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.benchmarks import scale
from tests.benchmarks.measure import Result

SMALLEST: dict[str, Callable[[SparkSession, Path], Iterator[Result]]] = {
    "age": lambda spark, folder: scale.age(spark, folder, 2),
    "width": lambda spark, folder: scale.width(spark, folder, 4, 0),
    "depth": lambda spark, folder: scale.depth(spark, folder, 4_000, 0),
    "files": lambda spark, folder: scale.files(spark, folder, 30, 0),
}


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("group", scale.GROUPS)
def test_each_group_measures_at_its_smallest(group: str, spark: SparkSession, tmp_path: Path) -> None:
    (result,) = SMALLEST[group](spark, tmp_path)
    assert result.goal == group
    assert " s and " in result.note


def test_the_table_goes_between_the_markers_of_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- scale: made by `make scale` -->\nold\n<!-- /scale -->\nbehind\n")
    scale.fill(page, [Result("age", "what", 1.1, 1.15, 1.05, "a note")])
    assert page.read_text().splitlines() == [
        "before",
        "<!-- scale: made by `make scale` -->",
        "| goal | what | ratio | at most | stretch | | measured |",
        "|---|---|---|---|---|---|---|",
        "| age | what | 1.10 | 1.15 | 1.05 | pass | a note |",
        "<!-- /scale -->",
        "behind",
    ]
