"""Changes of columns in whole runs: what a policy refuses or leaves out, and what a rebuild agrees with."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.contracts.ddl_actions import (
    AddColumn,
    ChangeType,
    CreateTable,
    DropTable,
    NoEffect,
    RenameColumn,
    RenameTable,
    SetKeys,
    TableName,
)
from gold.planning import rebuild
from gold.planning.table_state import State
from tests.gold.silver_builder import ChangeSpec, GoldPipeline, ddl, delete, insert, row, truncate, update
from tests.rebuilds import changed_by


@pytest.mark.slow
def test_the_policy_fail_stays_usable_after_a_statement_that_was_allowed(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The first statement is older than the table's first row: the replica is built with it."""
    fail = "  - {match: db.t, schema_policy: fail}\n"
    pipeline = GoldPipeline(spark, tmp_path / "p", fail)
    pipeline.add_batch(ddl("t", 1, AddColumn("b", "int", "int")), insert("t", 2, row(1)))
    assert pipeline.apply()["t"].state.reason is None
    pipeline.add_batch(ddl("t", 3, AddColumn("c", "int", "int")))
    assert "SCHEMA_CHANGE_REFUSED" in (pipeline.apply()["t"].state.reason or "")
    pipeline.configure("")
    pipeline.apply()
    pipeline.configure(fail)
    pipeline.add_batch(insert("t", 4, row(2, c="1"), types={"c": "int"}))
    assert pipeline.apply()["t"].state.reason is None
    assert pipeline.rows("t") == [{"id": 1}, {"id": 2, "c": 1}]


@pytest.mark.slow
def test_the_policy_ignore_does_not_freeze_a_table_that_is_created_again_to_its_former_columns(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = GoldPipeline(spark, tmp_path / "p", "  - {match: 'db.*', schema_policy: ignore}\n")
    again = (DropTable(), CreateTable())
    pipeline.add_batch(insert("t", 1, row(1, a="x")), insert("empty", 1, row(1, a="x")))
    pipeline.apply()
    pipeline.add_batch(ddl("t", 2, *again), insert("t", 4, row(1, b="y")), ddl("empty", 2, *again))
    pipeline.apply()
    pipeline.add_batch(insert("t", 5, row(2, c="z")), insert("empty", 4, row(1, b="y")))
    pipeline.apply()
    assert pipeline.rows("t") == [{"id": 1, "b": "y"}, {"id": 2}]
    assert pipeline.rows("empty") == [{"id": 1, "b": "y"}]


@pytest.mark.slow
def test_a_float_that_becomes_a_double_has_the_value_of_the_source(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = GoldPipeline(spark, tmp_path / "p")
    pipeline.add_batch(insert("t", 1, row(1, d="0.1"), types={"d": "float"}))
    pipeline.apply()
    pipeline.add_batch(insert("t", 2, row(2, d="0.5"), types={"d": "double"}))
    pipeline.apply()
    assert pipeline.rows("t") == [{"id": 1, "d": 0.1}, {"id": 2, "d": 0.5}]


@pytest.mark.slow
def test_a_column_whose_name_another_one_takes_is_taken_as_dropped(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The statement that dropped it is lost, or was not understood."""
    pipeline = GoldPipeline(spark, tmp_path / "p")
    rename = ddl("t", 3, RenameColumn("a", "b"))
    pipeline.add_batch(
        insert("t", 1, row(1, a="x", b="y")),
        rename,
        insert("t", 4, row(2, b="z")),
        insert("loaded", 1, row(1, a="x")),
        replace(rename, table="loaded"),
        insert("loaded", 0, row(2, b="y")),
    )
    pipeline.apply()
    assert pipeline.rows("t") == [{"id": 1, "b": "x", "_cdc_dropped_1_b": "y"}, {"id": 2, "b": "z"}]
    # a full load without positions has the new name in rows that count as older than the rename
    assert pipeline.rows("loaded") == [{"id": 1, "b": "x"}, {"id": 2, "b": "y"}]


@pytest.mark.slow
def test_rows_with_a_name_from_before_the_rename_that_gave_it_are_told(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = GoldPipeline(spark, tmp_path / "p")
    rename = ddl("t", 3, RenameTable(TableName("db", None, "u")))
    pipeline.add_batch(insert("t", 1, row(1)), rename, insert("u", 0, row(2)), insert("u", 4, row(3)))
    (note,) = pipeline.apply()["u"].notes
    assert "rows of db.u from before a rename" in note
    assert pipeline.rows("u") == [{"id": 1}, {"id": 3}]
    pipeline.add_batch(insert("u", 5, row(4)))
    assert pipeline.apply()["u"].notes == ()


@pytest.mark.slow
def test_columns_that_come_without_a_statement_have_the_order_of_the_source(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A rebuild gives the newest order of a feed that declares its columns; a merge gives the same."""
    pipeline = GoldPipeline(spark, tmp_path / "p", "  - {match: db.t, history: true}\n")
    types = {"a": "int", "b": "int", "c": "int"}
    pipeline.add_batch(insert("t", 1, row(1, a="1", b="2"), types=types))
    pipeline.apply()
    pipeline.add_batch(insert("t", 2, row(2, b="2", c="3", a="1"), types=types))
    pipeline.apply()
    expected = [{"id": 1, "a": 1, "b": 2}, {"id": 2, "b": 2, "c": 3, "a": 1}]
    assert pipeline.rows("t") == expected
    for place in ("t", "t__history"):
        columns = spark.read.format("delta").load(pipeline.lake.location(f"gold/db/{place}")).columns
        assert columns[:4] == ["id", "b", "c", "a"]


@pytest.mark.slow
def test_a_very_large_table_waits_for_late_statements_alone(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Statements that came in time, about keys or names too, are applied to a table of any size."""
    monkeypatch.setattr(rebuild, "MOST_CHANGES", 0)
    pipeline = GoldPipeline(spark, tmp_path / "p")
    names = ("other_key", "again", "swapped", "first", "late_column", "late_key")
    pipeline.add_batch(*(insert(name, 9, row(1, n="1")) for name in names))
    pipeline.apply()
    copy, old, swapped = (TableName("db", None, name) for name in ("_swapped_new", "_swapped_old", "swapped"))
    pipeline.add_batch(
        ddl("other_key", 8, NoEffect("index")),
        ddl("other_key", 11, SetKeys(("n",))),
        ddl("again", 11, DropTable()),
        ddl("again", 12, CreateTable()),
        insert("again", 13, row(2)),
        ddl(copy.table, 11, CreateTable()),
        ddl(copy.table, 12, AddColumn("m", "int", "int", default="5")),
        ddl("swapped", 13, RenameTable(old)),
        ddl(copy.table, 14, RenameTable(swapped)),
        ddl("first", 11, CreateTable((AddColumn("id", "bigint", "bigint"),), ("id",))),
        ddl("late_column", 8, AddColumn("m", "int", "int", default="5")),
        ddl("late_key", 8, SetKeys(("n",))),
    )
    applied = pipeline.apply()
    waiting = {name for name in names if "REBUILD_WAITS" in (applied[name].state.reason or "")}
    assert waiting == {"late_column", "late_key"}
    assert applied["other_key"].state.keys == ("n",)
    assert (pipeline.rows("again"), pipeline.rows("swapped")) == ([{"id": 2}], [{"id": 1, "n": 1, "m": 5}])


@pytest.mark.slow
def test_a_column_that_only_changed_its_letters_is_left_out_under_the_policy_ignore(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Without a statement both spellings are columns, which no rename in the source mends."""
    pipeline = GoldPipeline(spark, tmp_path / "p")
    pipeline.add_batch(insert("t", 1, row(1, name="pen")))
    pipeline.apply()
    pipeline.add_batch(insert("t", 2, row(2, Name="ink")))
    assert "COLUMNS_DIFFER_BY_CASE" in (pipeline.apply()["t"].state.reason or "")
    pipeline.configure("  - {match: db.t, schema_policy: ignore}\n")
    applied = pipeline.apply()["t"]
    assert (applied.state.reason, pipeline.rows("t")) == (None, [{"id": 1, "name": "pen"}, {"id": 2}])


@pytest.mark.slow
def test_existing_rows_have_the_default_of_an_added_boolean(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = GoldPipeline(spark, tmp_path / "p", "  - {match: db.t, history: true}\n")
    pipeline.add_batch(insert("t", 1, row(1)))
    pipeline.apply()
    flag = AddColumn("flag", "tinyint", "bit(1)", default="1")
    after = row(2, flag="false")
    pipeline.add_batch(ddl("t", 2, flag), insert("t", 3, after, types={"flag": "boolean"}))
    applied = pipeline.apply()["t"]
    assert pipeline.rows("t") == [{"id": 1, "flag": True}, {"id": 2, "flag": False}]
    assert [version["flag"] for version in pipeline.history("t")] == [True, False]
    assert applied.state.bad_values == 0


@pytest.mark.slow
def test_a_truncate_beside_a_statement_that_keeps_the_rows_has_its_effect(
    spark: SparkSession, tmp_path: Path
) -> None:
    """It closes the versions of a history, and comes late before changes whose meaning rows before decide."""
    histories = "".join(
        f"  - {{match: db.{name}, history: true}}\n" for name in ("before", "behind", "typed")
    )
    gold = GoldPipeline(spark, tmp_path / "p", histories)
    add, widen = AddColumn("n", "int", "int"), ChangeType("id", "bigint", "bigint")
    gold.add_batch(
        *(insert(name, at, row(at)) for name in ("before", "behind", "typed") for at in (1, 2)),
        insert("moved", 2, row(2, a="two")), insert("moved", 4, row(1, a="one")),
        update("moved", 5, row(1), row(2), partial=True, moment=5),
        update("moved", 6, row(2), row(3), partial=True, moment=5),
    )  # fmt: skip
    gold.apply()
    gold.add_batch(
        ddl("before", 3, add), truncate("before", 4),
        truncate("behind", 3), ddl("behind", 4, add),
        ddl("typed", 3, widen), truncate("typed", 4), insert("typed", 5, row(2)),
        truncate("moved", 3), ddl("moved", 7, add),
    )  # fmt: skip
    gold.apply()
    assert [(one["from"], one["to"]) for one in gold.history("before")] == [(1, 4), (2, 4)]
    assert [(one["from"], one["to"]) for one in gold.history("behind")] == [(1, 3), (2, 3)]
    assert [(one["from"], one.get("to")) for one in gold.history("typed")] == [(1, 4), (2, 4), (5, None)]
    assert gold.rows("moved") == [{"id": 3, "a": "one"}]
    for name in ("before", "behind", "typed", "moved"):
        own = (name, f"{name}__history")[: 1 if name == "moved" else 2]
        places = [f"{gold.lake.root}/gold/db/{folder}" for folder in own]
        assert changed_by(partial(gold.rebuild, name), spark, places) == []


@pytest.mark.slow
def test_a_table_that_is_dropped_after_its_rows_is_not_read_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    gold = GoldPipeline(spark, tmp_path / "p", "  - {match: db.t, history: true}\n")
    gold.add_batch(insert("t", 1, row(1, a="x")), insert("t", 2, row(2, a="y")))
    gold.apply()
    earlier = {file: file.read_bytes() for file in Path(gold.lake.root).glob("silver/changes/*.parquet")}
    for file in earlier:
        file.unlink()
    gold.add_batch(
        update("t", 3, None, row(2, a="z")),
        ddl("t", 4, AddColumn("n", "int", "int")),
        ddl("t", 5, DropTable()),
    )
    state = gold.apply()["t"].state
    assert (state.state, state.reason, state.batch) == (State.DROPPED, None, 1)
    assert gold.rows("t") == [{"id": 1, "a": "x"}, {"id": 2, "a": "z"}]
    assert [(one["from"], one.get("to")) for one in gold.history("t")] == [(1, None), (2, 3), (3, None)]

    for file, content in earlier.items():
        file.write_bytes(content)
    places = [f"{gold.lake.root}/gold/db/{name}" for name in ("t", "t__history")]
    assert changed_by(partial(gold.rebuild, "t"), spark, places) == []
    gold.add_batch(insert("t", 6, row(3, a="new")))
    assert gold.apply()["t"].state.state is State.ACTIVE
    assert gold.rows("t") == [{"id": 3, "a": "new"}]


def retyped(table: str, was: tuple[str, str], now: tuple[str, str]) -> list[list[ChangeSpec]]:
    """Three rows with a key of one type (and text), then an update and a delete with one of another."""
    keys = ("id", "k")
    before, after = ({"types": {"k": kind}, "keys": keys} for kind, _ in (was, now))
    return [
        [insert(table, at, row(at, k=was[1], v="one"), **before) for at in (1, 2, 3)],
        [
            update(table, 5, None, row(1, k=now[1], v="two"), **after),
            delete(table, 6, row(2, k=now[1], v="one"), **after),
        ],
    ]


@pytest.mark.slow
def test_a_key_of_dates_that_become_wall_times_is_that_of_the_same_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    gold = GoldPipeline(spark, tmp_path / "p", "  - {match: db.*, history: true}\n")
    for batch in retyped("t", ("date", "2024-03-01"), ("timestamp_ntz", "2024-03-01T00:00:00")):
        gold.add_batch(*batch)
        state = gold.apply()["t"].state
    midnight = datetime(2024, 3, 1)
    expected = [{"id": 1, "k": midnight, "v": "two"}, {"id": 3, "k": midnight, "v": "one"}]
    assert (gold.rows("t"), state.reason, state.bad_values) == (expected, None, 0)
    assert [(one["from"], one.get("to")) for one in gold.history("t")] == [
        (1, 5),
        (5, None),
        (2, 6),
        (3, None),
    ]
    place = f"{gold.lake.root}/gold/db/t"
    assert changed_by(partial(gold.rebuild, "t"), spark, [place]) == []


@pytest.mark.slow
def test_a_key_whose_types_write_one_value_in_two_ways_parks_its_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    gold = GoldPipeline(spark, tmp_path / "p")
    wall, instant = "2024-03-01T10:00:00", "2024-03-01T10:00:00Z"
    tables = [
        retyped("zoned", ("timestamp_ntz", wall), ("timestamp", instant)),
        retyped("texts", ("int", "7"), ("string", "7")),
    ]
    for batches in zip(*tables, strict=True):
        gold.add_batch(*(event for batch in batches for event in batch))
        applied = gold.apply()
    reasons = {name: one.state.reason or "" for name, one in applied.items()}
    assert "KEY_TYPES_DIFFER" in reasons["zoned"]
    assert "column 'k' of the key has values of types timestamp and timestamp_ntz" in reasons["zoned"]
    assert "type: …" in reasons["zoned"]
    assert [one["id"] for one in gold.rows("zoned")] == [1, 2, 3]
    assert reasons["texts"] == ""
    assert gold.rows("texts") == [{"id": 1, "k": "7", "v": "two"}, {"id": 3, "k": "7", "v": "one"}]

    gold.configure("  - {match: db.zoned, columns: {k: {type: timestamp}}}\n")
    applied = gold.apply()
    assert (applied["zoned"].state.reason, applied["zoned"].state.bad_values) == (None, 3)
    assert [(one["id"], one["v"]) for one in gold.rows("zoned")] == [(1, "two")]
