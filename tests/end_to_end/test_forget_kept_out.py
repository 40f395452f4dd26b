"""Rows of which silver has no image, excluded or in quarantine, are forgotten, and none is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.cli import main
from tests.end_to_end.test_blob_to_replica import Shop
from tests.end_to_end.test_forget import SECRET, holding
from tests.end_to_end.test_forget_tables import configure
from tests.end_to_end.test_repair import command

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


def names(shop: Shop) -> dict[int, Any]:
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
