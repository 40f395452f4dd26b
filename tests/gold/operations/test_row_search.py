"""The rows that `forget` looks for: by one key or by thousands, in tables with one name or thousands."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from framework.config.tables import TableSettings
from framework.contracts.ddl_actions import RenameColumn, TableName
from framework.spark.columns import with_one_of
from gold.operations.row_search import (
    RowKey,
    changes_of_earlier,
    changes_of_table,
    changes_with_keys,
    rows_with_keys,
)
from gold.planning.table_state import State, TableState
from gold.planning.task import Task
from gold.schema.lineage import Lineage, Segment
from tests.plans import is_constant, plan_text, sizes

CHANGES = "change_id string, before map<string,string>, after map<string,string>"
EARLIER = (
    "source string, database string, schema string, `table` string, sequence string, "
    "keys array<string>, before map<string,string>, after map<string,string>, partial boolean"
)
MANY = 3_000
TYPES = {"id": "int", "line": "string"}


def key(**texts: str | None) -> RowKey:
    return tuple(sorted(texts.items()))


@pytest.mark.parametrize(
    ("before", "after", "is_found"),
    [
        (None, {"id": "2", "line": "a"}, True),
        ({"id": "2", "line": "a"}, None, True),
        ({"id": "2", "line": "a"}, {"id": "3"}, True),  # the key before a key change
        ({"id": "7", "line": "a"}, {"id": "2"}, True),  # `line` is as it was before
        ({"id": "7", "line": "a"}, {"id": "2", "line": "b"}, False),
        (None, {"id": "2", "line": None}, False),
        (None, {"id": "02", "line": "a"}, True),  # the same number
        (None, {"id": "2.0", "line": "a"}, True),
        (None, {"id": "2.5", "line": "a"}, False),
        (None, {"id": "two", "line": "a"}, False),
        (None, {"id": "2", "line": "A"}, False),
        (None, {"id": "2"}, False),
        (None, None, False),
    ],
)
def test_a_change_is_found_by_the_key_of_one_of_its_images(
    spark: SparkSession, before: dict[str, str] | None, after: dict[str, str] | None, is_found: bool
) -> None:
    rows = spark.createDataFrame([("c", before, after)], CHANGES)
    found = changes_with_keys(rows, [key(line="a", id="2"), key(line="a", id="2.0")], TYPES)
    assert found.columns == [*rows.columns, "has_before", "has_after"]
    assert found.count() == is_found


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        (None, {"id": "2", "line": None}, (False, True)),
        ({"id": "2", "line": None}, {"line": "b"}, (True, False)),
        ({"id": "2", "line": "b"}, {"line": None}, (False, True)),
        ({"id": "2", "line": None}, None, (True, True)),
        ({"id": "two", "line": None}, None, None),
        ({"id": None, "line": None}, None, None),
        ({"id": "2", "line": "a"}, {"id": "2", "line": "null"}, None),
        ({"id": "2"}, {"id": "2", "line": "b"}, None),  # nobody knows the line before
        (None, {"id": "2"}, None),
        (None, None, None),
    ],
)
def test_a_change_is_found_by_a_key_of_which_a_column_is_null(
    spark: SparkSession,
    before: dict[str, str] | None,
    after: dict[str, str] | None,
    found: tuple[bool, bool] | None,
) -> None:
    rows = spark.createDataFrame([("c", before, after)], CHANGES)
    (one,) = changes_with_keys(rows, [key(line=None, id="02")], TYPES).collect() or (None,)
    assert (one if one is None else (one["has_before"], one["has_after"])) == found


@pytest.mark.parametrize(
    ("kind", "wanted", "same", "others"),
    [
        ("int", "no number", ["no number"], ["no number ", "0", None]),
        ("decimal(10,2)", "1.5", ["1.50", "01.5"], ["1.505", "1.51"]),
        ("double", "0", ["0.0", "-0", "0"], ["1"]),
        ("binary", "AAE=", ["AAE="], ["AAI=", "AAE"]),
        ("timestamp", "2024-02-29T10:00:00Z", ["2024-02-29T10:00:00.000Z"], ["2024-02-29T10:00:00.0000001Z"]),
        ("string", "1", ["1"], ["01", "1.0"]),
    ],
)
def test_keys_are_compared_as_gold_compares_them(
    spark: SparkSession, kind: str, wanted: str, same: list[str], others: list[str | None]
) -> None:
    rows = spark.createDataFrame(
        [(str(n), None, {"id": text}) for n, text in enumerate([*same, *others])], CHANGES
    )
    found = changes_with_keys(rows, [key(id=wanted)], {"id": kind}).collect()
    assert [row["after"]["id"] for row in found] == same
    assert {(row["has_before"], row["has_after"]) for row in found} == {(False, True)}


def test_thousands_of_keys_find_each_of_their_changes_once(spark: SparkSession) -> None:
    rows = [(f"c{n}", {"id": str(n)}, {"id": str(n + 1)}) for n in range(-5, MANY + 5)]
    found = changes_with_keys(
        spark.createDataFrame(rows, CHANGES), [key(id=str(n)) for n in range(MANY)], TYPES
    )
    assert sorted(row["change_id"] for row in found.collect()) == sorted(f"c{n}" for n in range(-1, MANY))


def test_rows_of_a_replica_are_found_by_typed_keys(spark: SparkSession) -> None:
    rows: list[Any] = [(1, "1"), (2, "x"), (2, "y"), (3, None), (None, "z")]
    frame = spark.createDataFrame(rows, "`_cdc_id` bigint, `a.b` string")
    types, names = {"id": "bigint", "a.b": "string"}, {"id": "_cdc_id", "a.b": "a.b"}
    ids = [key(id="1"), key(id="2.0"), key(id="no number")]
    assert sorted(rows_with_keys(frame, ids, types, names).collect()) == [(1, "1"), (2, "x"), (2, "y")]
    assert rows_with_keys(frame, [key(**{"id": "2", "a.b": "y"})], types, names).collect() == [(2, "y")]
    nulls = [key(**{"id": "3", "a.b": None}), key(**{"id": "no number", "a.b": "z"})]
    assert rows_with_keys(frame, nulls, types, names).collect() == [(3, None)]
    assert rows_with_keys(frame, [key(id=None)], types, names).collect() == [(None, "z")]
    many = [key(id=str(n)) for n in range(2, MANY)]
    assert rows_with_keys(frame, many, types, names).count() == 3


def task(names: int) -> Task:
    """A table that has had so many names, one after the other."""
    tables = [TableName("shop", None, f"t{n}") for n in range(names)]
    segments = [Segment(table, f"011.{n:06d}", f"011.{n + 1:06d}") for n, table in enumerate(tables)]
    lineage = Lineage(tables[-1], tuple(segments), ())
    return Task("feed", lineage, TableState("feed", tables[-1], State.ACTIVE), TableSettings(), 0, 0, 0)


def test_changes_of_a_table_are_found_under_each_of_thousands_of_names(spark: SparkSession) -> None:
    rows = [
        ("feed", "shop", None, f"t{name}", f"011.{place:06d}")
        for name in range(MANY)
        for place in (name, name + 1)
    ]
    frame = spark.createDataFrame(
        rows, "source string, database string, schema string, `table` string, sequence string"
    )
    assert changes_of_table(frame, task(MANY)).count() == MANY


def test_rows_of_earlier_tables_have_the_names_of_their_own_table_and_the_key_of_this_one(
    spark: SparkSession,
) -> None:
    """One table was dropped as it was, in the other one a statement renamed a column."""
    name = TableName("shop", None, "t0")
    renamed = (("013", RenameColumn("n", "name")),)
    earlier = [
        Lineage(name, (Segment(name, "", "011"),)),
        Lineage(name, (Segment(name, "012", "014"),), renamed),
    ]
    rows = [
        ("feed", "shop", None, "t0", at, ["no"], None, {"no": at, "n": "x"}, False)
        for at in ("010", "0121", "0131", "015")
    ]
    frame = spark.createDataFrame(rows, EARLIER)
    found = changes_of_earlier(frame, task(1), earlier, ["id"]).collect()
    assert sorted((row["sequence"], *sorted(row["after"].items())) for row in found) == [
        ("010", ("id", "010"), ("n", "x"), ("no", "010")),
        ("0121", ("id", "0121"), ("name", "x"), ("no", "0121")),
        ("0131", ("id", "0131"), ("n", "x"), ("no", "0131")),
    ]
    assert changes_of_earlier(frame, task(1), [], ["id"]).isEmpty()


def lives(count: int, *, are_alike: bool) -> list[Lineage]:
    """So many tables of one name, each dropped after a statement has renamed a column of it."""
    name = TableName("shop", None, "t0")
    return [
        Lineage(
            name,
            (Segment(name, f"011.{n:06d}", f"011.{n + 1:06d}"),),
            ((f"011.{n:06d}5", RenameColumn("n", "name" if are_alike else f"name{n}")),),
        )
        for n in range(count)
    ]


@pytest.mark.parametrize("are_alike", [True, False])
def test_a_table_created_anew_many_times_is_searched_with_one_look_up(
    spark: SparkSession, are_alike: bool
) -> None:
    """A frame for each of its lives is a plan too deep for Spark."""
    rows = [
        ("feed", "shop", None, "t0", f"011.{n:06d}{more}", ["id"], None, {"id": "1", "n": "x"}, False)
        for n in (0, 1, 498, 499, 500)
        for more in ("3", "5", "7")
    ]
    frame = spark.createDataFrame(rows, EARLIER)

    def searched(count: int) -> DataFrame:
        return changes_of_earlier(frame, task(1), lives(count, are_alike=are_alike), ["id"])

    found = {row["sequence"][4:]: max(row["after"]) for row in searched(500).collect()}
    assert len(found) == 12
    assert [found["0004983"], found["0004985"], found["0004997"]] == [
        "name" if are_alike else "name498", "n", "n",
    ]  # fmt: skip
    few, some, many = sizes(searched)
    assert many - some < 12 * (some - few), "the text of the lives alone makes the plan longer"
    assert many < 1_000_000


def test_a_row_of_two_earlier_tables_has_the_names_of_both(spark: SparkSession) -> None:
    """The end of a table is unknown if its drop is: another one takes its name by a rename."""
    name = TableName("shop", None, "t0")
    earlier = [
        Lineage(name, (Segment(name, "011", None),), (("013", RenameColumn("id", "old")),)),
        Lineage(name, (Segment(name, "012", "014"),)),
        Lineage(name, (Segment(name, "0121", "0139"),)),
    ]
    rows = [("feed", "shop", None, "t0", "0125", ["id"], None, {"id": "1"}, False)]
    found = changes_of_earlier(spark.createDataFrame(rows, EARLIER), task(1), earlier, ["id", "old"])
    assert sorted(str(row["after"]) for row in found.collect()) == ["{'id': '1'}", "{'old': '1'}"]


def test_keys_do_not_make_the_plans_longer(spark: SparkSession) -> None:
    changes = spark.createDataFrame([], CHANGES)
    replica = spark.createDataFrame([], "id bigint")

    def keys(count: int) -> list[RowKey]:
        return [key(id=str(n)) for n in range(count)]

    assert is_constant(sizes(lambda count: changes_with_keys(changes, keys(count), TYPES)))
    assert is_constant(
        sizes(lambda count: rows_with_keys(replica, keys(count), {"id": "bigint"}, {"id": "id"}))
    )


@pytest.mark.parametrize("count", [0, 1, 100, 101, MANY])
def test_rows_with_one_of_few_or_many_texts_are_found(spark: SparkSession, count: int) -> None:
    rows = spark.createDataFrame([*((f"c{n}",) for n in range(-5, MANY)), (None,)], "id string")
    found = with_one_of(rows, "id", [f"c{n}" for n in range(count)] * 2)
    assert sorted(row["id"] for row in found.collect()) == sorted(f"c{n}" for n in range(count))
    assert len(plan_text(found)) < 5_000
