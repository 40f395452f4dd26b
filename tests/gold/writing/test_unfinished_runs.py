"""A run that ends between its merges and their publication: the next one makes the same tables as without."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.contracts.events import Token
from gold import job
from gold.planning.table_state import State
from gold.writing import apply
from tests.gold.silver_builder import (
    ChangeSpec,
    GoldPipeline,
    delete,
    insert,
    row,
    truncate,
    update,
)


def apply_unpublished(gold: GoldPipeline) -> None:
    """A run that dies when its tables are merged and their states are not written."""

    def die(point: str) -> None:
        if point == "gold.before_publish":
            raise InterruptedError(point)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "crash_point", die)
        with pytest.raises(InterruptedError):
            gold.apply()


def number(table: str, at: int, text: str, **more: str) -> ChangeSpec:
    """A row whose column `c` has no declared type."""
    return insert(
        table, at, row(at, c=text, **more), types={"c": Token.NUMBER}, keys=KEYS.get(table, ("id",))
    )


KEYS: dict[str, tuple[str, ...] | None] = {"keyless": None}


@pytest.mark.slow
@pytest.mark.parametrize("has_marks", [True, False])
def test_a_cell_that_did_not_fit_in_an_unfinished_run_has_its_value_in_the_wider_column(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_marks: bool
) -> None:
    if not has_marks:  # as in an object store
        monkeypatch.setattr(apply, "newest_marks", lambda *_: ())
    gold = GoldPipeline(spark, tmp_path)

    def price(at: int, text: str, kind: str) -> list[ChangeSpec]:
        return [
            insert(table, at, row(at, p=text), types={"p": kind}, keys=KEYS.get(table, ("id",)))
            for table in ("keyed", "keyless")
        ]

    gold.add_batch(*price(1, "1.00", "decimal(10,2)"))
    gold.apply()
    gold.add_batch(*price(2, "1.234", "decimal(10,2)"))
    apply_unpublished(gold)
    gold.add_batch(*price(3, "2.5", "decimal(12,4)"))
    done = gold.apply()
    for table in ("keyed", "keyless"):
        assert [one["p"] for one in gold.rows(table)] == [
            Decimal("1.0000"),
            Decimal("1.2340"),
            Decimal("2.5000"),
        ]
        assert "rebuilt: p changes from decimal(10,2) to decimal(12,4)" in done[table].notes[0]
    gold.add_batch(*price(4, "3", "decimal(14,4)"))
    assert not any("rebuilt" in note for one in gold.apply().values() for note in one.notes)


@pytest.mark.slow
def test_a_column_of_an_unfinished_batch_gets_the_type_of_the_newest_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    gold = GoldPipeline(
        spark,
        tmp_path,
        "  - {match: db.wider, history: true}\n"
        "quality:\n  rules:\n    - {match: db.gated, not_null: name, gate: true}\n",
    )
    tables = ("same", "wider", "text", "keyless")
    gold.add_batch(*(insert(t, 1, row(1), keys=KEYS.get(t, ("id",))) for t in tables))
    gold.add_batch(insert("gated", 1, row(1, name="x")))
    gold.apply()
    gold.add_batch(
        *(number(table, 2, "1") for table in tables),
        insert("gated", 2, row(2, name=None, c="1"), types={"c": Token.NUMBER}),
    )
    apply_unpublished(gold)
    for table in tables:
        assert spark.read.format("delta").load(f"{gold.lake.root}/gold/db/{table}").schema["c"]
    assert "c" not in spark.read.format("delta").load(f"{gold.lake.root}/gold/db/gated").columns
    gold.add_batch(
        number("same", 3, "2"),
        number("wider", 3, "2.5"),
        number("text", 3, "x"),
        number("keyless", 3, "2.5"),
        number("gated", 2, "2.5", name="y"),
    )
    done = gold.apply()
    assert {table: done[table].state.reason for table in tables} == dict.fromkeys(tables)
    numbers = [{"id": 1}, {"id": 2, "c": Decimal("1.0")}, {"id": 3, "c": Decimal("2.5")}]
    assert gold.rows("same") == [{"id": 1}, {"id": 2, "c": 1}, {"id": 3, "c": 2}]
    assert gold.rows("wider") == gold.rows("keyless") == numbers
    assert gold.rows("text") == [{"id": 1}, {"id": 2, "c": "1"}, {"id": 3, "c": "x"}]
    assert [version.get("c") for version in gold.history("wider")] == [None, Decimal("1.0"), Decimal("2.5")]
    assert gold.rows("gated")[1] == {"id": 2, "name": "y", "c": Decimal("2.5")}
    assert [bool(done[table].notes) for table in tables] == [False, True, True, True]
    assert done["gated"].state.state is State.ACTIVE


@pytest.mark.slow
def test_an_older_change_than_an_unfinished_batch_has_its_columns(
    spark: SparkSession, tmp_path: Path
) -> None:
    gold = GoldPipeline(
        spark, tmp_path, "  - {match: db.partial, history: true}\n  - {match: db.marked, deletes: soft}\n"
    )
    tables = ("partial", "moved", "emptied", "marked", "repeated")
    gold.add_batch(*(insert(table, 1, row(1, a="a0", b="b0")) for table in tables))
    gold.apply()
    gold.add_batch(
        *(
            update(table, 10, None, row(1, a="a1"), partial=True)
            for table in ("partial", "emptied", "repeated")
        ),
        update("moved", 10, row(1), row(2), partial=True),
        delete("marked", 10, row(1)),
    )
    apply_unpublished(gold)
    gold.add_batch(
        *(update(table, 9, None, row(1, b="b1"), partial=True) for table in ("partial", "moved")),
        truncate("emptied", 9),
        update("marked", 9, None, row(1, a="a1", b="b1")),
    )
    gold.apply()
    assert gold.rows("partial") == [{"id": 1, "a": "a1", "b": "b1"}]
    assert [version.get("b") for version in gold.history("partial")] == ["b0", "b1", "b1"]
    assert gold.rows("moved") == [{"id": 2, "a": "a0", "b": "b1"}]
    assert gold.rows("emptied") == [{"id": 1, "a": "a1"}]
    assert gold.rows("marked", "_cdc_deleted") == [{"id": 1, "a": "a1", "b": "b1", "_cdc_deleted": True}]
    merges = spark.sql(f"DESCRIBE HISTORY delta.`{gold.lake.root}/gold/db/repeated`").where(
        "operation = 'MERGE'"
    )
    updated = [one["numTargetRowsUpdated"] for (one,) in merges.select("operationMetrics").collect()]
    assert updated == ["0", "1"]


@pytest.mark.slow
def test_settings_that_are_put_back_after_an_unfinished_run_make_the_table_that_they_say(
    spark: SparkSession, tmp_path: Path
) -> None:
    settings = "  - {{match: db.hard, deletes: {hard}}}\n  - {{match: db.soft, deletes: {soft}}}\n"
    settings += "  - {{match: db.pair, keys: {keys}}}\n"
    before = settings.format(hard="hard", soft="soft", keys="[id]")
    gold = GoldPipeline(spark, tmp_path, before)
    gold.add_batch(
        *(insert(table, at, row(at)) for table in ("hard", "soft") for at in (1, 2)),
        *(delete(table, 3, row(2)) for table in ("hard", "soft")),
        *(insert("pair", at, row(1, n=str(at)), keys=None) for at in (1, 2)),
    )
    gold.apply()
    gold.configure(settings.format(hard="soft", soft="hard", keys="[id, n]"))
    gold.add_batch(insert("pair", 3, row(2, n="1"), keys=None))
    apply_unpublished(gold)
    assert len(gold.rows("hard")) == 2
    assert len(gold.rows("soft")) == 1
    assert len(gold.rows("pair")) == 3
    gold.configure(before)
    done = gold.apply()
    assert {table: one.notes[0] for table, one in done.items()} == dict.fromkeys(
        ("hard", "soft", "pair"), "rebuilt: other settings"
    )
    assert gold.rows("hard") == [{"id": 1}]
    assert gold.rows("soft", "_cdc_deleted") == [
        {"id": 1, "_cdc_deleted": False},
        {"id": 2, "_cdc_deleted": True},
    ]
    assert gold.rows("pair") == [{"id": 1, "n": 2}, {"id": 2, "n": 1}]
    assert gold.apply() == {}
