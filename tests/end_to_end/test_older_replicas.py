"""A replica, a history or an append-only table that was put back from an older copy is made again."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from framework.cli import main
from tests.end_to_end.test_blob_to_replica import Shop, item
from tests.end_to_end.test_lost_state import log
from tests.end_to_end.test_repair import later
from tests.older_copies import put_back

_TABLES = ("item", "item__history", "log")
Rows = Mapping[str, list[str]]


def _rows(lakehouse: Path) -> Rows:
    found: dict[str, list[str]] = {}
    for name in _TABLES:
        rows: list[dict[str, Any]] = DeltaTable(lakehouse / "gold/shop" / name).to_pyarrow_table().to_pylist()
        told = ("id", "name", "_cdc_valid_to", "_cdc_sequence")
        found[name] = sorted(str([row.get(column) for column in told]) for row in rows)
    return found


def _shop(spark: SparkSession, folder: Path) -> Shop:
    return Shop(spark, folder, "tables: [{match: shop.item, history: true}]\n")


@pytest.mark.slow
@pytest.mark.parametrize("way", ["copy", "restore"])
def test_changes_that_an_older_copy_lacks_are_not_lost(
    spark: SparkSession, tmp_path: Path, way: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = _shop(spark, tmp_path)
    command, gold = ["run", "-c", str(tmp_path / "mainstem.yml")], tmp_path / "lakehouse/gold/shop"
    first = [later("INSERT", 1, 1, after=item(1, "pen", 1.0)), log("INSERT", 2, 1, after=item(1, "a", 0.0))]
    second = [
        later("UPDATE", 3, 2, before=item(1, "pen", 1.0), after=item(1, "ink", 1.0)),
        later("INSERT", 4, 2, after=item(2, "cap", 1.0)),
        log("INSERT", 5, 2, after=item(2, "b", 0.0)),
    ]
    third = [later("INSERT", 6, 3, after=item(3, "map", 1.0)), log("INSERT", 7, 3, after=item(3, "c", 0.0))]
    shop.land(first)
    assert main(command) == 0
    shutil.copytree(gold, tmp_path / "older")
    older = {name: DeltaTable(gold / name).version() for name in _TABLES}
    shop.land(second)
    assert main(command) == 0

    for name, version in older.items():
        if way == "copy":
            shutil.rmtree(gold / name)
            shutil.copytree(tmp_path / "older" / name, gold / name)
        else:
            spark.sql(f"RESTORE TABLE delta.`{gold / name}` TO VERSION AS OF {version}").collect()
    shop.land(third)
    capsys.readouterr()
    assert main(command) == 0

    found = _rows(tmp_path / "lakehouse")
    assert [len(found[name]) for name in _TABLES] == [3, 4, 3]
    printed = capsys.readouterr()
    assert (printed.out + printed.err).count("rebuilt: it is an older copy") == 2
    shop.land([later("INSERT", 8, 4, after=item(4, "bag", 1.0))])
    assert main(command) == 0
    assert "older copy" not in "".join(capsys.readouterr())
    assert [len(rows) for rows in _rows(tmp_path / "lakehouse").values()] == [4, 5, 3]


@pytest.mark.slow
def test_an_older_copy_of_a_table_without_new_changes_is_noticed(spark: SparkSession, tmp_path: Path) -> None:
    shop = _shop(spark, tmp_path)
    command, gold = ["run", "-c", str(tmp_path / "mainstem.yml")], tmp_path / "lakehouse/gold/shop"
    for number in (1, 2):
        shop.land(
            [
                later("INSERT", 2 * number, 1, after=item(number, "pen", 1.0)),
                log("INSERT", 2 * number + 1, 1, after=item(number, "a", 0.0)),
            ]
        )
        assert main(command) == 0
        if number == 1:
            shutil.copytree(gold, tmp_path / "older")
    shutil.rmtree(gold / "item")
    shutil.copytree(tmp_path / "older/item", gold / "item")
    shop.land([log("INSERT", 9, 3, after=item(3, "c", 0.0))])
    assert main(command) == 0
    assert [len(rows) for rows in _rows(tmp_path / "lakehouse").values()] == [2, 2, 3]


@pytest.mark.slow
def test_an_older_copy_does_not_bring_a_forgotten_row_back(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a replica, of its history, and of a table without a key."""
    shop = _shop(spark, tmp_path)
    file, gold = str(tmp_path / "mainstem.yml"), tmp_path / "lakehouse/gold/shop"
    shop.land(
        [
            later("INSERT", 1, 1, after=item(7, "Ada", 1.0)),
            later("INSERT", 2, 1, after=item(8, "ink", 1.0)),
            log("INSERT", 3, 1, after=item(7, "Ada", 1.0)),
            log("INSERT", 4, 1, after=item(8, "cap", 1.0)),
        ]
    )
    assert main(["run", "-c", file]) == 0
    shutil.copytree(gold, tmp_path / "older")
    assert main(["forget", "shop.item", "id=7", "-c", file]) == 0
    assert main(["forget", "shop.log", "id=7", "-c", file]) == 0
    capsys.readouterr()
    assert main(["run", "-c", file]) == 0
    assert "rebuilt" not in "".join(capsys.readouterr())

    for name in _TABLES:
        put_back(spark, tmp_path / "older" / name, gold / name)
    assert main(["run", "-c", file]) == 0
    printed = capsys.readouterr()
    assert (printed.out + printed.err).count("rebuilt: it is an older copy") == 2
    assert [len(rows) for rows in _rows(tmp_path / "lakehouse").values()] == [1, 1, 1]
    assert not any("Ada" in row for rows in _rows(tmp_path / "lakehouse").values() for row in rows)
    put_back(spark, tmp_path / "older/item__history", gold / "item__history")
    assert main(["run", "-c", file]) == 0
    assert len(_rows(tmp_path / "lakehouse")["item__history"]) == 1
