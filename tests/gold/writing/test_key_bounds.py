"""A merge of few changes names the range of their keys, if their texts surely show it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.naming import text_literal
from gold.writing import merge
from gold.writing.merge import merge_latest
from tests.gold.silver_builder import ChangeSpec, GoldPipeline, delete, insert, row, update

Bounds = Mapping[str, tuple[str, str]] | None
TEXT = {"id": "string"}


@pytest.fixture
def bounds(monkeypatch: pytest.MonkeyPatch) -> list[Bounds]:
    """The bounds of each merge, in order."""
    found: list[Bounds] = []

    def record(*given: Any) -> Any:
        found.append(given[-1])
        return merge_latest(*given)

    monkeypatch.setattr(merge, "merge_latest", record)
    return found


@pytest.mark.slow
@pytest.mark.usefixtures("with_cache")
def test_each_merge_names_the_keys_between_which_its_changes_are(
    spark: SparkSession, tmp_path: Path, bounds: list[Bounds]
) -> None:
    gold = GoldPipeline(spark, tmp_path)
    gold.add_batch(
        *(insert("t", n, row(n)) for n in range(1, 9)), insert("u", 9, row("it's", n="1"), types=TEXT)
    )
    gold.apply()
    assert bounds == []  # new tables are written as a whole

    gold.add_batch(update("t", 11, row(7), row(7, n="2")), delete("t", 12, row(3)), insert("t", 13, row(10)))
    gold.apply()
    assert bounds == [{"id": ("3", "10")}]
    assert [one["id"] for one in gold.rows("t")] == [1, 2, 4, 5, 6, 7, 8, 10]

    gold.add_batch(
        update("u", 14, row("it's"), row("it's", n="5"), types=TEXT), insert("u", 15, row("b"), types=TEXT)
    )
    gold.apply()
    assert bounds[1:] == [{"id": (text_literal("b"), text_literal("it's"))}]
    assert [(one["id"], one.get("n")) for one in gold.rows("u")] == [("b", None), ("it's", 5)]


@pytest.mark.slow
@pytest.mark.usefixtures("with_cache")
@pytest.mark.parametrize(
    ("change", "rows", "named"),
    [
        (update("t", 20, row(2), row(7)), [1, 3, 7], {"id": ("2", "7")}),
        (update("t", 2, row(2), row(2, n="9")), [1, 2, 3], {"id": ("2", "2")}),
        (insert("t", 20, {"id": None, "n": "1"}), [None, 1, 2, 3], None),
        (insert("t", 20, row("5".zfill(20))), [1, 2, 3, 5], None),
    ],
    ids=["another key", "late", "no key", "a text that Spark must read"],
)
def test_a_merge_names_its_keys_only_where_they_are_sure(
    spark: SparkSession,
    tmp_path: Path,
    bounds: list[Bounds],
    change: ChangeSpec,
    rows: list[int | None],
    named: Bounds,
) -> None:
    """Those of late and of moved rows are computed, the others are read in this process."""
    gold = GoldPipeline(spark, tmp_path)
    gold.add_batch(*(insert("t", n, row(n)) for n in range(1, 4)))
    gold.apply()
    gold.add_batch(change)
    gold.apply()
    assert bounds == [named]
    assert [one.get("id") for one in gold.rows("t")] == rows


@pytest.mark.slow
@pytest.mark.usefixtures("with_cache")
def test_files_that_cannot_have_the_keys_are_not_read(spark: SparkSession, tmp_path: Path) -> None:
    gold = GoldPipeline(spark, tmp_path)
    for start in range(0, 30, 10):
        gold.add_batch(*(insert("t", 100 + n, row(n, n="1")) for n in range(start, start + 10)))
        gold.apply()
    stored = spark.read.format("delta").load(f"{gold.lake.root}/gold/db/t")
    (wanted,) = stored.where("id = 25").select("_metadata.file_path").collect()[0]
    for file in (Path(gold.lake.root) / "gold/db/t").glob("*.parquet"):
        if file.name not in wanted:
            file.unlink()

    gold.add_batch(update("t", 200, row(25, n="1"), row(25, n="7")))
    applied = gold.apply()["t"]
    assert applied.state.reason is None
    assert applied.applied == 1
