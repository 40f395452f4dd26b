"""`plan` says what `run` then does and writes nothing; `maintain` changes no value, and later runs work."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.end_to_end.test_blob_to_replica import Shop, item, message
from tests.end_to_end.test_repair import command


def tree(folder: Path) -> dict[str, str]:
    """Every file below a folder with its content's hash and its time."""
    return {
        str(
            file.relative_to(folder)
        ): f"{file.stat().st_mtime_ns} {hashlib.sha256(file.read_bytes()).hexdigest()}"
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def planned(shop: Shop, capsys: pytest.CaptureFixture[str]) -> tuple[int, Any]:
    before = tree(shop.folder)
    found = command(shop, capsys, "plan")
    assert tree(shop.folder) == before
    return found


def commits(shop: Shop) -> dict[str, int]:
    """How many commits the log of each table has."""
    logs = Path(shop.lake.root).rglob("_delta_log")
    return {str(log): len(list(log.glob("*.json"))) for log in logs}


@pytest.mark.slow
def test_plan_says_what_run_does_and_maintain_leaves_all_values(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Shop(spark, tmp_path)
    assert planned(shop, capsys)[1]["tables"] == []
    shop.land(
        [message("INSERT", 1, after=item(1, "pen", 1.0)), message("INSERT", 2, after=item(2, "ink", 2.0))]
    )
    code, first = planned(shop, capsys)
    assert code == 0
    (table,) = first["tables"]
    assert (table["action"], table["keys"], table["changes"]) == ("create", ["id"], {"insert": 2})
    assert [column["name"] for column in table["columns_added"]] == ["id", "name", "price"]
    assert first["sources"][0]["messages"] == 2
    assert command(shop, capsys, "run")[0] == 0

    shop.land([message("UPDATE_BEFOR", 3, before=item(1, "pen", 1.0)), "no message"])
    shop.land(
        [
            message("UPDATE_AFTER", 3, after=item(1, "pen", 9.0)),
            message("DELETE", 4, before=item(2, "ink", 2.0)),
        ]
    )
    code, second = planned(shop, capsys)
    assert (code, second["silver"]["messages"], second["silver"]["quarantined"]) == (0, 4, {"not_json": 1})
    (table,) = second["tables"]
    assert (table["action"], table["changes"], table["columns_added"]) == (
        "merge",
        {"update": 1, "delete": 1},
        [],
    )
    code, ran = command(shop, capsys, "run")
    assert code == 0
    line = ran["tables"][0]
    assert (line["inserted"], line["updated"], line["deleted"]) == (0, 1, 1)
    assert planned(shop, capsys)[1]["tables"] == []

    rows = shop.rows("shop/item")
    before = commits(shop)
    code, tended = command(shop, capsys, "maintain")
    assert code == 0
    assert commits(shop) == before  # a log with commits that nobody needs would lose those that streams need
    assert {"bronze/messages", "silver/changes", "gold/shop/item", "ops/tables"} <= {
        each["table"] for each in tended["tables"]
    }
    assert all(each["note"] is None for each in tended["tables"])
    assert shop.rows("shop/item") == rows == {1: item(1, "pen", 9.0)}
    shop.land([message("INSERT", 5, after=item(3, "cap", 3.0))])
    assert command(shop, capsys, "run")[0] == 0
    assert shop.rows("shop/item") == {**rows, 3: item(3, "cap", 3.0)}
    found = command(shop, capsys, "status")[1]
    assert (found["messages"], found["changes"], found["duplicates"]) == (7, 5, 0)
    assert json.dumps(found["quarantined"]) == '{"not_json": 1}'
