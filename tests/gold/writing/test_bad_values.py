"""Every cell that is null in gold though its row has a text is listed, once,
or counted where there are too many.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from framework.contracts.ddl_actions import RenameTable, TableName
from framework.contracts.events import Token
from framework.contracts.table_names import BAD_VALUES_TABLE
from framework.pipeline.layer import Run
from framework.spark.session import is_connect
from gold.layer import LAYER
from gold.operations.verify import verify
from gold.planning.table_state import State
from gold.writing import bad_values
from tests.gold.silver_builder import (
    ChangeSpec,
    GoldPipeline,
    Image,
    copied,
    ddl,
    delete,
    insert,
    row,
    update,
)


def image(number: int, text: str) -> Image:
    return {"id": str(number), "price": text}


def listed(gold: GoldPipeline) -> list[tuple[str, str, str, str]]:
    rows = gold.lake.read(gold.spark, BAD_VALUES_TABLE).collect()
    return sorted((row["table"], row["column"] or "", row["text"], row["reason"]) for row in rows)


@pytest.mark.slow
def test_cells_of_older_rows_are_listed_when_the_configuration_types_their_column(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What nulls cells is the rebuild with the new type; a better type takes them off the list;
    too many are counted.
    """
    gold = GoldPipeline(spark, tmp_path)
    gold.add_batch(
        *[insert("item", n, image(n, text)) for n, text in enumerate(["1.5", "free", "2", "x" * 5_000])]
    )
    gold.add_batch(*copied([insert("item", n, image(n, f"none {n}")) for n in range(7)], "many"))
    gold.apply()
    assert listed(gold) == []

    monkeypatch.setattr(bad_values, "MAX_LISTED", 5)
    gold.configure('  - {match: db.*, columns: {price: {type: "decimal(12,2)"}}}\n')
    applied = gold.apply()
    assert listed(gold) == sorted(
        [
            ("item", "price", "free", "bad_value"),
            ("item", "price", "x" * 1_000 + "…", "bad_value"),
            *(("many", "price", f"none {n}", "bad_value") for n in range(5)),
            ("many", "", "2", "not_listed"),
        ]
    )
    assert applied["many"].notes[-1] == "2 bad values more than the 5 that ops/bad_values lists"
    assert (gold.state("item").bad_values, gold.state("many").bad_values) == (2, 7)
    status = {
        table["table"]: table["bad_values"]
        for table in LAYER.status(Run(spark, gold.lake, gold.config, "status"))["tables"]
    }
    assert status == {"item": 2, "many": 7}

    gold.add_batch(insert("item", 10, image(10, "dear")))
    gold.apply()
    gold.rebuild("item")
    assert [text for table, _, text, _ in listed(gold) if table == "item"] == [
        "dear",
        "free",
        "x" * 1_000 + "…",
    ]
    assert gold.state("item").bad_values == 3
    gold.configure("  - {match: db.item, columns: {price: {type: string}}}\n")
    gold.apply()
    assert [row for row in listed(gold) if row[0] == "item"] == []
    assert gold.state("item").bad_values == 0
    assert gold.lake.read(spark, BAD_VALUES_TABLE).where(F.col("table") == "many").isEmpty()


@pytest.mark.slow
def test_a_list_that_is_gone_is_written_again_and_the_replicas_stay_as_they_are(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The cells of a table that is left out in that run are listed when it is not:
    the list is there by then.
    """
    typed = "  - {match: db.*, columns: {price: {type: double}}}\n"
    gold = GoldPipeline(spark, tmp_path, typed)
    rows = [
        insert("item", 1, image(1, "1.5")),
        insert("item", 2, image(2, "free")),
        insert("right", 4, image(4, "4")),
    ]
    gold.add_batch(*rows, *copied([insert("kept", 3, image(3, "?"))], "kept"))
    gold.apply()
    gold.add_batch(insert("item", 5, image(5, "dear")))
    gold.apply()
    before = listed(gold)
    assert [text for _, _, text, _ in before] == ["dear", "free", "?"]
    assert lacks(gold) == []
    shutil.rmtree(tmp_path / "lakehouse" / "ops" / "bad_values")
    assert lacks(gold) == ["bad_values"]

    gold.configure(typed + "  - {match: db.kept, exclude: true}\n")
    applied = gold.apply()
    assert {name: found.notes for name, found in applied.items()} == {
        "item": ("ops/bad_values was gone: 2 bad values are listed again",)
    }
    assert {row[0] for row in listed(gold)} == {"item"}
    assert lacks(gold) == []
    gold.configure(typed)
    assert lacks(gold) == ["bad_values"]
    gold.apply()
    assert listed(gold) == before
    assert (gold.state("item").bad_values, gold.state("kept").bad_values) == (2, 1)
    assert gold.apply() == {}
    assert gold.lake.history(spark, "gold/db/item").where("operation <> 'MERGE'").count() == 1


@pytest.mark.slow
@pytest.mark.parametrize("has_cache", [False, True], ids=["in Spark", "few in this process"])
def test_keys_that_differ_beyond_microseconds_are_not_one_row(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest, has_cache: bool
) -> None:
    """A key that gold cannot hold is not applied, and is listed; zeros beyond microseconds are no digits."""
    if has_cache:
        request.getfixturevalue("with_cache")
    gold = GoldPipeline(spark, tmp_path)

    def at(digits: str) -> Image:
        return {
            "id": f"2024-02-29T10:00:00.{digits}Z",
            "at": f"2024-02-29T10:00:00.{digits}Z",
            "note": digits,
        }

    types = {"id": "timestamp", "at": "timestamp"}
    gold.add_batch(*(insert("item", n, at(d), types=types) for n, d in enumerate(["1234567", "1234568"])))
    gold.add_batch(
        insert("item", 2, at("123456"), types=types), insert("item", 3, at("65432100"), types=types)
    )
    for _ in range(2):
        gold.apply()
        assert [row["note"] for row in gold.rows("item")] == ["123456", "65432100"]
        gold.add_batch(update("item", 9, at("1234567"), {**at("1234567"), "note": "new"}, types=types))
    gold.apply()
    assert [row["note"] for row in gold.rows("item")] == ["123456", "65432100"]
    found = gold.lake.read(spark, BAD_VALUES_TABLE).where("column = 'id'").collect()
    assert sorted((row["change_id"], row["reason"]) for row in found) == [
        ("item-0-insert", "bad_key"),
        ("item-1-insert", "bad_key"),
        ("item-9-update", "bad_key"),
    ]
    before = gold.rows("item")
    gold.rebuild("item")
    assert gold.rows("item") == before


def lacks(gold: GoldPipeline) -> list[str]:
    """The checks of gold that do not hold."""
    return [
        check.name for check in verify(Run(gold.spark, gold.lake, gold.config, "status")) if not check.is_ok
    ]


@pytest.mark.slow
def test_cells_are_listed_again_with_the_new_name_of_their_table(spark: SparkSession, tmp_path: Path) -> None:
    """The replica with the old name stays, and so do its rows of the list."""
    gold = GoldPipeline(spark, tmp_path)
    gold.add_batch(insert("old", 1, row(1, n="abc")), insert("old", 2, row(2, n="2")))
    gold.apply()
    gold.add_batch(ddl("old", 3, RenameTable(TableName("db", None, "new"))))
    gold.apply()
    both = [("new", "n", "abc", "bad_value"), ("old", "n", "abc", "bad_value")]
    assert listed(gold) == both
    gold.rebuild("new")
    assert listed(gold) == both

    gold.add_batch(insert("new", 4, row(3, n="de")))
    gold.apply()
    gold.configure("  - {match: db.new, columns: {n: {type: string}}}\n")
    gold.apply()
    assert listed(gold) == both[1:]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kinds", "texts", "column"),
    [
        (("decimal(4,1)", "decimal(8,3)"), ("1234.5", "2"), "decimal(8,3)"),
        (("decimal(4,1)", Token.NUMBER), ("12345678901234567890123.5", "2"), "decimal(24,1)"),
        ((Token.NUMBER, "decimal(4,1)"), ("2", "12345678901234567890123.5"), "decimal(24,1)"),
        (("int", "decimal(12,2)"), ("99999999999", "0.5"), "decimal(22,2)"),
    ],
)
def test_a_value_that_fits_a_wider_type_is_in_its_cell(
    spark: SparkSession, tmp_path: Path, kinds: Sequence[str], texts: Sequence[str], column: str
) -> None:
    gold = GoldPipeline(spark, tmp_path)
    for at, (kind, text) in enumerate(zip(kinds, texts, strict=True), 1):
        gold.add_batch(insert("item", at, image(at, text), types={"price": kind}))
        gold.apply()
    kept = [str(one["price"]) for one in gold.rows("item")]
    assert [float(text) for text in kept] == [float(text) for text in texts]
    types = {one.name: one.type for one in gold.state("item").columns}
    assert (types["price"], gold.state("item").bad_values, listed(gold)) == (column, 0, [])
    gold.rebuild("item")
    assert [str(one["price"]) for one in gold.rows("item")] == kept


@pytest.mark.slow
def test_changes_without_their_key_are_listed_where_every_column_is_text(
    spark: SparkSession, tmp_path: Path
) -> None:
    """They have no effect, and the list is where that is said: in a rebuild, and behind it."""

    def change(at: int, after: Image, before: Image | None = None) -> ChangeSpec:
        spec = update("item", at, before, after) if before else insert("item", at, after)
        return replace(spec, keys=None)

    gold = GoldPipeline(spark, tmp_path)
    gold.add_batch(
        change(1, {"code": "a", "name": "x"}),
        change(2, {"name": "y"}),
        change(3, {"name": "z"}, before={"code": "a", "name": "x"}),
    )
    gold.apply()
    gold.configure("  - {match: db.item, keys: [code]}\n")
    gold.rebuild("item")
    assert change_ids(gold) == ["item-2-insert", "item-3-update"]
    assert gold.state("item").bad_values == 2

    gold.add_batch(change(4, {"name": "v"}), change(5, {"code": "b", "name": "w"}))
    gold.apply()
    assert change_ids(gold) == ["item-2-insert", "item-3-update", "item-4-insert"]
    assert gold.state("item").bad_values == 3


def change_ids(gold: GoldPipeline) -> list[str]:
    """The changes that are listed because their key does not fit."""
    found = gold.lake.read(gold.spark, BAD_VALUES_TABLE).where("reason = 'bad_key'")
    return sorted(row["change_id"] for row in found.collect())


@pytest.mark.slow
@pytest.mark.parametrize("has_cache", [False, True], ids=["in Spark", "few in this process"])
def test_a_key_change_to_a_key_that_does_not_fit_leaves_the_row_where_it_is(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest, has_cache: bool
) -> None:
    """It is not applied: neither half of it. Nor are later changes of the new key."""
    if has_cache:
        request.getfixturevalue("with_cache")
    gold = GoldPipeline(spark, tmp_path, "  - {match: db.item, history: true, columns: {id: {type: int}}}\n")
    gold.add_batch(insert("item", 1, image(11, "1")), insert("item", 2, image(12, "2")))
    gold.apply()
    bad = {"id": "A12", "price": "1"}
    gold.add_batch(update("item", 3, image(11, "1"), bad), update("item", 4, bad, {**bad, "price": "3"}))
    gold.apply()
    gold.add_batch(update("item", 5, image(12, "2"), image(13, "2")))
    gold.apply()
    for _ in range(2):
        assert [(row["id"], str(row["price"])) for row in gold.rows("item")] == [(11, "1"), (13, "2")]
        assert [row["id"] for row in gold.history("item") if row["_cdc_is_current"]] == [11, 13]
        assert change_ids(gold) == ["item-3-update", "item-4-update"]
        gold.rebuild("item")


@pytest.mark.slow
@pytest.mark.parametrize("has_cache", [False, True], ids=["in Spark", "few in this process"])
def test_a_late_value_that_does_not_fit_parks_a_table_only_where_a_row_would_get_it(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest, has_cache: bool
) -> None:
    if has_cache:
        request.getfixturevalue("with_cache")
    gold = GoldPipeline(spark, tmp_path, "  - {match: db.*, bad_values: park}\n")
    for then in ([delete("deleted", 3, row(1))], [update("updated", 3, row(1), row(1, n="3"))], []):
        table = then[0].table if then else "stale"
        gold.add_batch(insert(table, 1, row(1, n="1")), *then, insert(table, 4, row(2, n="2")))
    gold.apply()
    late = update("t", 2, row(1), row(1, n="abc"))
    gold.add_batch(*(event for table in ("deleted", "updated", "stale") for event in copied([late], table)))
    gold.apply()
    states = {table: gold.state(table).state for table in ("deleted", "updated", "stale")}
    assert states == {"deleted": State.ACTIVE, "updated": State.ACTIVE, "stale": State.PARKED}
    assert gold.rows("deleted") == [{"id": 2, "n": 2}]
    assert gold.rows("updated") == [{"id": 1, "n": 3}, {"id": 2, "n": 2}]
    assert gold.rows("stale") == [{"id": 1, "n": 1}, {"id": 2, "n": 2}]


@pytest.mark.slow
def test_a_whole_table_is_looked_through_once_more_only_where_a_change_may_not_fit(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write itself shows that all fit."""
    looked: list[str] = []
    look = bad_values.list_faults

    def recorded(*given: Any, **named: Any) -> Any:
        looked.append("")
        return look(*given, **named)

    monkeypatch.setattr(bad_values, "list_faults", recorded)
    gold = GoldPipeline(spark, tmp_path, '  - {match: db.*, columns: {price: {type: "decimal(12,2)"}}}\n')
    gold.add_batch(insert("item", 1, image(1, "1.50")), update("item", 2, image(1, "1.50"), image(1, "2")))
    gold.apply()
    gold.rebuild("item")
    assert (listed(gold), gold.state("item").bad_values) == ([], 0)
    assert (looked == []) is not is_connect(spark)
    gold.add_batch(insert("item", 3, image(3, "free")), update("item", 4, image(3, "free"), image(3, "3")))
    looked.clear()
    gold.rebuild("item")
    assert [row["price"] for row in gold.rows("item")] == [2, 3]
    assert (listed(gold), looked) == ([("item", "price", "free", "bad_value")], [""])
    assert gold.state("item").bad_values == 1
