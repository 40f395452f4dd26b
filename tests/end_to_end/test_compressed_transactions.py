"""Transactions that MySQL compresses: all their changes have one position in the binlog."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.cli import main
from framework.config.model import load_config
from silver.layer import LAYER as SILVER
from tests.end_to_end.test_partition_order import Topics
from tests.end_to_end.test_repair import command

CONFIG = """\
pipeline: shop
lakehouse: ./lakehouse
sources:
  crm: {format: debezium, files: ./landing/crm, layout: kcat, compressed_transactions: true}
tables:
  - {match: shop.orders, keys: [id], history: true}
quality: false
"""


def change(
    pos: int, op: str, before: Any = None, after: Any = None, *, table: str = "orders", row: int = 0
) -> dict[str, Any]:
    """A change as the connector sends it: `row` counts in each statement of the transaction anew."""
    source = {"connector": "mysql", "db": "shop", "table": table, "server_id": 7, "ts_ms": 1709200800000}
    place = {"file": "binlog.000003", "pos": pos, "row": row, "snapshot": "false"}
    return {"op": op, "before": before, "after": after, "source": {**source, **place}, "ts_ms": 1709200800100}


def ids(message: dict[str, Any]) -> set[Any]:
    return {image.get("id") for image in (message["before"], message["after"]) if image}


def order(number: int, value: str) -> dict[str, Any]:
    return {"id": number, "v": value}


SECOND = [
    change(900, "u", order(1, "c"), order(1, "d")),
    change(900, "u", order(1, "d"), order(1, "c")),
    change(900, "u", order(1, "c"), order(1, "d")),
]
FIRST = [
    change(500, "c", None, order(1, "a")),
    change(500, "u", order(1, "a"), order(1, "b")),
    change(500, "u", order(1, "b"), order(1, "c")),
    change(500, "c", None, order(2, "x")),
    change(500, "d", order(2, "x")),
    change(500, "d", order(3, "y")),
    change(500, "c", None, order(3, "z")),
    *(change(500, "c", None, order(number, "a"), row=number - 5) for number in (5, 6, 7)),
    change(500, "u", order(6, "a"), order(6, "b")),
    change(500, "d", order(7, "a")),
    *(change(500, "c", None, {"note": "same"}, table="notes", row=row) for row in (0, 1, 0, 1)),
]


@pytest.mark.long
def test_each_change_of_a_compressed_transaction_counts_in_its_order(
    spark: SparkSession, tmp_path: Path, capsys: Any
) -> None:
    topics = Topics(spark, tmp_path)
    (tmp_path / "mainstem.yml").write_text(CONFIG, encoding="utf-8")
    topics.config = load_config(tmp_path / "mainstem.yml", formats=SILVER.options())

    def land(messages: list[dict[str, Any]], start: int) -> None:
        topics.land("crm", dict(enumerate(messages, start)))
        assert command(topics, capsys, "run")[0] == 0

    def states() -> tuple[list[Any], list[Any], int]:
        history = topics.lake.read(spark, "gold/shop/orders__history")
        versions = [tuple(row) for row in history.select("id", "v").orderBy("id", "_cdc_sequence").collect()]
        return topics.rows("orders", "id", "v"), versions, len(topics.rows("notes", "note"))

    first = [(1, "a"), (1, "b"), (1, "c"), (2, "x"), (3, "z"), (5, "a"), (6, "a"), (6, "b"), (7, "a")]
    now = [(3, "z"), (5, "a"), (6, "b")]
    land(FIRST, 0)
    assert states() == ([(1, "c"), *now], first, 4)
    land(SECOND, len(FIRST))
    second = ([(1, "d"), *now], [*first[:3], (1, "d"), (1, "c"), (1, "d"), *first[3:]], 4)
    assert states() == second
    land([again for again in FIRST if ids(again).isdisjoint({2, 7})], 100)  # the connector begins again
    assert states() == second
    land(FIRST + SECOND, 200)  # what goes there and back counts again, and ends where it ended
    assert (states()[0], states()[2]) == (second[0], second[2])


@pytest.mark.long
def test_a_source_without_the_option_is_told_until_it_has_it(
    spark: SparkSession, tmp_path: Path, capsys: Any
) -> None:
    topics = Topics(spark, tmp_path)

    def run(config: str, *words: str) -> str:
        (tmp_path / "mainstem.yml").write_text(config, encoding="utf-8")
        topics.config = load_config(tmp_path / "mainstem.yml", formats=SILVER.options())
        capsys.readouterr()
        assert main([*(words or ("run",)), "-c", str(tmp_path / "mainstem.yml")]) == 0
        return str(capsys.readouterr())

    without = CONFIG.replace(", compressed_transactions: true", "")
    topics.land("crm", {0: change(300, "c", None, order(9, "a"))})
    assert "compressed_transactions" not in run(without)
    topics.land("crm", dict(enumerate(SECOND, 1)))
    assert "source crm: several changes have one position" in run(without)
    topics.land("crm", {20: change(1200, "c", None, order(10, "a"))})
    assert "write `compressed_transactions: true` for the source" in run(without)
    assert topics.rows("orders", "id", "v") == [(1, "d"), (9, "a"), (10, "a")]
    topics.land("crm", {21: change(1300, "d", order(10, "a"))})
    assert "several changes" not in run(CONFIG)
    run(CONFIG, "rebuild", "shop.orders", "--from", "bronze")
    history = topics.lake.read(spark, "gold/shop/orders__history").where("id = 1")
    assert [row["v"] for row in history.orderBy("_cdc_sequence").collect()] == ["d", "c", "d"]
