"""A row is forgotten in every table that gold has written of it: before a key change is applied, under
other names, in a history that is no longer kept, and whatever text its key was sent with.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.cli import main
from framework.config.model import load_config
from silver.layer import LAYER as SILVER
from tests.end_to_end.test_blob_to_replica import COLUMNS, Shop, item, message
from tests.end_to_end.test_forget import SECRET, holding
from tests.end_to_end.test_repair import command


def statement(sequence: int, text: str) -> dict[str, Any]:
    return message("ALTER", sequence, payload={"ddl": {"text": text}})


def keyed_by(column: str, op: str, sequence: int, **images: Any) -> dict[str, Any]:
    """A message of a table whose key is this column."""
    found = message(op, sequence, columns=[{"name": column, "type": "LONG"}, *COLUMNS[1:]], **images)
    found["schema"]["primaryKey"] = [column]
    return found


def under(column: str, number: int | str, name: str, price: float) -> dict[str, Any]:
    return {column: number, "name": name, "price": price}


@pytest.mark.slow
def test_a_row_is_forgotten_by_a_key_whose_new_name_gold_has_not_applied(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Shop(spark, tmp_path, "tables:\n  - {match: shop.item, history: true}\n")
    file = str(shop.folder / "mainstem.yml")
    shop.land(
        [
            message("INSERT", 1, after=item(7, SECRET, 1.0)),
            message("INSERT", 2, after=item(9, "ink", 2.0)),
            message("UPDATE_BEFOR", 3, before=item(7, SECRET, 1.0)),
        ]
    )
    shop.run()
    rename = statement(4, "ALTER TABLE item RENAME COLUMN id TO no")
    shop.land([rename, keyed_by("no", "INSERT", 5, after=under("no", 8, "map", 3.0))])
    assert main(["run", "--through", "silver", "-c", file]) == 0

    code, output = command(shop, capsys, "forget", "shop.item", "no=7")
    assert code == 0
    assert output["forgotten"]["gold"]["replica_rows"] == 1
    assert output["forgotten"]["gold"]["history_rows"] == 1
    assert not holding(shop, SECRET)
    assert main(["run", "-c", file]) == 0
    assert rows(shop) == ["ink", "map"]


@pytest.mark.slow
def test_a_row_is_forgotten_while_a_policy_refuses_a_change(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Shop(spark, tmp_path, "tables:\n  - {match: shop.item, schema_policy: fail}\n")
    file = str(shop.folder / "mainstem.yml")
    shop.land([message("INSERT", 1, after=item(7, SECRET, 1.0))])
    shop.run()
    columns = [*COLUMNS, {"name": "city", "type": "STRING"}]
    after = {**item(8, "map", 3.0), "city": "Faro"}
    shop.land([message("INSERT", 2, columns=columns, after=after)])
    assert main(["run", "-c", file]) == 3

    code, output = command(shop, capsys, "forget", "shop.item", "id=7")
    assert (code, output["forgotten"]["gold"]["replica_rows"]) == (0, 1)
    assert not holding(shop, SECRET)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("column", "policy", "reason"),
    [("ID", "lenient", "COLUMNS_DIFFER_BY_CASE"), ("uid", "ignore", "KEY_COLUMN_MISSING")],
)
def test_no_row_is_forgotten_by_a_key_that_rows_name_in_two_ways(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    column: str,
    policy: str,
    reason: str,
) -> None:
    """A search by one of the names would leave the changes with the other one."""
    shop = Shop(spark, tmp_path, f"tables:\n  - {{match: shop.item, schema_policy: {policy}}}\n")
    file = str(shop.folder / "mainstem.yml")
    shop.land([message("INSERT", 1, after=item(7, SECRET, 1.0))])
    shop.run()
    shop.land([keyed_by(column, "INSERT", 2, after=under(column, 7, SECRET, 1.0))])
    assert main(["run", "-c", file]) == 3
    before = holding(shop, SECRET)
    for name in ("id", column):
        capsys.readouterr()
        assert main(["forget", "shop.item", f"{name}=7", "-c", file]) == 1
        assert reason in capsys.readouterr().err
    assert holding(shop, SECRET) == before


@pytest.mark.slow
def test_a_row_is_forgotten_by_a_key_column_that_gold_does_not_have(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Shop(spark, tmp_path)
    file = str(shop.folder / "mainstem.yml")
    shop.land([message("INSERT", 1, after=item(7, "pen", 1.0))])
    shop.run()
    shop.land(
        [
            keyed_by("uid", "INSERT", 5, after=under("uid", 7, SECRET, 1.0)),
            keyed_by("uid", "INSERT", 6, after=under("uid", 8, "map", 3.0)),
        ]
    )
    assert main(["run", "--through", "silver", "-c", file]) == 0
    assert command(shop, capsys, "forget", "shop.item", "uid=7")[0] == 0
    assert not holding(shop, SECRET)
    assert main(["run", "-c", file]) == 0
    assert rows(shop) == ["map"]


def rows(shop: Shop) -> list[str]:
    """The names in the replica, whatever its key is called."""
    found = shop.spark.read.format("delta").load(f"{shop.lake.root}/gold/shop/item")
    return sorted(row["name"] for row in found.collect())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["shop.goods", "shop.item"])
def test_a_row_is_forgotten_in_tables_that_are_no_longer_kept_up(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """A history that is off, a replica under its name before, and one under the table's name before."""
    shop = Shop(spark, tmp_path, "tables:\n  - {match: shop.item, history: true}\n")
    shop.land(
        [message("INSERT", 1, after=item(7, SECRET, 1.0)), message("INSERT", 2, after=item(9, "ink", 2.0))]
    )
    shop.run()
    configure(shop, "history: true", "history: false, replica: shop.things")
    shop.land([message("INSERT", 3, after=item(8, "cap", 3.0))])
    shop.run()
    shop.land([statement(4, "RENAME TABLE item TO goods")])
    shop.run()
    assert {Path(place).name for place in holding(shop, SECRET) if "gold" in place} == {
        "item", "item__history", "things", "goods"
    }  # fmt: skip
    if name == "shop.goods":  # a new table of the old name has another row with the same key
        shop.land([message("INSERT", 5, after=item(7, "a new person", 5.0))])
        shop.run()

    code, output = command(shop, capsys, "forget", name, "id=7")
    assert (code, output["keys"]) == (0, [{"id": "7"}])
    assert not holding(shop, SECRET)
    kept = {8: item(8, "cap", 3.0), 9: item(9, "ink", 2.0)}
    assert shop.rows("shop/goods") == kept
    if name == "shop.goods":
        assert shop.rows("shop/things") == {7: item(7, "a new person", 5.0)}
    assert len(shop.rows("shop/item__history")) == 1


def configure(shop: Shop, old: str, new: str) -> None:
    file = shop.folder / "mainstem.yml"
    file.write_text(file.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    shop.config = load_config(file, formats=SILVER.options())


@pytest.mark.slow
def test_a_row_is_forgotten_whatever_text_its_key_was_sent_with(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The feed declares its numbers as texts, and the configuration gives them their type."""
    shop = Shop(spark, tmp_path, "tables:\n  - {match: shop.item, columns: {id: {type: int}}}\n")

    def insert(sequence: int, key: str, name: str) -> dict[str, Any]:
        columns = [{"name": "id", "type": "STRING"}, *COLUMNS[1:]]
        return message("INSERT", sequence, after=under("id", key, name, 1.0), columns=columns)

    shop.land([insert(n, key, SECRET) for n, key in enumerate(["1", "01", "1.0"], 1)])
    shop.land([insert(4, "2", "ink")])
    shop.run()
    assert list(shop.rows("shop/item")) == [1, 2]
    code, output = command(shop, capsys, "forget", "shop.item", "id=1")
    assert code == 0
    assert sorted(key["id"] for key in output["keys"]) == ["01", "1", "1.0"]
    assert output["forgotten"]["bronze"] == {"messages": 3}
    assert not holding(shop, SECRET)
    assert command(shop, capsys, "rebuild", "shop.item")[0] == 0
    assert list(shop.rows("shop/item")) == [2]


@pytest.mark.slow
def test_a_row_is_forgotten_in_the_tables_before_this_one_and_in_each_source(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Shop(spark, tmp_path)
    configure(shop, "sources:\n", "sources:\n  more: {format: datahub_blob, files: ./more}\n")
    (tmp_path / "more").mkdir()
    more = message("INSERT", 1, after=item(7, SECRET, 1.0))
    (tmp_path / "more" / "part.jsonl").write_text(json.dumps(more), encoding="utf-8")
    shop.land(
        [
            message("INSERT", 1, after=item(7, SECRET, 1.0)),
            statement(2, "DROP TABLE item"),
            statement(3, "CREATE TABLE item (id BIGINT PRIMARY KEY, name VARCHAR(20), price DOUBLE)"),
            message("INSERT", 4, after=item(8, "map", 3.0)),
        ]
    )
    file = str(shop.folder / "mainstem.yml")
    assert main(["run", "--through", "silver", "-c", file]) == 0
    code, output = command(shop, capsys, "forget", "shop.item", "id=7")
    assert (code, output["keys"], output["forgotten"]["bronze"]) == (0, [{"id": "7"}], {"messages": 2})
    assert not holding(shop, SECRET)
    assert main(["forget", "shop.item", "id=7", "-c", file]) == 1
    assert "NOTHING_TO_FORGET" in capsys.readouterr().err


@pytest.mark.slow
def test_a_row_that_a_source_without_a_configuration_has_too_is_forgotten_once_that_is_named_again(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Shop(spark, tmp_path)
    file = shop.folder / "mainstem.yml"
    text = file.read_text()
    shop.land([message("INSERT", 1, after=item(7, SECRET, 1.0))])
    shop.run()
    shop.land([message("INSERT", 2, after=item(8, "ink", 1.0))])
    (tmp_path / "landing").rename(tmp_path / "more")
    renamed = text.replace("feed:", "more:").replace("./landing", "./more")
    file.write_text(renamed)
    assert main(["run", "-c", str(file)]) == 3  # the replica is that of the former source
    assert len(holding(shop, SECRET)) == 3

    forget = ["forget", "shop.item", "id=7", "-c", str(file)]
    assert main(forget) == 2
    refused = capsys.readouterr().err
    assert "TABLE_OF_UNNAMED_SOURCE" in refused
    assert "source feed, which" in refused
    assert len(holding(shop, SECRET)) == 3

    former = text.partition("sources:\n")[2].partition("\n")[0]
    file.write_text(renamed.replace("sources:\n", f"sources:\n{former}\n"))
    assert main(forget) == 0
    assert not holding(shop, SECRET)

    file.write_text(renamed)  # nothing of the former source is left to be forgotten
    capsys.readouterr()
    assert main(forget) == 1
    assert "NOTHING_TO_FORGET" in capsys.readouterr().err
