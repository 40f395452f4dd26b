"""Tables kept up to date batch by batch, late changes and rebuilds included:
one answer, whatever the way to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.contracts.ddl_actions import (
    AddColumn,
    CreateTable,
    DropColumn,
    DropTable,
    NoEffect,
    RenameColumn,
    SetKeys,
)
from framework.pipeline.layer import Run
from gold.layer import LAYER
from gold.planning.table_state import State
from tests.amounts import IS_LARGE
from tests.gold.silver_builder import (
    ChangeSpec,
    GoldPipeline,
    copied,
    ddl,
    delete,
    excluded,
    insert,
    row,
    truncate,
    update,
)

MOVES = [
    insert("t", 1, row(1, a="x", b="kept")),
    update("t", 2, row(1), row(1, b="new"), partial=True),
    update("t", 3, row(1), row(2, a="z"), partial=True),
    update("t", 4, row(2), row(3), partial=True),
    update("t", 5, row(3), row(3, a="last"), partial=True),
    insert("t", 6, row(1, a="another")),
]
CUTS = {"late_value": [[0, 2, 3, 4, 5], [1]], "moved_before": [[0, 1, 2, 3], [4, 5]]}
if IS_LARGE:
    CUTS |= {
        "row_last": [[2, 3, 4, 5], [0, 1]],
        "together": [[0, 1, 2, 3, 4, 5], []],
        "row_first": [[0, 1], [2, 3, 4, 5]],
        "between": [[0, 1, 2], [3, 4, 5]],
        "late_move": [[0, 1, 3, 4, 5], [2]],
    }


@pytest.mark.slow
def test_a_partial_change_of_the_key_takes_the_rest_from_the_old_row(
    spark: SparkSession, tmp_path: Path
) -> None:
    gold = GoldPipeline(
        spark, tmp_path, f"  - {{match: {'db.*' if IS_LARGE else 'db.moved_before'}, history: true}}\n"
    )
    for part in range(2):
        gold.add_batch(
            *(event for name, cuts in CUTS.items() for event in copied([MOVES[i] for i in cuts[part]], name))
        )
        gold.apply()

    versions = [(1, "x", "kept", 1, 2), (1, "x", "new", 2, 3), (1, "another", None, 6, None),
                (2, "z", "new", 3, 4),
                (3, "z", "new", 4, 5), (3, "last", "new", 5, None)]  # fmt: skip
    for _ in range(2):
        for name in CUTS:
            assert gold.rows(name) == [{"id": 1, "a": "another"}, {"id": 3, "a": "last", "b": "new"}], name
            if IS_LARGE or name == "moved_before":
                history = [(r["id"], r.get("a"), r.get("b"), r["from"], r["to"]) for r in gold.history(name)]
                assert history == versions, name
        if not IS_LARGE:
            return
        gold.rebuild("late_value")


@dataclass(frozen=True)
class Case:
    """The changes of a table by batch, and its rows at the end; `then` are those after the first batches."""

    batches: Sequence[Sequence[ChangeSpec]]
    rows: Sequence[dict[str, Any]]
    rule: str = ""
    state: State = State.ACTIVE
    is_rebuilt: bool = IS_LARGE
    then: Sequence[Sequence[dict[str, Any]]] = ()


def gone(number: int, **values: object) -> dict[str, Any]:
    return {"id": number, **values, "_cdc_deleted": True}


def here(number: int, **values: object) -> dict[str, Any]:
    return {"id": number, **values, "_cdc_deleted": False}


NOTE = AddColumn("note", "string", "text")
CASES = {
    "marked": Case(
        [
            [
                insert("t", 1, row(1, a="x")),
                insert("t", 2, row(2, a="p")),
                delete("t", 3, row(2, a="p")),
                insert("t", 4, row(3, a="q")),
            ],
            [
                delete("t", 7, row(1)),
                update("t", 6, row(1), row(1, a="y")),
                update("t", 8, row(3, a="q"), row(4, a="r")),
            ],
            [delete("t", 9, row(5, a="unseen")), update("t", 5, row(3), row(3, a="late"))],
        ],
        [gone(1, a="y"), gone(2, a="p"), gone(3, a="late"), here(4, a="r"), gone(5, a="unseen")],
        "deletes: soft",
        is_rebuilt=True,
    ),
    "marked_by_truncate": Case(
        [
            [insert("t", 1, row(1, a="x")), insert("t", 2, row(2, a="p"))],
            [truncate("t", 5), insert("t", 6, row(3, a="q")), update("t", 3, row(2), row(2, a="r"))],
            [insert("t", 4, row(4, a="late"))],
        ],
        [gone(1, a="x"), gone(2, a="r"), here(3, a="q"), gone(4, a="late")],
        "deletes: soft",
        is_rebuilt=True,
    ),
    "kept": Case(
        [
            [
                insert("t", 1, row(1, a="x")),
                insert("t", 2, row(2, a="p")),
                delete("t", 3, row(2)),
                insert("t", 4, row(4, a="q")),
            ],
            [delete("t", 6, row(1)), truncate("t", 7), update("t", 8, row(4), row(5, a="r"))],
            [update("t", 5, row(1), row(1, a="late"))],
        ],
        [{"id": 1, "a": "late"}, {"id": 2, "a": "p"}, {"id": 5, "a": "r"}],
        "deletes: ignore",
        is_rebuilt=True,
    ),
    "passed_through": Case(
        [
            [insert("t", 1, row(1, a="old"))],
            [truncate("t", 2), insert("t", 3, row(2, a="x"))],
            [
                update("t", 4, row(2, a="x"), row(1, a="x"), moment=4),
                update("t", 5, row(1, a="x"), row(3, a="x"), moment=4),
            ],
        ],
        [gone(1, a="x"), gone(2, a="x"), here(3, a="x")],
        "deletes: soft",
        is_rebuilt=True,
    ),
    "taken_before_it_was_left": Case(
        [
            [insert("t", 1, row(1, a="x")), insert("t", 2, row(2, a="y"))],
            [update("t", 4, row(2, a="y"), row(3, a="y"), moment=3)],
            [update("t", 3, row(1, a="x"), row(2, a="x"), moment=3)],
        ],
        [gone(1, a="x"), here(2, a="x"), here(3, a="y")],
        "deletes: soft",
        is_rebuilt=True,
    ),
    "emptied_late": Case(
        [
            [insert("t", 1, row(1, a="old"))],
            [
                insert("t", 3, row(2, a="x")),
                update("t", 4, row(2, a="x"), row(1, a="x"), moment=4),
                update("t", 5, row(1, a="x"), row(3, a="x"), moment=4),
            ],
            [truncate("t", 2)],
        ],
        [{"id": 3, "a": "x"}],
        is_rebuilt=True,
    ),
    "created_again": Case(
        [
            [insert("t", 1, row(1, a="x"))],
            [
                ddl("t", 5, DropTable()),
                ddl("t", 6, CreateTable((AddColumn("id", "bigint", "bigint"),), ("id",))),
            ],
            [insert("t", 7, row(2, b="y"))],
        ],
        [{"id": 2, "b": "y"}],
        then=[[{"id": 1, "a": "x"}], []],
    ),
    "created_unseen": Case(
        [
            [insert("t", 1, row(1, a="x"))],
            [ddl("t", 5, DropTable()), insert("t", 6, row(2, a="y"))],
            [ddl("t", 8, NoEffect("index"), NOTE), insert("t", 9, row(3, a="z", note="n"))],
        ],
        [{"id": 2, "a": "y"}, {"id": 3, "a": "z", "note": "n"}],
    ),
    "without_key": Case(
        [
            [insert("t", 1, row(1, a="x")), insert("t", 2, row(2, a="y"))],
            [ddl("t", 3, SetKeys(()))],
            [insert("t", 4, row(2, a="y"), keys=None)],
        ],
        [{"id": 1, "a": "x"}, {"id": 2, "a": "y"}, {"id": 2, "a": "y"}],
        state=State.APPEND_ONLY,
    ),
    "other_key": Case(
        [
            [insert("t", 1, row(1, n="1")), update("t", 2, row(1, n="1"), row(1, n="2"))],
            [ddl("t", 3, SetKeys(("ID", "n")))],
            [insert("t", 4, row(1, n="3"), keys=("id", "n"))],
        ],
        [{"id": 1, "n": 2}, {"id": 1, "n": 3}],
    ),
    "swapped_in_two": Case(
        [
            [insert("t", 1, row(1, a="x", b="p")), insert("t", 2, row(2, a="y", b="q"))],
            [update("t", 3, row(1), row(2), partial=True, moment=3)],
            [update("t", 4, row(2, a="y", b="q"), row(1, a="y", b="q"), moment=3)],
        ],
        [{"id": 1, "a": "y", "b": "q"}, {"id": 2, "a": "x", "b": "p"}],
    ),
    "key_with_a_default": Case(
        [
            [*(insert("t", at, row(at, n=str(at))) for at in (1, 2, 3)), delete("t", 4, row(1, n="1"))],
            [update("t", 5, row(2, n="2"), row(4, n="2")), delete("t", 6, row(3, n="3"))],
            [
                ddl("t", 7, AddColumn("k", "string", "text", default="x"), SetKeys(("id", "k"))),
                insert("t", 8, row(4, n="5", k="y"), keys=("id", "k")),
            ],
        ],
        [{"id": 4, "n": 2, "k": "x"}, {"id": 4, "n": 5, "k": "y"}],
    ),
    "default_wider_than_the_rows": Case(
        [
            [insert("t", 1, row(1)), insert("t", 2, row(2))],
            [ddl("t", 3, AddColumn("price", "decimal(10,2)", "decimal(10,2)", default="1.50"))],
            [insert("t", at, row(at, price="2"), types={"price": "number"}) for at in (4, 5)],
        ],
        [
            {"id": 1, "price": Decimal("1.50")},
            {"id": 2, "price": Decimal("1.50")},
            {"id": 4, "price": Decimal("2.00")},
            {"id": 5, "price": Decimal("2.00")},
        ],
    ),
    "told_by_the_old_key": Case(
        [
            [
                *(insert("t", at, row(at, k=k)) for at, k in ((1, "a"), (2, "b"), (3, "c"))),
                delete("t", 4, row(2)),
            ],
            [
                update("t", 6, row(3), row(3, n="9"), partial=True),
                insert("t", 7, row(4, k="e"), keys=("id", "k")),
            ],
            [update("t", 5, None, row(1, k="d"))],
        ],
        [{"id": 1, "k": "d"}, {"id": 3, "k": "c", "n": 9}, {"id": 4, "k": "e"}],
    ),
    "any_case": Case(
        [
            [insert("t", 1, row(1, note="x"))],
            [ddl("t", 2, RenameColumn("NOTE", "Title")), insert("t", 3, row(2, Title="y"))],
        ],
        [{"id": 1, "Title": "x"}, {"id": 2, "Title": "y"}],
    ),
    "own_names": Case(
        [[insert("t", 1, row(1, _cdc_x="x"))], [insert("t", 2, row(2, __cdc_x="y", _Change_Type="z"))]],
        [{"id": 1, "___cdc_x": "x"}, {"id": 2, "__cdc_x": "y", "__Change_Type": "z"}],
    ),
    "name_comes_back": Case(
        [
            [insert("t", 1, row(1, note="old"))],
            [ddl("t", 2, DropColumn("note")), insert("t", 3, row(2))],
            [ddl("t", 4, NOTE), insert("t", 5, row(3, note="new"))],
        ],
        [{"id": 1, "_cdc_dropped_1_note": "old"}, {"id": 2}, {"id": 3, "note": "new"}],
    ),
    "no_place": Case(
        [
            [insert("t", 1, row(1, a="x")), excluded("t", 0)],
            [ddl("t", 2, DropTable(), has_position=False), insert("t", 3, row(2, a="y"))],
        ],
        [{"id": 1, "a": "x"}, {"id": 2, "a": "y"}],
    ),
}


if not IS_LARGE:
    CASES = {
        name: CASES[name]
        for name in (
            "marked",
            "passed_through",
            "taken_before_it_was_left",
            "emptied_late",
            "created_again",
            "default_wider_than_the_rows",
            "told_by_the_old_key",
            "no_place",
        )
    }


@pytest.mark.slow
def test_tables_end_as_they_should_in_batches_and_rebuilt(spark: SparkSession, tmp_path: Path) -> None:
    rules = "".join(f"  - {{match: db.{name}, {case.rule}}}\n" for name, case in CASES.items() if case.rule)
    gold = GoldPipeline(spark, tmp_path, rules)
    notes = {}
    for number in range(3):
        events = [e for name, case in CASES.items() for e in copied((*case.batches, [], [])[number], name)]
        gold.add_batch(*events)
        notes |= {name: applied.notes for name, applied in gold.apply().items()}
        for name, case in CASES.items():
            if number < len(case.then):
                assert gold.rows(name) == case.then[number], (name, number)

    wrong = {}
    for name, case in CASES.items():
        assert gold.state(name).state is case.state, (name, gold.state(name).reason)
        found = gold.rows(name, "_cdc_deleted")
        if found != case.rows:
            wrong[name] = found
        elif case.is_rebuilt:
            gold.rebuild(name)
            if gold.rows(name, "_cdc_deleted") != case.rows:
                wrong[f"{name}, rebuilt"] = gold.rows(name, "_cdc_deleted")
    assert wrong == {}
    assert gold.state("told_by_the_old_key").bad_values == 0
    assert any("no position" in note for note in notes["no_place"])
    assert any(note.startswith("without the 1 message that") for note in notes["no_place"])
    tables = {
        entry["table"]: entry
        for entry in LAYER.status(Run(spark, gold.lake, gold.config, "status"))["tables"]
    }
    assert (tables["no_place"]["statements_not_applied"], tables["no_place"]["missed_while_excluded"]) == (
        1,
        1,
    )
    assert (tables["marked"]["statements_not_applied"], tables["marked"]["missed_while_excluded"]) == (0, 0)


@pytest.mark.slow
def test_settings_that_change_take_effect_at_once(spark: SparkSession, tmp_path: Path) -> None:
    gold = GoldPipeline(spark, tmp_path)
    gold.add_batch(*(event for name in ("renamed", "marked", "strict") for event in copied(
        [insert("t", 1, row(1, n="1")), delete("t", 2, row(1)), insert("t", 3, row(2, n="2")),
            insert("t", 4, row(3, n="abc"))], name
    )))  # fmt: skip
    gold.apply()
    gold.configure(
        "  - {match: db.renamed, replica: db.elsewhere, history: true}\n  - {match: db.marked, deletes: "
        "soft}\n"
    )
    assert set(gold.apply()) == {"renamed", "marked"}
    assert gold.rows("elsewhere") == [{"id": 2, "n": 2}, {"id": 3}]
    assert [r["id"] for r in gold.rows("marked", "_cdc_deleted") if r["_cdc_deleted"]] == [1]
    assert gold.apply() == {}

    gold.configure("  - {match: db.strict, bad_values: park}\n")
    gold.add_batch(
        insert("renamed", 5, row(4, n="4")),
        insert("strict", 5, row(4, n="4")),
        insert("strict", 6, row(5, n="abc")),
    )
    assert gold.apply()["strict"].state.state is State.PARKED
    assert gold.rows("renamed") == [{"id": 2, "n": 2}, {"id": 3}, {"id": 4, "n": 4}]
    reason = gold.state("strict").reason or ""
    assert "'n'" in reason
    assert "strict-6-insert" in reason
    assert "abc" not in reason
    assert gold.apply()["strict"].state.state is State.PARKED
    assert gold.state("strict").revision == 2

    gold.configure("  - {match: db.renamed, history: true}\n")
    gold.add_batch(insert("renamed", 7, row(6, n="6")), update("strict", 8, row(5, n="abc"), row(5, n="5")))
    gold.apply()
    assert [r["id"] for r in gold.rows("strict")] == [2, 3, 4, 5]
    assert [r["id"] for r in gold.history("renamed")] == [1, 2, 3, 4, 6]
