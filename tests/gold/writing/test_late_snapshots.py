"""Rows of snapshots without a position: what they make of a history, in any order and any batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.gold.silver_builder import (
    ChangeSpec,
    GoldPipeline,
    delete,
    insert,
    row,
    snapshot,
    truncate,
    update,
)
from tests.rebuilds import changed_by

Versions = list[tuple[str | None, int, int | None]]
FIRST = insert("t", 11, row(1, st="new"), moment=100)
PAID = update("t", 12, None, row(1, st="paid"), moment=200)
CASES: dict[str, tuple[list[ChangeSpec], str, Versions]] = {
    "read later": (
        [FIRST, PAID, snapshot("t", 13, row(1, st="paid"), moment=1000)],
        "history: true",
        [("new", 100, 200), ("paid", 200, None)],
    ),
    "read twice later": (
        [FIRST, PAID]
        + [snapshot("t", at, row(1, st="paid"), moment=moment) for at, moment in ((13, 1000), (14, 90))],
        "history: true",
        [("paid", 90, 100), ("new", 100, 200), ("paid", 200, None)],
    ),
    "read before": (
        [FIRST, PAID, snapshot("t", 13, row(1, st="old"), moment=60)],
        "history: true",
        [("old", 60, 100), ("new", 100, 200), ("paid", 200, None)],
    ),
    "the base of an update": (
        [
            update("t", 11, None, row(1, st="paid"), partial=True, moment=100),
            snapshot("t", 12, row(1, st="paid", note="n"), moment=1000),
        ],
        "history: true",
        [("paid n", 100, None)],
    ),
    "deleted": (
        [FIRST, delete("t", 12, row(1), moment=200), snapshot("t", 13, row(1, st="x"), moment=1000)],
        "history: true, deletes: soft",
        [("new", 100, 200)],
    ),
    "a delete that is ignored": (
        [delete("t", 12, row(1), moment=200), snapshot("t", 13, row(1, st="x"), moment=1000)],
        "history: true, deletes: ignore",
        [("x", 1000, None)],
    ),
    "untracked changes": (
        [
            update("t", 11, None, row(1, st="a", note="n"), moment=100),
            update("t", 12, None, row(1, st="b", note="n"), moment=2000),
            snapshot("t", 13, row(1, st="a", note="m"), moment=1000),
        ],
        "history: {track: [st]}",
        [("a n", 100, 2000), ("b n", 2000, None)],
    ),
    "a snapshot with a position": (
        [ChangeSpec("t", 5, "read", None, row(1, st="old"), moment=1000), FIRST, PAID],
        "history: true",
        [("old", 100, 100), ("new", 100, 200), ("paid", 200, None)],
    ),
    "another epoch": (
        [
            FIRST,
            snapshot("t", 1, row(1, st="again"), moment=1000, epoch=2),
            update("t", 2, None, row(1, st="sent"), moment=900, epoch=2),
        ],
        "history: true",
        [("new", 100, 900), ("sent", 900, None)],
    ),
}
WAYS: dict[str, Callable[[list[ChangeSpec]], list[list[ChangeSpec]]]] = {
    "at once": lambda events: [events],
    "in order": lambda events: [[event] for event in sorted(events, key=lambda event: event.sequence)],
    "backwards": lambda events: [[event] for event in reversed(events)],
    "in pairs": lambda events: [events[::2], events[1::2]],
}
BATCHES = 4


def of_key(event: ChangeSpec, table: str, key: int) -> ChangeSpec:
    """The same event of another key."""
    images = [image and {**image, "id": str(key)} for image in (event.before, event.after)]
    return replace(event, table=table, at=1000 * key + event.at, before=images[0], after=images[1])


def versions_of(gold: GoldPipeline, table: str, key: int) -> Versions:
    return [
        (" ".join(one[name] for name in ("st", "note") if name in one), one["from"], one.get("to"))
        for one in gold.history(table)
        if one["id"] == key
    ]


@pytest.mark.slow
def test_a_row_of_a_snapshot_that_is_newer_than_its_next_change_is_no_version(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Each case in each way has a key of its own, in the table of its settings."""
    tables = {rule: f"t{number}" for number, rule in enumerate({rule: 0 for _, rule, _ in CASES.values()})}
    rules = "".join(f"  - {{match: db.{name}, {rule}}}\n" for rule, name in tables.items())
    gold = GoldPipeline(spark, tmp_path, rules)
    keys = dict(enumerate(product(CASES, WAYS), 1))
    batches: list[list[ChangeSpec]] = [[] for _ in range(BATCHES)]
    for key, (case, way) in keys.items():
        events, rule, _ = CASES[case]
        for batch, part in zip(batches, WAYS[way](events), strict=False):
            batch += (of_key(event, tables[rule], key) for event in part)
    for batch in filter(None, batches):
        gold.add_batch(*batch)
        gold.apply()
    wrong = []
    for key, (case, way) in keys.items():
        _, rule, wanted = CASES[case]
        if (found := versions_of(gold, tables[rule], key)) != wanted:
            wrong.append(f"{case}, {way}: {found} instead of {wanted}")
    for name in tables.values():
        place = f"{gold.lake.root}/gold/db/{name}__history"
        wrong += changed_by(partial(gold.rebuild, name), spark, [place])
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
def test_changes_in_order_end_what_a_newer_row_of_a_snapshot_began(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Also where only the new changes would be read; and a truncate counts as a change."""
    gold = GoldPipeline(spark, tmp_path, "  - {match: 'db.*', history: true}\n")
    gold.add_batch(
        snapshot("t", 1, row(1, st="x"), moment=1000),
        ChangeSpec("t", 2, "read", None, row(2, st="x"), moment=1000),
        snapshot("t", 3, row(3, st="x"), moment=60),
        snapshot("emptied", 1, row(1, st="x"), moment=1000),
    )
    gold.apply()
    gold.add_batch(*(insert("t", 4 + key, row(key, st="y"), moment=100) for key in (1, 2, 3)))
    gold.add_batch(truncate("emptied", 100), insert("emptied", 101, row(1, st="y"), moment=110))
    gold.apply()
    gold.add_batch(*(update("t", 8 + key, None, row(key, st="z"), moment=200) for key in (1, 2, 3)))
    gold.apply()
    assert versions_of(gold, "t", 1) == [("y", 100, 200), ("z", 200, None)]
    assert versions_of(gold, "t", 2) == [("x", 100, 100), ("y", 100, 200), ("z", 200, None)]
    assert versions_of(gold, "t", 3) == [("x", 60, 100), ("y", 100, 200), ("z", 200, None)]
    assert versions_of(gold, "emptied", 1) == [("y", 110, None)]
    for name in ("t", "emptied"):
        places = [f"{gold.lake.root}/gold/db/{name}__history"]
        assert changed_by(partial(gold.rebuild, name), spark, places) == []
