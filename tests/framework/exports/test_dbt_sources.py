"""Replicas become sources of dbt."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import yaml

from framework.exports.dbt_sources import MARK, Replica, dbt_document, dbt_text

HOUR = timedelta(hours=1)


def replica(name: str = "orders", **more: Any) -> Replica:
    values: dict[str, Any] = {
        "parts": ("shop", name),
        "source": "feed",
        "replica": f"/lake/gold/shop/{name}",
        "history": None,
        "keys": ("id",),
        "max_age": HOUR,
    }
    return Replica(**{**values, **more})


def tables(*replicas: Replica) -> dict[str, dict[str, Any]]:
    document = dbt_document("shop", replicas)
    return {table["name"]: table for source in document["sources"] for table in source["tables"]}


def test_a_replica_in_a_folder_is_read_by_its_path() -> None:
    (source,) = dbt_document("shop", [replica()])["sources"]
    assert (source["name"], source["schema"], source["quoting"]) == ("shop", "delta", {"identifier": True})
    assert source["loaded_at_field"] == "_cdc_event_time"
    assert source["tables"] == [
        {
            "name": "shop__orders",
            "identifier": "/lake/gold/shop/orders",
            "description": "The current rows of shop.orders (source feed).",
            "freshness": {"error_after": {"count": 1, "period": "hour"}},
            "columns": [{"name": "id", "data_tests": ["not_null", "unique"]}],
        }
    ]


@pytest.mark.parametrize("location", ["main.shop_gold.shop__orders", "`main`.`shop_gold`.`shop__orders`"])
def test_a_replica_in_a_catalog_has_its_names(location: str) -> None:
    (source,) = dbt_document("shop", [replica(replica=location)])["sources"]
    assert (source["database"], source["schema"]) == ("main", "shop_gold")
    assert source["tables"][0]["identifier"] == "shop__orders"


def test_columns_of_a_composite_key_are_not_unique_by_themselves() -> None:
    table = tables(replica(keys=("order_id", "line_no")))["shop__orders"]
    assert table["columns"] == [
        {"name": "order_id", "data_tests": ["not_null"]},
        {"name": "line_no", "data_tests": ["not_null"]},
    ]


def test_a_table_without_a_key_has_no_tests() -> None:
    assert "columns" not in tables(replica(keys=()))["shop__orders"]


def test_a_history_is_a_table_without_freshness() -> None:
    found = tables(replica(history="/lake/gold/shop/orders__history"))
    assert found["shop__orders__history"]["identifier"] == "/lake/gold/shop/orders__history"
    assert found["shop__orders__history"]["freshness"] is None


@pytest.mark.parametrize(
    ("age", "expected"),
    [
        (timedelta(days=2), {"count": 2, "period": "day"}),
        (timedelta(hours=36), {"count": 36, "period": "hour"}),
        (timedelta(minutes=15), {"count": 15, "period": "minute"}),
        (timedelta(seconds=90), {"count": 2, "period": "minute"}),
        (timedelta(0), {"count": 1, "period": "minute"}),
    ],
)
def test_an_age_is_written_in_the_units_of_dbt(age: timedelta, expected: dict[str, Any]) -> None:
    assert tables(replica(max_age=age))["shop__orders"]["freshness"]["error_after"] == expected


def test_tables_whose_names_become_equal_get_numbers() -> None:
    assert list(tables(replica("a-b"), replica("a.b"), replica("a_b"))) == [
        "shop__a_b",
        "shop__a_b_2",
        "shop__a_b_3",
    ]


def test_the_text_says_who_made_it_and_holds_the_document() -> None:
    document = dbt_document("shop", [replica("注文")])
    text = dbt_text(document)
    assert text.startswith(MARK)
    assert yaml.safe_load(text) == document
