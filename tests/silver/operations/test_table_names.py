"""The names of a table that was renamed."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.cli import main
from framework.contracts.ddl_actions import TableName
from silver.operations.table_names import Rename, names_of
from tests.end_to_end.test_blob_to_replica import Shop, item, message
from tests.end_to_end.test_forget_tables import statement
from tests.end_to_end.test_repair import command


def names(table: str, renames: str, **reached: str) -> str:
    """The names of a table; `renames` are like `3 item goods`: at position 3 `item` became `goods`."""
    parts = [text.split() for text in renames.split(",")]
    every = [Rename(at, _name(old), _name(new)) for at, old, new in parts]
    found = names_of(_name(table), every, {_name(name): at for name, at in reached.items()})
    return " ".join(name.table for name in found)


def _name(table: str) -> TableName:
    return TableName("shop", None, table)


@pytest.mark.parametrize("table", ["item", "goods", "wares"])
def test_each_name_of_a_table_stands_for_all_of_them(table: str) -> None:
    assert names(table, "5 goods wares, 3 item goods", item="3", goods="5", wares="9") == "wares goods item"


def test_a_name_that_is_in_use_again_is_that_of_another_table() -> None:
    assert names("item", "3 item goods", item="7") == "item"
    assert names("goods", "3 item goods", item="7") == "goods item"


def test_tables_that_change_places_keep_the_names_of_their_own() -> None:
    swap = "1 item old, 2 next item"
    assert names("item", swap) == "item next"
    assert names("old", swap) == "old item"
    both = f"{swap}, 3 old next"
    assert names("next", both) == "next old item"
    assert names("item", both) == "item next"
    assert names("item", "1 item goods, 2 goods item") == "item goods"


def test_the_renames_of_one_statement_share_a_position() -> None:
    """Tools that change a copy of a table swap it in with one statement: Debezium gives it one position."""
    swap = [
        Rename("5", _name("copy"), _name("item"), ("history", 0, 7, 1)),
        Rename("5", _name("item"), _name("old"), ("history", 0, 7, 0)),
    ]
    assert [name.table for name in names_of(_name("item"), swap, {})] == ["item", "copy"]
    assert [name.table for name in names_of(_name("old"), swap, {})] == ["old", "item"]
    assert [name.table for name in names_of(_name("copy"), swap, {})] == ["item", "copy"]


def test_the_names_of_a_table_are_found_among_many_renames_of_all_tables() -> None:
    """Each rename was compared with all of them: four thousand took five seconds."""
    chain = [Rename(f"{n:06d}", _name(f"a{n}"), _name(f"a{n + 1}")) for n in range(20_000)]
    swaps = [
        Rename(f"{n:06d}", _name("item" if n % 2 else "shadow"), _name("old" if n % 2 else "item"))
        for n in range(20_000)
    ]
    begun = time.process_time()
    assert [name.table for name in names_of(_name("a0"), chain, {})] == [
        f"a{n}" for n in range(20_000, -1, -1)
    ]
    assert [name.table for name in names_of(_name("shadow"), swaps, {})] == ["old", "item", "shadow"]
    assert time.process_time() - begun < 5


@pytest.mark.slow
def test_a_renamed_table_is_decoded_again_under_both_names(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its former name, too, which a note tells."""
    shop = Shop(spark, tmp_path)
    shop.land(
        [
            message("INSERT", 1, after=item(1, "pen", 1.0)),
            message("INSERT", 2, after=item(2, "ink", 2.0)),
            statement(3, "RENAME TABLE item TO goods"),
            message("INSERT", 4, after=item(3, "cap", 3.0), tableName="goods"),
        ]
    )
    assert command(shop, capsys, "run", "--through", "gold")[0] == 0
    for name in ("shop.goods", "shop.item"):
        assert main(["rebuild", name, "--from", "bronze", "--json", "-c", f"{tmp_path}/mainstem.yml"]) == 0
        printed = capsys.readouterr()
        assert json.loads(printed.out)["counts"]["messages"] == 4
        note = "shop.item was renamed: its rows are in shop.goods, which is rebuilt"
        assert (note in printed.err) == (name == "shop.item")
    assert sorted(shop.rows("shop/goods")) == [1, 2, 3]


@pytest.mark.slow
def test_a_table_that_a_tool_has_swapped_in_is_decoded_again(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both renames are one statement, and Debezium gives them one position."""
    config = tmp_path / "mainstem.yml"
    (tmp_path / "landing").mkdir()
    config.write_text(
        "pipeline: shop\nlakehouse: ./lakehouse\nquality: false\n"
        "sources:\n  feed: {format: debezium, files: ./landing}\n"
    )
    source = {"connector": "mysql", "name": "s", "ts_ms": 1700000000000, "snapshot": "false", "db": "shop"}
    source |= {"server_id": 1, "file": "binlog.000003", "row": 0}
    change = {"op": "c", "before": None, "after": {"id": 1}, "source": {**source, "table": "item", "pos": 4}}
    swap = "RENAME TABLE item TO old, copy TO item"
    event = {"source": {**source, "table": "", "pos": 90}, "databaseName": "shop", "ddl": swap}
    lines = [change, {**event, "schemaName": None, "ts_ms": 1700000000000, "tableChanges": []}]
    (tmp_path / "landing" / "1.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert main(["run", "--through", "silver", "-c", str(config)]) == 0
    capsys.readouterr()
    assert main(["rebuild", "shop.item", "--from", "bronze", "--json", "-c", str(config)]) == 0
    assert json.loads(capsys.readouterr().out)["counts"]["messages"] == 2
