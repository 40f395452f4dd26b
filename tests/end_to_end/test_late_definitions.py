"""Rows of Debezium without a schema block whose definition lands a run later are read by it in the end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.cli import main
from silver.batches import process
from tests.end_to_end.test_decode_again import dying_at
from tests.end_to_end.test_identity import TS, Topics

ID = {"name": "id", "typeName": "INT", "typeExpression": "INT"}
TOTAL = {"name": "total", "typeName": "BIGINT UNSIGNED", "typeExpression": "BIGINT UNSIGNED"}
DAY = {"name": "day", "typeName": "DATE", "typeExpression": "DATE"}


def price(scale: int) -> dict[str, Any]:
    return {"name": "price", "typeName": "DECIMAL", "typeExpression": "DECIMAL", "length": 9, "scale": scale}


def source(pos: int, table: str) -> dict[str, Any]:
    place = {"file": "bin.000001", "pos": pos, "row": 0, "ts_ms": TS + pos}
    return {"connector": "mysql", "db": "shop", "table": table, "server_id": 1, **place}


def line(topic: str, offset: int, key: object, value: object) -> str:
    place = {"topic": topic, "partition": 0, "offset": offset, "tstype": "create", "ts": TS + offset}
    return json.dumps({**place, "key": json.dumps(key), "payload": json.dumps(value)})


def row(offset: int, after: Mapping[str, Any], table: str = "item") -> str:
    value = {"op": "c", "before": None, "after": after, "source": source(100 + offset, table), "ts_ms": TS}
    return line(f"crm.shop.{table}", offset, {"id": after["id"]}, value)


def definition(offset: int, pos: int, *columns: Mapping[str, Any], table: str = "item") -> str:
    described = {"primaryKeyColumnNames": ["id"], "columns": list(columns)}
    change = {"type": "ALTER", "id": f'"shop"."{table}"', "table": described}
    value = {"source": source(pos, table), "databaseName": "shop", "ddl": "", "tableChanges": [change]}
    return line("crm", offset, {"databaseName": "shop"}, {**value, "ts_ms": TS})


def declared(offset: int, number: int, table: str) -> str:
    """A row with its schema block."""
    after = {"type": "struct", "field": "after", "fields": [{"type": "int32", "field": "id"}]}
    payload = {"op": "c", "before": None, "after": {"id": number}, "source": source(100 + offset, table)}
    value = {"schema": {"type": "struct", "fields": [after]}, "payload": payload}
    return line(f"crm.shop.{table}", offset, {"id": number}, value)


def run(topics: Topics, word: str = "decoded again") -> list[str]:
    """Runs the pipeline; its notes with this word."""
    topics.capsys.readouterr()
    assert main(["run", "-c", str(topics.folder / "mainstem.yml")]) == 0
    return [note for note in topics.capsys.readouterr().err.splitlines() if word in note]


@pytest.mark.long
def test_run_and_plan_name_the_columns_that_wait_for_their_definition(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topics = Topics(tmp_path, capsys, {"feed": "format: debezium"})
    topics.land("feed", [row(0, {"id": 1, "day": 19000, "price": "AOM="}), declared(0, 1, "plain")])
    (note,) = run(topics, "look encoded")
    assert "the rows of shop.item declare no types" in note
    assert "columns look encoded: day (a date in days), price (base64);" in note
    topics.land("feed", [row(1, {"id": 2, "day": 19001, "price": "AOM="})])
    assert main(["run", "--through", "bronze", "-c", str(tmp_path / "mainstem.yml")]) == 0
    (planned,) = topics.command("plan")[1]["silver"]["notes"]
    assert note.endswith(planned)


@pytest.mark.long
def test_a_definition_that_lands_later_is_that_of_the_rows_before_it(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topics = Topics(tmp_path, capsys, {"feed": "format: debezium, decimals: base64"})
    big = {"total": -1, "day": 19000}
    rows = [row(0, {"id": 1, **big, "price": "AOM="}), row(0, {"id": 1, "day": 0}, "more")]
    topics.land("feed", [*rows, declared(0, 1, "plain")])
    assert run(topics) == []
    definitions = [definition(1, 51, ID, table="plain"), definition(2, 52, ID, DAY, table="more")]
    topics.land("feed", [definition(0, 50, ID, TOTAL, DAY, price(2)), *definitions])
    both = "shop.item, shop.more: decoded again, because their definitions came after rows"
    assert run(topics) == [f"note: {both}"]
    assert [str(found["day"]) for found in topics.rows("shop/more")] == ["1970-01-01"]
    (found,) = topics.rows("shop/item")
    assert (found["total"], str(found["day"])) == (Decimal(18446744073709551615), "2022-01-08")
    assert found["price"] == Decimal("2.27")

    topics.land("feed", [row(9, {"id": 2, **big, "price": "AOM="})])
    assert run(topics) == []
    topics.land("feed", [definition(3, 105, ID, TOTAL, DAY, price(4))])
    assert run(topics) == ["note: shop.item: decoded again, because its definition came after rows"]
    prices = [found["price"] for found in topics.rows("shop/item")]
    assert sorted(prices) == [Decimal("0.0227"), Decimal("2.27")]
    encodings = f"{tmp_path}/lakehouse/ops/encodings"
    spark.sql(f"DELETE FROM delta.`{encodings}` WHERE state = 'read_again'")
    assert run(topics) == [], "a run that died before it recorded the end finds nothing to do"
    assert topics.status()["without_fate"] == 0


@pytest.mark.slow
def test_a_definition_that_came_while_its_table_was_excluded_holds_once_it_is_included(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rule = "  - {match: shop.item, exclude: true}"
    topics = Topics(tmp_path, capsys, {"feed": "format: debezium"}, rule)
    topics.land("feed", [definition(0, 50, ID, TOTAL), row(0, {"id": 1, "total": -1})])
    run(topics)
    file = tmp_path / "mainstem.yml"
    file.write_text(file.read_text().replace(f"tables:\n{rule}", ""))
    topics.land("feed", [row(1, {"id": 2, "total": -1})])
    run(topics)
    assert topics.rows("shop/item") == [{"id": 2, "total": Decimal(2**64 - 1)}]


AT = {"name": "at", "typeName": "DATETIME", "typeExpression": "DATETIME", "length": 3}


@pytest.mark.long
def test_the_rows_of_a_dump_have_the_types_of_a_definition_that_lands_later(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topics = Topics(tmp_path, capsys, {"feed": "format: debezium, times: adaptive"})
    topics.land("feed", [row(0, {"id": 1, "at": 1_709_200_800_000})])
    assert run(topics) == []
    (tmp_path / "item.csv").write_text("id,at\n2,2024-02-29 10:00:00\n", encoding="utf-8")
    dump = str(tmp_path / "item.csv")
    assert topics.command("seed", "shop.item", "--from", dump, "--position", "bin.000001:101")[0] == 0
    assert run(topics) == []
    topics.land("feed", [definition(0, 50, ID, AT)])
    assert run(topics) == ["note: shop.item: decoded again, because its definition came after rows"]
    assert {found["id"]: str(found["at"]) for found in topics.rows("shop/item")} == {
        1: "2024-02-29 10:00:00",
        2: "2024-02-29 10:00:00",
    }
    assert topics.status()["tables"][0]["bad_values"] == 0


@pytest.mark.slow
def test_a_definition_is_late_also_if_its_batch_was_not_committed_at_first(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = Topics(tmp_path, capsys, {"feed": "format: debezium, decimals: base64"})
    topics.land("feed", [row(0, {"id": 1, "total": -1, "price": "AOM="})])
    assert run(topics) == []
    topics.land("feed", [definition(0, 50, ID, TOTAL, price(2))])
    with monkeypatch.context() as patched:
        patched.setattr(process, "crash_point", dying_at("silver.before_changes"))
        assert topics.command("run")[0] == 1
    assert topics.command("replay")[0] == 0
    assert run(topics) == ["note: shop.item: decoded again, because its definition came after rows"]
    assert topics.rows("shop/item") == [{"id": 1, "total": Decimal(2**64 - 1), "price": Decimal("2.27")}]


@pytest.mark.slow
def test_rows_whose_messages_have_no_key_are_read_by_a_definition_that_lands_later(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topics = Topics(tmp_path, capsys, {"feed": "format: debezium"})
    topics.land("feed", [json.dumps(json.loads(row(0, {"id": 1, "total": -1})) | {"key": None})])
    assert run(topics) == []
    topics.land("feed", [definition(0, 50, ID, TOTAL)])
    assert run(topics) == ["note: shop.item: decoded again, because its definition came after rows"]
    assert [found["total"] for found in topics.rows("shop/item")] == [Decimal(2**64 - 1)]
