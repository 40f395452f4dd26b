"""Rows of which a column of the key is null are forgotten as others are, and traced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.cli import main
from tests.end_to_end.test_blob_to_replica import Shop, message
from tests.end_to_end.test_forget import SECRET, holding
from tests.end_to_end.test_repair import command

COLUMNS = [{"name": "a", "type": "LONG"}, {"name": "b", "type": "LONG"}, {"name": "name", "type": "STRING"}]


def sent(op: str, sequence: int, **images: Any) -> dict[str, Any]:
    """A message of a table whose key the configuration names."""
    found = message(op, sequence, columns=COLUMNS, **images)
    found["schema"]["primaryKey"] = []
    return found


def line(a: int, b: int | None, name: str) -> dict[str, Any]:
    return {"a": a, "b": b, "name": name}


@pytest.mark.slow
def test_a_row_is_forgotten_and_traced_by_a_key_with_null(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Shop(spark, tmp_path, "tables:\n  - {match: shop.item, history: true, keys: [a, b]}\n")
    file = str(shop.folder / "mainstem.yml")
    shop.land(
        [
            sent("INSERT", 1, after=line(1, None, SECRET)),
            sent("UPDATE", 2, before=line(1, None, SECRET), after=line(1, 2, SECRET)),
            sent("INSERT", 3, after=line(3, None, SECRET)),
            sent("INSERT", 4, after=line(3, 4, "pen")),
        ]
    )
    shop.run()
    assert main(["forget", "shop.item", "a=1", "b=2", "-c", file]) == 1
    refused = capsys.readouterr().err
    assert "KEY_WAS_CHANGED" in refused
    assert "a=1 --null b" in refused

    code, traced = command(shop, capsys, "trace", "shop.item", "a=3", "--null", "b")
    assert (code, traced["key"], traced["row"]["name"]) == (0, {"a": "3", "b": None}, SECRET)
    assert [change["fate"] for change in traced["changes"]] == ["applied"]
    code, output = command(shop, capsys, "forget", "shop.item", "a=3", "--null", "b")
    assert (code, output["keys"]) == (0, [{"a": "3", "b": None}])
    assert output["forgotten"]["gold"]["replica_rows"] == 1
    code, output = command(shop, capsys, "forget", "shop.item", "a=1", "b=2", "--follow")
    assert (code, output["keys"]) == (0, [{"a": "1", "b": "2"}, {"a": "1", "b": None}])
    assert output["forgotten"]["gold"]["history_rows"] == 2
    assert not holding(shop, SECRET)
    assert command(shop, capsys, "rebuild", "shop.item")[0] == 0
    rows = spark.read.format("delta").load(f"{shop.lake.root}/gold/shop/item").select("a", "b", "name")
    assert [row.asDict() for row in rows.collect()] == [line(3, 4, "pen")]
