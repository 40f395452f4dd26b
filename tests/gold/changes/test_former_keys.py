"""Images that came with former keys get the columns of the current one, however many keys a table has had."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from framework.contracts.ddl_actions import TableName
from gold.changes import former_keys
from gold.changes.former_keys import FormerKeys, with_current_key
from gold.schema.columns import TableColumn
from gold.schema.lineage import Lineage
from tests.plans import sizes

SCHEMA = (
    "sequence string, event_time timestamp, change_id string, transaction_id string, op string,"
    " partial boolean, half string, before map<string,string>,"
    " after map<string,string>, keys array<string>, `a.b` string"
)
Image = Mapping[str, str | None]


def change(
    place: int,
    op: str,
    before: Image | None,
    after: Image | None,
    keys: Sequence[str],
    *,
    half: str | None = None,
    change_id: str | None = None,
) -> tuple[Any, ...]:
    at = (f"011.{place:06d}", datetime(2024, 3, 1, tzinfo=UTC), change_id or f"c{place}", None)
    return (*at, op, op == "update", half, before, after, list(keys), "kept")


def formers(count: int) -> FormerKeys:
    """A table that had the keys (k0), (k1)… and now has (k<count>)."""
    names = [f"k{n}" for n in range(count)]
    return FormerKeys(
        Lineage(TableName("shop", None, "t"), ()),
        tuple((TableColumn(name, "int", None),) for name in names),
        {(0, (name,)): index for index, name in enumerate(names)},
        frozenset({f"k{count}"}),
    )


def completed(frame: DataFrame, count: int) -> DataFrame:
    return with_current_key(frame, formers(count), None, has_partial_key_changes=False)


def images(spark: SparkSession, changes: list[tuple[Any, ...]], count: int) -> dict[str, tuple[Any, Any]]:
    found = completed(spark.createDataFrame(changes[::-1], SCHEMA), count)
    assert found.columns == spark.createDataFrame([], SCHEMA).columns
    rows = found.collect()
    assert len(rows) == len(changes)
    assert {row["a.b"] for row in rows} == {"kept"}
    return {f"{row['change_id']}{row['half'] or ''}": (row["before"], row["after"]) for row in rows}


def test_an_image_with_a_former_key_gets_the_columns_of_the_current_one(spark: SparkSession) -> None:
    found = images(
        spark,
        [
            change(1, "insert", None, {"k0": "1", "k1": "7", "n": "x"}, ["k0"]),
            change(2, "update", {"k0": "1"}, {"k0": "1", "n": "y"}, ["k0"]),
            change(3, "insert", None, {"k0": "2", "k1": "8", "n": "z"}, ["k1"]),
            change(4, "update", {"k1": "8"}, {"k1": "8", "n": "w"}, ["k1"]),  # it has the current key
            change(5, "update", {"k0": "no number"}, {"n": "v"}, ["k0"]),
            change(6, "delete", {"k0": "1"}, None, ["k0"]),
            change(7, "delete", {"k0": "9"}, None, ["k0"]),
        ],
        1,
    )
    assert found["c2"] == ({"k0": "1", "k1": "7"}, {"k0": "1", "k1": "7", "n": "y"})
    assert found["c4"] == ({"k1": "8"}, {"k1": "8", "n": "w"})
    assert found["c5"] == ({"k0": "no number"}, {"n": "v"})
    assert found["c6"] == ({"k0": "1", "k1": "7"}, None)
    assert found["c7"] == ({"k0": "9"}, None)


def test_a_half_and_the_update_that_completes_it_are_both_there(spark: SparkSession) -> None:
    whole = {"k0": "1", "k1": "7", "n": "x"}
    after = {"k0": "1", "n": "y"}
    found = images(
        spark,
        [
            change(1, "insert", None, whole, ["k0"]),
            change(2, "update", None, after, ["k0"], half="after"),
            change(2, "update", {"k0": "1"}, after, ["k0"]),
            change(3, "update", None, {"k1": "8", "n": "y"}, ["k1"], half="after"),
            change(3, "update", {"k1": "8"}, {"k1": "8", "n": "y"}, ["k1"]),
        ],
        1,
    )
    assert sorted(found) == ["c1", "c2", "c2after", "c3", "c3after"]
    assert found["c2"] == found["c2after"] == ({"k0": "1", "k1": "7"}, {"k0": "1", "k1": "7", "n": "y"})
    assert found["c3after"] == (None, {"k1": "8", "n": "y"})


@pytest.mark.parametrize("is_connect", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_row_is_followed_through_many_keys(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, is_connect: bool
) -> None:
    monkeypatch.setattr(former_keys, "is_connect", lambda _: is_connect)
    count = 5
    whole = {**{f"k{n}": str(n) for n in range(count + 1)}, "n": "x"}
    changes = [change(0, "insert", None, whole, ["k0"])]
    changes += [
        change(n + 1, "update", {f"k{n}": str(n)}, {f"k{n}": str(n), "n": str(n)}, [f"k{n}"])
        for n in range(count)
    ]
    found = images(spark, changes, count)
    for n in range(count):
        before = {f"k{m}": str(m) for m in range(n, count + 1)}
        assert found[f"c{n + 1}"] == (before, {**before, "n": str(n)})


@pytest.mark.slow
def test_each_key_makes_the_plan_of_spark_connect_longer_by_as_much(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There many rows between two keys are no data: the plan has them as often as a step names them."""
    monkeypatch.setattr(former_keys, "is_connect", lambda _: True)
    monkeypatch.setattr(former_keys, "MOST_IN_PROCESS", -1)
    frame = spark.createDataFrame([], SCHEMA)
    few, some, many = sizes(lambda count: completed(frame, count), (2, 4, 6))
    assert many - some < 1.5 * (some - few)


@pytest.mark.slow
def test_few_rows_are_data_between_two_keys_on_spark_connect(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(former_keys, "is_connect", lambda _: True)
    frame = spark.createDataFrame([change(0, "insert", None, {"k0": "1"}, ["k0"])], SCHEMA)
    few, many = sizes(lambda count: completed(frame, count), (2, 6))
    assert many < 1.5 * few
