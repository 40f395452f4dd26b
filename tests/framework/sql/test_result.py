from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import types as T

from framework.spark.session import keep_utc
from framework.sql.names import Replica, find_view, parts, shared_names, views
from framework.sql.result import Answer, distinct, document, lines, value
from framework.text.tables import TextTable

KNOWN = views(
    [
        Replica("shop", None, "orders", "/gold/orders", "/gold/orders__history"),
        Replica("crm", "public", "customer", "/gold/customer"),
        Replica("ops", None, "runs", "/gold/runs"),
    ],
    "/lake/{}".format,
)


@pytest.mark.parametrize(
    ("relation", "place"),
    [
        ("`shop`.`orders`", "/gold/orders"),
        ("`shop.orders`", "/gold/orders"),
        ("`SHOP`.`Orders`", "/gold/orders"),
        ("`shop`.`orders__history`", "/gold/orders__history"),
        ("`crm`.`public`.`customer`", "/gold/customer"),
        ("`crm.public`.`customer`", "/gold/customer"),
        ("`silver`.`changes`", "/lake/silver/changes"),
        ("`ops`.`runs`", "/lake/ops/runs"),
        ("`gold.ops.runs`", "/gold/runs"),
    ],
)
def test_relations_are_found_by_their_dotted_names(relation: str, place: str) -> None:
    name = find_view(relation, KNOWN)
    assert name is not None
    assert KNOWN[name] == place


def test_names_that_no_table_has_are_not_found() -> None:
    assert find_view("`shop`.`order`", KNOWN) is None
    assert find_view("`orders`", KNOWN) is None


def test_names_that_differ_by_case_alone_are_distinguished_by_it() -> None:
    known = views(
        [Replica("shop", None, "Orders", "/a"), Replica("shop", None, "orders", "/b")], "/lake/{}".format
    )
    assert find_view("`shop`.`Orders`", known) == "shop.Orders"
    assert find_view("`shop`.`ORDERS`", known) is None


def shard(number: int, name: str | None = None) -> Replica:
    return Replica("shop", None, "orders", f"/{number}", f"/{number}__history", name)


def test_a_replica_of_another_name_is_found_by_it() -> None:
    known = views([shard(1, "west.orders"), Replica("crm", None, "customer", "/c", None, "people")], str)
    assert {known[name] for name in ("west.orders", "shop.orders", "gold.west.orders")} == {"/1"}
    assert (known["west.orders__history"], known["people"], known["crm.customer"]) == (
        "/1__history",
        "/c",
        "/c",
    )


def test_a_name_of_several_replicas_stands_for_none_of_them() -> None:
    shards = [shard(1, "west.orders"), shard(2, "east.orders")]
    known, shared = views(shards, str), shared_names(shards)
    assert (known["west.orders"], known["gold.east.orders__history"]) == ("/1", "/2__history")
    assert not any(name in known for name in shared)
    assert shared["shop.orders"] == shared["gold.shop.orders"] == ("west.orders", "east.orders")
    assert shared["shop.orders__history"] == ("west.orders__history", "east.orders__history")


def test_a_replica_has_its_own_name_before_a_table_of_a_source_that_has_another_one_in_gold() -> None:
    shards = [shard(1, "shop.orders"), shard(2, "east.orders")]
    assert views(shards, str)["shop.orders"] == "/1"
    assert shared_names(shards) == {}


def test_a_replica_that_gets_its_name_with_the_next_run_makes_the_name_of_its_table_unclear() -> None:
    assert shared_names([shard(1), shard(2, "east.orders")])["shop.orders"] == ("east.orders",)


def test_parts_lose_their_backquotes() -> None:
    assert parts("`a``b`.`c.d`") == ["a`b", "c.d"]


@pytest.mark.parametrize(
    ("found", "kind", "expected"),
    [
        (Decimal("1E-7"), T.DecimalType(20, 7), "0.0000001"),
        (b"\x00\xff", T.BinaryType(), "AP8="),
        (float("nan"), T.DoubleType(), "NaN"),
        (float("-inf"), T.DoubleType(), "-Infinity"),
        (9007199254740993, T.LongType(), 9007199254740993),
        (True, T.BooleanType(), True),
        (date(2024, 2, 29), T.DateType(), "2024-02-29"),
        (datetime(2024, 2, 29, 10), T.TimestampNTZType(), "2024-02-29T10:00:00"),
        (
            datetime(2024, 2, 29, 10, tzinfo=UTC).astimezone().replace(tzinfo=None),
            T.TimestampType(),
            "2024-02-29T10:00:00Z",
        ),
        ([Decimal("1.50"), None], T.ArrayType(T.DecimalType(9, 2)), ["1.50", None]),
        ({"a": b"x"}, T.MapType(T.StringType(), T.BinaryType()), {"a": "eA=="}),
        (T.Row(n=Decimal("2")), T.StructType([T.StructField("n", T.DecimalType(9, 0))]), {"n": "2"}),
        (None, T.LongType(), None),
    ],
)
def test_values_are_exact_in_json(found: Any, kind: T.DataType, expected: object) -> None:
    assert value(found, json.loads(kind.json())) == expected
    json.dumps(value(found, json.loads(kind.json())), allow_nan=False)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (datetime(1, 1, 1), "0001-01-01T00:00:00Z"),
        (datetime(9999, 12, 31, 23, 59, 59, 999999), "9999-12-31T23:59:59.999999Z"),
    ],
)
def test_the_first_and_the_last_instant_are_exact(found: datetime, expected: str) -> None:
    keep_utc()
    assert value(found, "timestamp") == expected


def test_columns_of_one_name_are_distinguished() -> None:
    assert distinct(["id", "name", "id", "id"]) == ["id", "name", "id_2", "id_3"]
    answer = Answer((("id", "bigint"), ("id", "string")), ((1, "a"),))
    assert document(answer)["rows"] == [{"id": 1, "id_2": "a"}]


def test_text_keeps_a_row_on_its_line() -> None:
    answer = Answer(
        (("id", "bigint"), ("name", "string")), ((1, "a\nb\u202e"), (2, None), (3, "x" * 300)), has_more=True
    )
    table, count = lines(answer)
    assert isinstance(table, TextTable)
    printed = table.lines()
    assert printed[1] == "1   a⏎b⟨U+202E⟩"
    assert printed[2] == "2   null"
    assert len(printed[3]) < 100
    assert count == "(3 rows, and there are more: --limit 30)"
