"""A row of a snapshot shows the row that had the key when it was read: what it tells of the rows before."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.gold.silver_builder import (
    ChangeSpec,
    GoldPipeline,
    Image,
    copied,
    delete,
    insert,
    row,
    snapshot,
    update,
)
from tests.gold.writing.test_late_snapshots import WAYS
from tests.rebuilds import changed_by

Rows = dict[int, str]
Versions = list[tuple[int, str, int, int | None]]


def move(at: int, old: int, new: int, moment: int, **changed: str) -> ChangeSpec:
    return update("t", at, row(old), row(new, **changed), partial=True, moment=moment)


def came(at: int, key: int, moment: int) -> ChangeSpec:
    return insert("t", at, row(key, st="b", note="bn"), moment=moment)


def shown(key: int, moment: int, st: str = "b", note: str = "bn") -> ChangeSpec:
    return snapshot("t", 20, row(key, st=st, note=note), moment=moment)


CASES: dict[str, tuple[list[ChangeSpec], Rows, Versions]] = {
    "another row came by an insert": (
        [move(11, 1, 2, 100), came(12, 1, 200), shown(1, 1000)],
        {1: "b bn", 2: ""},
        [(1, "b bn", 200, None), (2, "", 100, None)],
    ),
    "another row came by a change of its key": (
        [
            insert("t", 10, row(3, st="b", note="bn"), moment=90),
            move(11, 1, 2, 100, st="a"),
            move(12, 3, 1, 200),
            shown(1, 1000),
        ],
        {1: "b bn", 2: "a"},
        [(1, "b bn", 200, None), (2, "a", 100, None), (3, "b bn", 90, 200)],
    ),
    "another row came, and has left": (
        [move(11, 1, 2, 100), came(12, 1, 200), delete("t", 13, row(1), moment=1100), shown(1, 1000)],
        {2: ""},
        [(1, "b bn", 200, 1100), (2, "", 100, None)],
    ),
    "read before": (
        [move(11, 1, 2, 100, st="m"), came(12, 1, 200), shown(1, 60, "a", "an")],
        {1: "b bn", 2: "m an"},
        [(1, "a an", 60, 100), (1, "b bn", 200, None), (2, "m an", 100, None)],
    ),
    "the time is that of the end of the load": (
        [move(11, 1, 2, 100, st="m"), shown(1, 1000, "a", "an")],
        {2: "m an"},
        [(2, "m an", 100, None)],
    ),
    "another row came after it was read": (
        [move(11, 1, 2, 100, st="m"), came(12, 1, 200), shown(1, 150, "a", "an")],
        {1: "b bn", 2: "m an"},
        [(1, "b bn", 200, None), (2, "m an", 100, None)],
    ),
    "the row was deleted": (
        [
            update("t", 11, None, row(1, st="a"), partial=True, moment=100),
            delete("t", 12, row(1), moment=150),
            came(13, 1, 200),
            shown(1, 1000),
        ],
        {1: "b bn"},
        [(1, "a", 100, 150), (1, "b bn", 200, None)],
    ),
    "the row went on": (
        [move(11, 1, 2, 100), move(12, 2, 3, 200, st="a"), came(13, 1, 300), shown(1, 1000)],
        {1: "b bn", 3: "a"},
        [(1, "b bn", 300, None), (2, "", 100, 200), (3, "a", 200, None)],
    ),
    "two rows changed places": (
        [
            insert("t", 10, row(2, st="b", note="bn"), moment=90),
            move(11, 1, 2, 100, st="a"),
            move(12, 2, 1, 100),
            shown(1, 1000),
        ],
        {1: "b bn", 2: "a"},
        [(1, "b bn", 100, None), (2, "b bn", 90, 100), (2, "a", 100, None)],
    ),
    "a row was there for a moment": (
        [
            insert("t", 10, row(1, st="a", note="an"), moment=90),
            move(11, 1, 2, 100),
            move(12, 2, 3, 100),
            came(13, 2, 200),
            shown(2, 1000),
        ],
        {2: "b bn", 3: "a an"},
        [(1, "a an", 90, 100), (2, "a an", 100, 100), (2, "b bn", 200, None), (3, "a an", 100, None)],
    ),
}
BATCHES = 2


def of_keys(event: ChangeSpec, table: str, base: int) -> ChangeSpec:
    """The same event of keys beyond `base`."""

    def moved(image: Image | None) -> Image | None:
        return image and {**image, "id": str(base + int(image["id"] or 0))}

    at = 100 * base + event.at
    return replace(event, table=table, at=at, before=moved(event.before), after=moved(event.after))


def text(one: dict[str, object]) -> str:
    return " ".join(str(one[name]) for name in ("st", "note") if name in one)


@pytest.mark.slow
def test_a_row_that_was_read_when_another_one_had_its_key_fills_no_row_from_before(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Each case in each way has keys of its own; the replica, the history and a rebuild agree."""
    gold = GoldPipeline(spark, tmp_path, "  - {match: 'db.*', history: true}\n")
    bases = {10 * number: pair for number, pair in enumerate(product(CASES, ("at once", "in pairs")), 1)}
    batches: list[list[ChangeSpec]] = [[] for _ in range(BATCHES)]
    for base, (case, way) in bases.items():
        for batch, part in zip(batches, WAYS[way](CASES[case][0]), strict=False):
            batch += (of_keys(event, "t", base) for event in part)
    for batch in batches:
        gold.add_batch(*batch)
        gold.apply()
    found = {one["id"]: text(one) for one in gold.rows("t")}
    versions = [(one["id"], text(one), one["from"], one.get("to")) for one in gold.history("t")]
    wrong = []
    for base, (case, way) in bases.items():
        _, rows, history = CASES[case]
        mine = {key - base: value for key, value in found.items() if base < key < base + 10}
        if mine != rows:
            wrong.append(f"{case}, {way}: {mine} instead of {rows}")
        its = [(one[0] - base, *one[1:]) for one in versions if base < one[0] < base + 10]
        if its != history:
            wrong.append(f"{case}, {way}: {its} instead of {history}")
    places = [f"{gold.lake.root}/gold/db/{name}" for name in ("t", "t__history")]
    wrong += changed_by(partial(gold.rebuild, "t"), spark, places)
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
def test_a_new_owner_that_comes_in_order_takes_back_what_its_row_has_filled(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The load has been read before the changes that it shows come."""
    gold = GoldPipeline(spark, tmp_path, "  - {match: db.t, history: true}\n")
    events = [shown(1, 1000), move(11, 1, 2, 100, st="a"), came(12, 1, 200)]
    for number in range(3):
        gold.add_batch(events[number], *copied(events[number : number + 1], "u"))
        gold.apply()
        if number == 1:
            assert [text(one) for one in gold.rows("t")] == ["a bn"]
    for name in ("t", "u"):
        assert [text(one) for one in gold.rows(name)] == ["b bn", "a"]
    assert [text(one) for one in gold.history("t")] == ["b bn", "a"]
