"""A feed that begins mid-way and a dump lead to the source's table; the dump counts from its position."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

import bronze.seed
from framework.cli import main
from tests.end_to_end.test_blob_to_replica import COLUMNS, Shop, item, message
from tests.end_to_end.test_repair import broken, command, later
from tests.large_batches import take_for_large

HISTORY = 'tables:\n  - {match: "shop.*", history: true}\n'


class PowerCut(Exception):
    """What a test raises at a crash point: nothing behind it is done."""


def history(shop: Shop) -> list[tuple[Any, ...]]:
    rows = DeltaTable(str(shop.folder / "lakehouse/gold/shop/item__history")).to_pyarrow_table().to_pylist()
    return sorted(
        (row["id"], row["_cdc_sequence"], row["name"], row["_cdc_op"], row["_cdc_is_current"]) for row in rows
    )


def versions(shop: Shop) -> list[int]:
    return [
        DeltaTable(str(shop.folder / "lakehouse" / name)).version()
        for name in ("bronze/messages", "silver/changes", "gold/shop/item")
    ]


def refused(shop: Shop, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert main(["seed", *arguments, "-c", str(shop.folder / "mainstem.yml")]) in (1, 2)
    return capsys.readouterr().err


def die_behind_the_landing(point: str) -> None:
    if point == "bronze.after_seed":
        raise PowerCut(point)


@pytest.mark.long
def test_a_dump_counts_as_of_its_position_whatever_the_feed_sent_before_and_sends_later(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, dump = Shop(spark, tmp_path, HISTORY), tmp_path / "item.csv"
    shop.land(
        [
            message(
                "UPDATE", 8, before=item(1, "pen", 0.5), after=item(1, "pen", 0.75)
            ),  # sent before the position: no effect
            message("UPDATE", 12, before=item(2, "ink", 2.0), after=item(2, "ink", 2.5)),
            message("DELETE", 13, before=item(3, "cap", 3.0)),
            message("INSERT", 14, after=item(9, "box", 9.0)),
        ]
    )
    assert command(shop, capsys, "run")[0] == 0
    dump.write_text(
        'id,name,price\n1,"pen, ""blue""",1.0\n2,ink,2.0\n3,cap,3.0\n4,,4.0\n5,"",5.0\n5,twice,5.0\n',
        encoding="utf-8",
    )
    arguments, tuned_for = ("shop.item", "--from", str(dump), "--position", "10"), list[int]()
    before = versions(shop)
    assert "2 rows with id=5" in refused(shop, capsys, *arguments)
    assert versions(shop) == before

    dump.write_text(dump.read_text(encoding="utf-8").replace("5,twice,5.0\n", ""), encoding="utf-8")
    with monkeypatch.context() as patched:
        patched.setattr(bronze.seed, "crash_point", die_behind_the_landing)
        patched.setattr(bronze.seed, "tune_for_rows", lambda _, rows: tuned_for.append(rows))
        assert "PowerCut" in refused(shop, capsys, *arguments)
    assert tuned_for == [5]
    code, found = command(shop, capsys, "seed", *arguments)
    assert (code, found["counts"]["seeded"], found["counts"]["changes"]) == (0, 0, 5)
    expected = {
        1: item(1, 'pen, "blue"', 1.0),
        2: item(2, "ink", 2.5),
        4: {"id": 4, "name": None, "price": 4.0},
        5: item(5, "", 5.0),
        9: item(9, "box", 9.0),
    }
    assert shop.rows("shop/item") == expected
    before = versions(shop)
    assert command(shop, capsys, "seed", *arguments)[0] == 0
    assert versions(shop) == before

    shop.land(
        [
            message("UPDATE", 11, before=item(4, "", 4.0), after=item(4, "map", 4.5)),
            message("INSERT", 7, after=item(5, "old", 0.1)),
        ]
    )
    dump.write_text("id,name,price\n5,another dump of that position,0.0\n6,six,6.0\n", encoding="utf-8")
    code, found = command(shop, capsys, "seed", *arguments)
    assert (code, found["counts"]["changes"], found["counts"]["duplicates"]) == (0, 1, 1)
    expected |= {4: item(4, "map", 4.5), 6: item(6, "six", 6.0)}
    assert command(shop, capsys, "run")[0] == 0
    assert shop.rows("shop/item") == expected
    rows_before = history(shop)
    assert command(shop, capsys, "rebuild", "shop.item", "--from", "bronze")[0] == 0
    assert (shop.rows("shop/item"), history(shop)) == (expected, rows_before)
    assert [row[1:4] for row in history(shop) if row[0] == 4] == [
        ("011.011.0210~", None, "read"),
        ("011.011.0211", "map", "update"),
    ]

    code, found = command(shop, capsys, "trace", "shop.item", "id=4")
    assert [change["op"] for change in found["changes"]] == ["update", "read"]
    assert found["changes"][1]["messages"][0]["value"] == '{"id":"4","name":null,"price":"4.0"}'
    assert command(shop, capsys, "forget", "shop.item", "id=4")[0] == 0
    del expected[4]
    assert shop.rows("shop/item") == expected
    code, found = command(shop, capsys, "status", "--verify")
    assert (code, broken(found)) == (0, [])


@pytest.mark.slow
def test_a_dump_tells_of_rows_without_a_value_in_the_key(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A key may have nulls, but an empty cell of a CSV file may be a mistake."""
    shop, dump = Shop(spark, tmp_path), tmp_path / "item.csv"
    shop.land([message("INSERT", 14, after=item(9, "box", 9.0))])
    assert command(shop, capsys, "run")[0] == 0
    dump.write_text("id,name,price\n1,pen,1.0\n,ink,2.0\n", encoding="utf-8")
    words = ("seed", "shop.item", "--from", str(dump), "--position", "10")
    assert main([*words, "-c", str(shop.folder / "mainstem.yml")]) == 0
    assert "1 row has no value in 'id', a column of the key" in capsys.readouterr().err


@pytest.mark.slow
def test_a_replica_starts_from_a_dump_before_its_feed_and_takes_over_the_feeds_types(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop, dump = Shop(spark, tmp_path), str(tmp_path / "item.parquet")
    moment = datetime(2024, 2, 29, 10, 0, 0, 500000)
    rows = [(1, "pen", Decimal("1.50"), moment, True), (2, "ink", Decimal("2.00"), None, False)]
    spark.createDataFrame(
        rows, "id bigint, name string, price decimal(10,2), sold timestamp_ntz, is_new boolean"
    ).coalesce(1).write.parquet(dump)
    arguments = ("shop.item", "--from", dump, "--position", "1000")
    assert "SEED_NEEDS_KEY" in refused(shop, capsys, *arguments)
    file = shop.folder / "mainstem.yml"
    file.write_text(
        file.read_text(encoding="utf-8") + "tables:\n  - {match: shop.item, keys: [id]}\n", encoding="utf-8"
    )
    code, found = command(shop, capsys, "seed", *arguments)
    assert (code, found["counts"]["seeded"]) == (0, 2)
    assert shop.rows("shop/item")[1] == {
        "id": 1,
        "name": "pen",
        "price": Decimal("1.50"),
        "sold": moment,
        "is_new": True,
    }

    columns = [
        *COLUMNS[:2],
        {"name": "price", "type": "DOUBLE"},
        {"name": "sold", "type": "STRING"},
        {"name": "is_new", "type": "LONG"},
    ]
    new = {"name": "n", "price": 0.5, "sold": "s", "is_new": 0}
    # hours lie between these two, and both lie below the position of the dump: that is no reset of the source
    same = {"before": {"id": 1, **new}, "after": {"id": 1, **new}, "columns": columns}
    shop.land([message("UPDATE", 900, **same), later("UPDATE", 950, 5, **same)])
    shop.land([message("INSERT", 90_000, columns=columns, after={"id": 3, **new})])
    shop.land([message("DELETE", 100_000, columns=columns, before={"id": 2, **new})])
    assert command(shop, capsys, "run")[0] == 0
    assert set(shop.rows("shop/item")) == {1, 3}
    assert command(shop, capsys, "rebuild", "shop.item", "--from", "bronze")[0] == 0
    assert shop.rows("shop/item")[1] == {
        "id": 1,
        "name": "pen",
        "price": 1.5,
        "sold": "2024-02-29T10:00:00.5",
        "is_new": 1,
    }
    code, found = command(shop, capsys, "status", "--verify")
    assert (code, broken(found)) == (0, [])


@pytest.mark.slow
@pytest.mark.parametrize("is_large", [True, False])
@pytest.mark.parametrize("is_before", [True, False])
@pytest.mark.usefixtures("one_disk")
def test_numbers_of_a_dump_without_types_make_their_column_wide_enough(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_before: bool, is_large: bool
) -> None:
    if is_large:
        take_for_large(monkeypatch)
    shop, dump = Shop(spark, tmp_path, "tables:\n  - {match: shop.item, keys: [id]}\n"), tmp_path / "item.csv"
    file = tmp_path / "mainstem.yml"
    file.write_text(file.read_text(encoding="utf-8").replace("datahub_blob", "maxwell"), encoding="utf-8")
    change = {
        "database": "shop",
        "table": "item",
        "type": "insert",
        "ts": 1709200800,
        "xid": 1,
        "position": "m.000001:9",
        "primary_key_columns": ["id"],
        "data": {"id": 1, "total": 12.5},
    }
    dump.write_text("id,total\n7,1.255\n", encoding="utf-8")
    seed = ["seed", "shop.item", "--from", str(dump), "--position", "1:50"]
    for command_line in (seed, ["run"]) if is_before else (["run"], seed):
        if command_line == ["run"]:
            shop.land([change])
        assert main([*command_line, "-c", str(file)]) == 0
    rows = shop.lake.read(spark, "gold/shop/item").select("id", "total").collect()
    assert {int(row["id"]): row["total"] for row in rows} == {1: Decimal("12.500"), 7: Decimal("1.255")}
