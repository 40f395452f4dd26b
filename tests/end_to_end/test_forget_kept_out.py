"""Rows of which silver has no image, excluded or in quarantine, are forgotten, and none is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.cli import main
from tests.end_to_end.test_blob_to_replica import Shop, item, message
from tests.end_to_end.test_forget import SECRET, holding
from tests.end_to_end.test_forget_tables import configure
from tests.end_to_end.test_repair import command

KEY = "canary-key"
RULES = """quality:
  rules:
    - {match: shop.item, range: {column: price, max: 100}, on_change: quarantine}
"""


def inserted(sequence: int, *rows: tuple[int, str, float]) -> str:
    """A message of Canal, which may have several rows."""
    return json.dumps(
        {
            "database": "shop", "table": "item", "type": "INSERT", "id": sequence, "isDdl": False, "sql": "",
            "es": 1_700_000_000_000 + sequence * 1000, "ts": 1, "pkNames": ["id"], "old": None,
            "mysqlType": {"id": "bigint(20)", "name": "varchar(20)", "price": "double"},
            "data": [{"id": str(id), "name": name, "price": str(price)} for id, name, price in rows],
        }
    )  # fmt: skip


def names(shop: Shop) -> dict[Any, Any]:
    return {number: row["name"] for number, row in shop.rows("shop/item").items()}


@pytest.mark.slow
def test_a_forgotten_row_takes_no_row_in_quarantine_with_it(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Shop(spark, tmp_path, RULES)
    configure(shop, "format: datahub_blob", "format: canal")
    file = str(shop.folder / "mainstem.yml")
    shop.land(
        [
            inserted(1, (1, "pen", 1.0), (2, SECRET, 400.0)),
            inserted(2, (4, "gold", 400.0), (5, "silver", 5.0)),
        ]
    )
    assert main(["run", "--through", "silver", "-c", file]) == 0

    assert main(["forget", "shop.item", "id=5", "-c", file]) == 1
    assert "OTHER_ROWS_WAIT" in capsys.readouterr().err
    code, output = command(shop, capsys, "forget", "shop.item", "id=2")
    assert code == 0
    assert output["forgotten"]["silver"]["quarantined"] == 1
    assert not holding(shop, SECRET)

    configure(shop, RULES, "quality: false\n")
    assert command(shop, capsys, "replay")[0] == 0
    assert names(shop) == {1: "pen", 4: "gold", 5: "silver"}
    assert command(shop, capsys, "forget", "shop.item", "id=5")[0] == 0
    assert command(shop, capsys, "rebuild", "shop.item")[0] == 0
    assert names(shop) == {1: "pen", 4: "gold"}
    _, found = command(shop, capsys, "status", "--verify")
    assert [check["name"] for check in found["checks"] if not check["ok"]] == []


@pytest.mark.slow
def test_a_row_whose_messages_land_again_elsewhere_is_forgotten_again(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Shop(spark, tmp_path)
    file = str(shop.folder / "mainstem.yml")
    sent = [
        message("INSERT", 1, after=item(1, SECRET, 1.0)),
        message("INSERT", 2, after=item(7, "pen", 2.0)),
        message("UPDATE_BEFOR", 3, before=item(1, SECRET, 1.0)),
        message("UPDATE_AFTER", 3, after=item(1, SECRET, 3.0)),
        message("DELETE", 4, before=item(1, SECRET, 3.0)),
    ]
    shop.land(sent)
    assert main(["run", "-c", file]) == 0
    assert command(shop, capsys, "forget", "shop.item", "id=1")[0] == 0

    for part in (sent, sent[3:4], sent[2:3]):
        shop.land(part)
        assert main(["run", "-c", file]) == 0
    assert holding(shop, SECRET)
    code, output = command(shop, capsys, "forget", "shop.item", "id=1")
    assert (code, output["forgotten"]["bronze"]) == (0, {"messages": 6})
    assert not holding(shop, SECRET)
    assert main(["forget", "shop.item", "id=1", "-c", file]) == 1
    assert "NOTHING_TO_FORGET" in capsys.readouterr().err
    assert names(shop) == {7: "pen"}
    _, found = command(shop, capsys, "status", "--verify")
    assert [check["name"] for check in found["checks"] if not check["ok"]] == []


def captured(offset: int, op: str | None, key: str, name: str = "") -> str:
    """A message of Debezium as kcat writes it; a tombstone without `op`."""
    at, row = 1_700_000_000_000 + offset, {"id": key, "name": name}
    origin = {"connector": "mysql", "db": "shop", "table": "item", "server_id": 1, "file": "bin.1", "row": 0}
    images = {"before": row if op == "d" else None, "after": None if op == "d" else row}
    change = {"op": op, **images, "source": {**origin, "pos": 100 + offset, "ts_ms": at}, "ts_ms": at}
    stored = {"topic": "shop.item", "partition": 0, "offset": offset, "tstype": "create", "ts": at}
    payload = None if op is None else json.dumps(change)
    return json.dumps({**stored, "key": json.dumps({"id": key}), "payload": payload})


@pytest.mark.slow
def test_excluded_messages_and_tombstones_of_a_row_are_forgotten_and_unread_messages_are_told(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Shop(spark, tmp_path)
    configure(shop, "format: datahub_blob", "format: debezium, layout: kcat")
    file, excluded = str(shop.folder / "mainstem.yml"), "tables: [{match: shop.item, exclude: true}]\n"
    shop.land([captured(0, "c", KEY, SECRET), captured(1, "d", KEY, SECRET), captured(2, None, KEY)])
    assert main(["run", "--through", "silver", "-c", file]) == 0
    configure(shop, "quality: false\n", "quality: false\n" + excluded)
    shop.land([captured(3, "c", KEY, SECRET), captured(4, "c", "b", "pen")])
    assert main(["run", "--through", "silver", "-c", file]) == 0
    shop.land([captured(5, "c", "c", "ink")])
    assert main(["run", "--through", "bronze", "-c", file]) == 0

    code, output = command(shop, capsys, "forget", "shop.item", f"id={KEY}")
    assert (code, output["forgotten"]["bronze"]) == (0, {"messages": 4})
    assert output["forgotten"]["silver"]["unread"] == 1
    assert not holding(shop, SECRET)
    assert not holding(shop, KEY)

    configure(shop, excluded, "")
    assert main(["run", "-c", file]) == 0
    assert command(shop, capsys, "rebuild", "shop.item", "--from", "bronze")[0] == 0
    assert names(shop) == {"b": "pen", "c": "ink"}
