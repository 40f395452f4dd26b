"""What became of each change of a row: applied, superseded or late; and where a table is renamed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from framework.cli.commands.trace import trace_lines
from framework.config.model import Config
from framework.contracts.ddl_actions import RenameColumn
from framework.errors import ConfigurationError
from framework.lakehouse import newest_tables
from framework.lakehouse.lakehouse import Lakehouse
from framework.pipeline.layer import Run
from framework.spark.no_session import no_session
from gold.operations import trace as module
from gold.operations.trace import (
    _collected_row,
    _duplicates,
    _stored_texts,
    is_of_row,
    outcomes,
    removals,
    trace,
)
from gold.planning.task import Task
from gold.schema.columns import ColumnNaming, TableColumn
from gold.schema.layout import SYSTEM_COLUMNS, Layout
from tests.end_to_end.test_blob_to_replica import Shop, item, message
from tests.end_to_end.test_forget_tables import statement
from tests.gold.planning.test_places import task
from tests.gold.silver_builder import GoldPipeline, ddl, insert, row, truncate

Change = dict[str, Any]


def change(sequence: int, batch: int, name: str | None = None) -> Change:
    return {"sequence": f"{sequence:06d}", "batch": batch, "change_id": name or f"c{sequence}"}


def test_a_change_is_late_where_an_earlier_batch_had_a_newer_one() -> None:
    changes = [change(4, 2), change(3, 3), change(2, 1), change(1, 1)]
    assert outcomes(changes, "c4") == ["applied", "late", "superseded", "superseded"]


def test_without_a_row_the_newest_changes_are_the_applied_ones() -> None:
    assert outcomes([change(2, 2, "a"), change(2, 1, "b"), change(1, 1)], None) == [
        "applied",
        "applied",
        "superseded",
    ]
    assert outcomes([], None) == []


def test_what_the_table_has_not_applied_waits_and_supersedes_nothing() -> None:
    changes = [change(3, 9), change(2, 4), change(1, 4)]
    assert outcomes(changes, "c2", 4) == ["waiting", "applied", "superseded"]
    assert outcomes(changes, None, -1) == ["waiting"] * 3


def test_each_change_of_a_table_without_a_key_is_a_row() -> None:
    changes = [change(3, 2), change(2, 1), change(1, 2)]
    assert outcomes(changes, "c2", 2, is_keyed=False) == ["applied"] * 3
    assert outcomes(changes, "c2", 1, is_keyed=False) == ["waiting", "applied", "waiting"]


def test_a_truncate_that_removed_the_row_is_what_was_applied() -> None:
    truncate = {**change(2, 1, "t"), "op": "truncate"}
    assert outcomes([truncate, change(1, 1)], None) == ["applied", "superseded"]
    assert outcomes([truncate, change(1, 2)], None) == ["applied", "late"]
    assert outcomes([truncate, change(1, 1)], "c1") == ["applied", "applied"]  # a soft delete
    assert outcomes([change(3, 1), truncate, change(1, 1)], "c3") == ["applied", "superseded", "superseded"]
    assert outcomes([{**truncate, "batch": 5}, change(1, 1)], "c1", 1) == ["waiting", "applied"]


def test_a_truncate_is_of_the_row_that_was_there() -> None:
    def image(sequence: str, before: int | None, after: int | None) -> Change:
        images = ({"id": str(id)} if id is not None else None for id in (before, after))
        return {"sequence": sequence, **dict(zip(("before", "after"), images, strict=True))}

    changes = [image("8", None, 1), image("6", 1, None), image("4", None, 1), image("2", None, 1)]
    truncates = [(at, f"t{at}") for at in "13579"]
    own = {"id": ("int", 1)}
    assert removals(truncates, changes, own) == ["t3", "t5", "t9"]
    assert removals(truncates, [image("2", 1, 2)], own) == []
    assert removals([("2", "t")], [image("2", None, 1)], own) == []


def test_a_change_is_of_the_row_whose_key_its_images_have_together() -> None:
    """An AFTER image may have only what changed."""
    change = {"before": {"a": "1", "b": "5"}, "after": {"a": "2", "more": "x"}}
    keys = [{"a": ("int", a), "b": ("int", b)} for a, b in ((1, 5), (2, 5), (2, 6))]
    assert [is_of_row(change, key) for key in keys] == [True, True, False]
    assert [is_of_row({**change, "after": None}, key) for key in keys] == [True, False, False]
    assert [is_of_row({**change, "before": None}, key) for key in keys] == [False] * 3


class _Repeats:
    """A reader whose rows come as a file system, or Spark, may order them."""

    def rows(self, *_: object, ids: list[str]) -> list[Change]:
        place = {"sequence": "011.011.015", "change_id": ids[0], "event_time": None, "topic": "t"}
        found = [
            {**place, "batch": batch, "partition": 0, "offset": offset}
            for batch, offset in ((1, 5), (3, 2), (2, 9), (3, 4))
        ]
        return [*found, {**found[0], "sequence": None, "batch": 9}]


def test_repeats_of_a_change_come_in_the_order_of_their_landing_the_newest_first() -> None:
    tables: Any = _Repeats()
    found = _duplicates(tables, ["c1"])
    assert [(row["batch"], row["offset"]) for row in found] == [(3, 4), (3, 2), (2, 9), (1, 5), (9, 5)]


class Counted(str):
    """A text that counts how often it is compared."""

    comparisons = 0

    def __eq__(self, other: object) -> bool:
        Counted.comparisons += 1
        return str.__eq__(self, other)

    def __gt__(self, other: str) -> bool:
        Counted.comparisons += 1
        return str.__gt__(self, other)

    __hash__ = str.__hash__


def comparisons(count: int) -> int:
    changes = [{**change(n, n), "sequence": Counted(f"{n:06d}")} for n in reversed(range(count))]
    Counted.comparisons = 0
    assert outcomes(changes, f"c{count - 1}") == ["applied", *["superseded"] * (count - 1)]
    return Counted.comparisons


def test_thousands_of_changes_of_one_row_are_not_compared_with_each_other() -> None:
    assert comparisons(10_000) < 11 * comparisons(1_000)


def test_outcomes_are_those_of_the_plain_definition() -> None:
    draw = Random(3)
    for _ in range(300):
        changes = [change(draw.randint(1, 5), draw.randint(1, 4), f"c{n}") for n in range(draw.randint(1, 8))]
        changes.sort(key=lambda c: c["sequence"], reverse=True)
        applied = draw.choice([None, draw.choice(changes)["change_id"]])
        assert outcomes(changes, applied) == [plain(each, changes, applied) for each in changes]


def plain(each: Change, changes: list[Change], applied: str | None) -> str:
    newer = [other for other in changes if other["sequence"] > each["sequence"]]
    if each["change_id"] == applied or (applied is None and not newer):
        return "applied"
    return "late" if any(other["batch"] < each["batch"] for other in newer) else "superseded"


def test_a_row_is_found_by_a_dropped_column_that_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, str]] = []

    def look_up(location: str, texts: dict[str, str]) -> Change:
        asked.append(texts)
        return {"id": 1}

    monkeypatch.setattr("framework.lakehouse.local_rows.local_row", look_up)
    monkeypatch.setattr("gold.operations.trace.is_read_locally", lambda _: True)
    columns = tuple(TableColumn(name, "string", None) for name in ("id", "_cdc_dropped_1_note", "_cdc_own"))
    own = task("a", "item")
    own = replace(own, state=replace(own.state, columns=columns))
    layout = Layout(columns, ("id",), dict(SYSTEM_COLUMNS))
    plan: Any = SimpleNamespace(layout=layout, task=own, namings=(ColumnNaming(),))
    run: Any = SimpleNamespace(lake=None)
    texts = _stored_texts(plan, {"_cdc_dropped_1_note": "gift", "_cdc_own": "x"})
    assert texts is not None
    found = _collected_row(run, "gold/shop/item", texts, dict.fromkeys(texts, "string"))
    assert (found, asked) == ({"id": 1}, [{"_cdc_dropped_1_note": "gift", "__cdc_own": "x"}])


def test_a_name_of_two_sources_is_refused_with_names_that_tell_them_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def advice(*tasks: Task) -> str:
        monkeypatch.setattr(module, "all_tasks", lambda _: tasks)
        run = Run(cast("SparkSession", None), Lakehouse(""), cast("Config", None), "trace")
        with pytest.raises(ConfigurationError, match="TABLE_AMBIGUOUS") as refused:
            module._named_task(run, "shop.item")
        return refused.value.action

    named = task("a", "item", replica="a.item"), task("b", "item", replica="b.item")
    assert advice(*named) == "use its name in gold: a.item, b.item"
    same = advice(task("a", "item"), task("b", "item"))
    assert "`- {match: shop.item, source: b, replica: database.name}`" in same


def traced(
    pipeline: GoldPipeline, monkeypatch: pytest.MonkeyPatch, table: str, key: dict[str, str]
) -> tuple[Any, list[str]]:
    """The row with these values and what became of its changes, in this process as in Spark."""
    run = Run(no_session(), pipeline.lake, pipeline.config, "trace")
    found = trace(run, table, key)
    with monkeypatch.context() as patch:
        patch.setattr(module, "few_rows", lambda *_: None)
        for reader in (module, newest_tables):
            patch.setattr(reader, "is_read_locally", lambda _: False)
        assert trace(replace(run, spark=pipeline.spark), table, key) == found
    return found["row"], [f"{change['op']} {change['fate']}" for change in found["changes"]]


@pytest.mark.slow
@pytest.mark.usefixtures("with_cache")
def test_what_a_table_has_not_applied_waits_under_the_names_of_today(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A policy refuses the new column of one table, and the key of the other one has a new name."""
    pipeline = GoldPipeline(spark, tmp_path / "p", "  - {match: db.added, schema_policy: fail}\n")
    monkeypatch.setattr(module, "_messages", lambda *_: {})  # there is no bronze
    pipeline.add_batch(*(insert(table, 1, row(1, a="x")) for table in ("added", "renamed")))
    pipeline.apply()
    pipeline.add_batch(
        insert("added", 2, row(2, a="y", b="x")),
        ddl("renamed", 2, RenameColumn("id", "uid")),
        insert("renamed", 3, {"uid": "2", "a": "y"}, keys=("uid",)),
    )

    def told(table: str, **key: str) -> tuple[Any, list[str]]:
        found, fates = traced(pipeline, monkeypatch, table, key)
        return found and found["id"], fates

    assert told("db.added", id="1") == (1, ["insert applied"])
    assert told("db.added", b="x") == told("db.added", id="2") == (None, ["insert waiting"])
    assert told("db.renamed", uid="1") == told("db.renamed", id="1") == (1, ["insert applied"])
    assert told("db.renamed", uid="2") == (None, ["insert waiting"])


@pytest.mark.slow
@pytest.mark.usefixtures("with_cache")
def test_each_change_has_its_fate_and_the_row_is_json(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process as in Spark: a row that a truncate removed, one that waits, and rows without a key."""
    odd = {"x": "NaN", "b": "AP8=", "d": "0.0000000000", "t": "2024-02-29T10:00:00Z"}
    types = {"id": "bigint", "x": "double", "b": "binary", "d": "decimal(20,10)", "t": "timestamp"}
    pipeline = GoldPipeline(spark, tmp_path / "p")
    monkeypatch.setattr(module, "_messages", lambda *_: {})  # there is no bronze
    pipeline.add_batch(
        insert("item", 1, {"id": "1", **odd}, types=types),
        truncate("item", 2),
        insert("item", 3, {"id": "2", **odd}, types=types),
        *(insert("log", n, {"id": "1"}, keys=None) for n in (4, 5)),
    )
    pipeline.apply()
    pipeline.add_batch(insert("item", 6, {"id": "2"}), insert("log", 7, {"id": "2"}, keys=None))

    def told(table: str, key: str) -> tuple[Any, list[str]]:
        return traced(pipeline, monkeypatch, table, {"id": key})

    assert told("db.item", "1") == (None, ["truncate applied", "insert superseded"])
    row, fates = told("db.item", "2")
    assert {name: row[name] for name in ("id", *odd)} == {"id": 2, **odd}
    assert json.loads(json.dumps(row, allow_nan=False)) == row
    assert fates == ["insert waiting", "insert applied"]
    assert told("db.log", "1")[1] == ["insert applied", "insert applied"]
    assert told("db.log", "2")[1] == ["insert waiting"]


KEYS = {
    "b": "binary",
    "d": "decimal(20,2)",
    "n": "bigint",
    "t": "timestamp",
    "w": "timestamp_ntz",
    "x": "double",
}
OF_SILVER = {
    "b": "Ymx1ZQ==",
    "d": "1.5",
    "n": "01",
    "t": "2024-02-29T10:00:00Z",
    "w": "2024-02-29T10:00:00",
    "x": "1",
}
OF_SPARK = {
    "b": "blue",
    "d": "1.50",
    "n": "1",
    "t": "2024-02-29 10:00:00",
    "w": "2024-02-29 10:00:00",
    "x": "1.0",
}


@pytest.mark.slow
@pytest.mark.usefixtures("with_cache")
def test_a_row_is_found_by_the_texts_of_silver_and_of_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By each column of the key alone and by all of them; the other rows differ in one value each."""
    pipeline = GoldPipeline(spark, tmp_path / "p")
    monkeypatch.setattr(module, "_messages", lambda *_: {})  # there is no bronze
    other = {
        **OF_SILVER,
        "b": "AP8=",
        "d": "2",
        "n": "7",
        "t": "2024-02-29T10:00:01Z",
        "w": "2024-02-29T10:00:01",
        "x": "NaN",
    }
    keys = tuple(KEYS)
    pipeline.add_batch(
        insert("item", 1, {**OF_SILVER, "a": "old"}, keys=keys, types=KEYS),
        insert("item", 2, {**other, "a": "other"}, keys=keys, types=KEYS),
        truncate("item", 3),
        insert(
            "item", 4, {**OF_SILVER, "d": "1.500", "n": "1", "x": "1.00", "a": "new"}, keys=keys, types=KEYS
        ),
    )
    pipeline.apply()
    expected = ["insert applied", "truncate superseded", "insert superseded"]
    for texts in (OF_SILVER, OF_SPARK):
        row, fates = traced(pipeline, monkeypatch, "db.item", texts)
        assert (row and row["a"], fates) == ("new", expected), texts
    for name, text in OF_SPARK.items():
        row, fates = traced(pipeline, monkeypatch, "db.item", {name: text})
        assert (row and row["a"], fates) == ("new", expected), name
    assert traced(pipeline, monkeypatch, "db.item", {**OF_SPARK, "d": "1.51"}) == (None, [])
    sources = {
        name: source.model_copy(update={"timezone": "Asia/Shanghai"})
        for name, source in pipeline.config.sources.items()
    }
    pipeline.config = pipeline.config.model_copy(update={"sources": sources})
    for text in ("2024-02-29 10:00:00", "2024-02-29 18:00:00", "2024-02-29T18:00:00"):
        row, fates = traced(pipeline, monkeypatch, "db.item", {"t": text})
        assert (row and row["a"], fates) == ("new", expected), text


@pytest.mark.slow
def test_a_renamed_table_says_where_its_changes_went(spark: SparkSession, tmp_path: Path) -> None:
    """Its replica stays as the run before the rename left it, here with a row of the table before a DROP."""
    shop = Shop(spark, tmp_path)
    shop.land([message("INSERT", 1, after=item(1, "pen", 1.0))])
    shop.run()
    shop.land(
        [
            statement(2, "DROP TABLE item"),
            statement(3, "CREATE TABLE item (id BIGINT PRIMARY KEY)"),
            message("INSERT", 4, after=item(2, "ink", 2.0)),
            statement(5, "RENAME TABLE item TO goods"),
        ]
    )
    shop.run()
    run = Run(spark, shop.lake, shop.config, "trace")
    old, new = (trace(run, name, {"id": id}) for name, id in (("shop.item", "1"), ("shop.goods", "2")))
    assert (old["row"]["id"], old["changes"], old["renamed_to"]) == (1, [], "shop.goods")
    assert (new["row"]["id"], len(new["changes"]), new["renamed_to"]) == (2, 1, None)
    texts = ["\n".join(trace_lines(found)) for found in (old, new)]
    assert ["shop.goods" in line for line in texts[0].splitlines()] == [False, False, True, False]
    assert "rename" not in texts[1]
