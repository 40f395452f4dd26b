"""A lakehouse in another place: commands read and change its tables, never those of the place before."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.cli import main
from framework.spark.session import is_connect
from tests.end_to_end.test_blob_to_replica import item, message
from tests.end_to_end.test_crashes import Place
from tests.end_to_end.test_kills import CONFIG, land


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path) -> Place:
    if is_connect(spark):
        pytest.skip("folders are the same on Spark Connect")
    place = Place(tmp_path / "gold" / "first")  # a folder that is called as a layer is
    place.folder.mkdir(parents=True)
    place.config.write_text(CONFIG, encoding="utf-8")
    rows = [
        message("INSERT", 500 + n, after=item(n, name, float(n))) for n, name in enumerate(("pen", "ink"))
    ]
    land(place, 1, rows)
    assert place.run() == 0
    return place


def rows_of(spark: SparkSession, place: Place) -> list[int]:
    rows = spark.read.format("delta").load(str(place.folder / "lakehouse/gold/shop/item")).collect()
    return sorted(row["id"] for row in rows)


def said(place: Place, capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    capsys.readouterr()
    code = main([*words, "-c", str(place.config), "--json"])
    document = json.loads(capsys.readouterr().out)
    assert code == 0, document
    return document


@pytest.mark.slow
def test_what_is_done_to_a_copy_is_not_done_to_the_first_one(
    spark: SparkSession, place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = place.copy("copy")
    assert said(copy, capsys, "forget", "shop.item", "id=1")["forgotten"]["gold"]["replica_rows"] == 1
    assert rows_of(spark, copy) == [0]
    assert rows_of(spark, place) == [0, 1]
    assert said(copy, capsys, "sql", "SELECT id FROM shop.item ORDER BY id")["rows"] == [{"id": 0}]
    assert said(copy, capsys, "sql", "SELECT id FROM shop.item__history ORDER BY id")["rows"] == [{"id": 0}]
    assert said(place, capsys, "sql", "SELECT id FROM shop.item ORDER BY id")["rows"] == [
        {"id": 0},
        {"id": 1},
    ]


@pytest.mark.slow
def test_each_command_of_a_moved_lakehouse_finds_its_tables(
    spark: SparkSession, place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    moved = Place(place.folder.parent / "second")
    shutil.move(place.folder, moved.folder)
    here = str(moved.folder / "lakehouse/gold/shop/item")

    (table,) = said(moved, capsys, "status")["tables"]
    assert (table["replica"], table["history"], table["rows"]) == (here, f"{here}__history", 2)
    assert said(moved, capsys, "status", "--verify")["checks"]
    assert said(moved, capsys, "trace", "shop.item", "id=1")["row"]["name"] == "ink"
    report = said(moved, capsys, "report", "--output", str(moved.folder / "report.html"))
    assert report["tables"][0]["rows"] == 2
    land(moved, 2, [message("DELETE", 503, before=item(0, "pen", 0.0))])
    assert main(["run", "-c", str(moved.config)]) == 0
    assert rows_of(spark, moved) == [1]
    assert not place.folder.exists()
