"""The newest state of each key, against a dictionary that takes the same changes in their order.

Histories are drawn from a seed (MAINSTEM_SEED sets it), each with keys of its own, and many are folded in one
job.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from framework.config.tables import Deletes
from gold.changes.effects import effects
from gold.changes.key_changes import fill_partial_key_changes
from gold.changes.latest import latest
from gold.changes.merge_policy import MergePolicy
from gold.schema.columns import TableColumn

SEED = os.environ.get("MAINSTEM_SEED") or "20240301"
SCHEMA = (
    "sequence string, event_time timestamp, change_id string, transaction_id string, op string, partial "
    "boolean, half string, "
    "before map<string,string>, after map<string,string>"
)
KEYS = [TableColumn("game", "int", None), TableColumn("id", "bigint", None)]
COLUMNS = ("a", "b", "c")
START = datetime(2024, 3, 1, tzinfo=UTC)

Row = dict[str, str | None]
Change = tuple[Any, ...]


class Game:
    """One small table and its changes as a feed sends them:
    whole or partial images, with or without transaction ids.
    """

    def __init__(
        self, number: int, seed: str, *, is_partial: bool = False, has_key_changes: bool = True
    ) -> None:
        self.number, self.draw = number, random.Random(f"{seed} {number}")
        self.is_partial, self.has_key_changes = is_partial, has_key_changes
        self.has_transactions = self.draw.random() < 0.7
        self.values = ("x", "y") if self.draw.random() < 0.3 else ("p", "q", "r", "s", "t", "", None)
        self.rows: dict[int, Row] = {}
        self.changes: list[Change] = []
        self.transaction = 0
        self.numbers: dict[int, int] = {}
        self.account: list[tuple[int, str, str, int, int | None, Row | None, int | None]] = []
        """For each change: when, what, its sequence, which row, on which key it stands now with which image,
        which it left.
        """

    def play(self, steps: int) -> Game:
        moves: Sequence[Callable[[], None]] = (
            (self.move, self.swap, self.cycle, self.chain) if self.has_key_changes else ()
        )
        for _ in range(steps):
            self.transaction += 1
            self.draw.choice(
                (self.insert, self.insert, self.update, self.update, self.delete, self.insert_deleted, *moves)
            )()
        return self

    def row(self, key: int) -> Row:
        return {
            "game": str(self.number),
            "id": str(key),
            **{name: self.draw.choice(self.values) for name in COLUMNS},
        }

    def free(self) -> list[int]:
        return [key for key in range(1, 6) if key not in self.rows]

    def some(self, count: int) -> list[int]:
        return self.draw.sample(sorted(self.rows), count) if len(self.rows) >= count else []

    def insert(self) -> None:
        for key in self.free()[:1]:
            self.come(key)

    def come(self, key: int) -> None:
        """A new row."""
        self.rows[key] = self.row(key)
        self.numbers[key] = len(self.changes)
        self.add_batch("insert", None, self.rows[key])

    def update(self) -> None:
        for key in self.some(1):
            before, column = self.rows[key], self.draw.choice(COLUMNS)
            self.rows[key] = {**before, column: self.draw.choice(self.values)}
            self.add_batch("update", before, self.rows[key], {column})

    def delete(self) -> None:
        for key in self.some(1):
            self.add_batch("delete", self.rows.pop(key), None)

    def insert_deleted(self) -> None:
        """Delete and insert of one key in one transaction."""
        for key in self.some(1):
            self.add_batch("delete", self.rows[key], None)
            self.come(key)

    def move(self) -> None:
        for key, to in zip(self.some(1), self.free(), strict=False):
            self.moved({key: to})

    def swap(self) -> None:
        one = self.some(2)
        self.moved(dict(zip(one, reversed(one), strict=True)))

    def cycle(self) -> None:
        one = self.some(3)
        self.moved(dict(zip(one, one[1:] + one[:1], strict=True)))

    def chain(self) -> None:
        """One row takes two other keys, one after the other, in one transaction."""
        for key, free in zip(self.some(1), [self.free()], strict=False):
            if len(free) >= 2:
                self.moved({key: free[0]})
                self.moved({free[0]: free[1]})

    def moved(self, keys: dict[int, int]) -> None:
        """Rows take other keys, all at once; each is sent as one update."""
        old = {key: self.rows.pop(key) for key in keys}
        numbers = {key: self.numbers.pop(key) for key in keys}
        for key, to in keys.items():
            column = self.draw.choice(COLUMNS)
            value = self.draw.choice((old[key][column], self.draw.choice(self.values)))
            self.rows[to] = {**old[key], "id": str(to), column: value}
            self.numbers[to] = numbers[key]
            self.add_batch("update", old[key], self.rows[to], {column})

    def add_batch(
        self, op: str, before: Row | None, after: Row | None, changed: set[str] | None = None
    ) -> None:
        number = len(self.changes) + 1
        moment = self.transaction * 10 + (
            self.draw.randint(-15, 15) if self.has_transactions and not changed else 0
        )
        at = START + timedelta(seconds=moment)
        transaction = f"t{self.transaction}" if self.has_transactions else None
        sequence = f"011.011.{len(str(number)):02d}{number}"
        is_key_change = before is not None and after is not None and before["id"] != after["id"]
        key = None if after is None else int(after["id"] or 0)
        left = int(before["id"] or 0) if before is not None and (after is None or is_key_change) else None
        self.account.append(
            (moment, op, sequence, self.numbers[left if key is None else key], key, after, left)
        )
        is_partial = self.is_partial and op == "update" and self.draw.random() < 0.7
        image = (
            {n: v for n, v in after.items() if n in ("game", "id") or n in (changed or ())}
            if is_partial and after
            else after
        )
        if is_partial and is_key_change and before is not None and self.draw.random() < 0.6:
            before = {name: before[name] for name in ("game", "id")}
        is_bare = op == "update" and not is_key_change and self.draw.random() < 0.3
        change = (sequence, at, f"{self.number}-{number}", transaction, op, is_partial)
        self.changes.append((*change, None, None if is_bare else before, image))
        if op == "update" and not is_partial and self.draw.random() < 0.1:
            self.changes.append(
                (*change, "after", None, image)
            )  # its half had been released before the other one came


def games(count: int, **kind: bool) -> list[Game]:
    return [Game(number, SEED, **kind).play(30) for number in range(count)]


def found_in(
    spark: SparkSession, changes: Sequence[Change], *, has_key_changes: bool, has_partials: bool
) -> dict[tuple[int, int], Row]:
    frame: DataFrame = spark.createDataFrame(list(changes), SCHEMA)
    if has_key_changes and has_partials:
        frame = fill_partial_key_changes(frame, KEYS, None)
    newest = latest(
        effects(frame, KEYS),
        ["k0", "k1"],
        MergePolicy(Deletes.HARD, None, has_partials),
        has_key_changes=has_key_changes,
    )
    rows = newest.select("k0", "k1", "is_upsert", "is_whole", "after").collect()
    assert len({(row["k0"], row["k1"]) for row in rows}) == len(rows)
    assert all(row["is_whole"] for row in rows if row["is_upsert"])
    return {(row["k0"], row["k1"]): dict(row["after"]) for row in rows if row["is_upsert"]}


def truth(played: Sequence[Game]) -> dict[tuple[int, int], Row]:
    return {(game.number, key): row for game in played for key, row in game.rows.items()}


def shuffled(played: Sequence[Game]) -> list[Change]:
    changes = [change for game in played for change in game.changes]
    random.Random(SEED).shuffle(changes)
    return changes


def compare(found: dict[tuple[int, int], Row], played: Sequence[Game]) -> None:
    expected = truth(played)
    wrong = {key[0] for key in found.keys() | expected.keys() if found.get(key) != expected.get(key)}
    if wrong:
        game = min((g for g in played if g.number in wrong), key=lambda g: len(g.changes))
        lines = [
            f"seed {SEED}: {len(wrong)} of {len(played)} histories differ; the shortest is game "
            f"{game.number}",
            *map(str, game.changes),
        ]
        for key in sorted(k for k in found.keys() | expected.keys() if k[0] == game.number):
            if found.get(key) != expected.get(key):
                lines.append(f"{key}: found {found.get(key)}, expected {expected.get(key)}")
        pytest.fail("\n".join(lines))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("is_partial", "has_key_changes"),
    [(False, False), (False, True), (True, False), (True, True)],
    ids=["plain", "moves", "partial", "both"],
)
def test_histories_end_as_in_the_source(spark: SparkSession, is_partial: bool, has_key_changes: bool) -> None:
    played = games(150, is_partial=is_partial, has_key_changes=has_key_changes)
    assert sum(len(game.changes) for game in played) > 3_000
    compare(
        found_in(spark, shuffled(played), has_key_changes=has_key_changes, has_partials=is_partial), played
    )


def test_general_path_gives_what_the_short_ones_give(spark: SparkSession) -> None:
    played = games(40, has_key_changes=False)
    compare(found_in(spark, shuffled(played), has_key_changes=True, has_partials=True), played)


def written(
    *changes: tuple[str, str | None, Row | None, Row | None], partial: bool = False
) -> Iterator[Change]:
    for number, (op, transaction, before, after) in enumerate(changes):
        at = START + timedelta(seconds=number if transaction is None else 0)
        yield (
            f"011.011.01{number}",
            at,
            f"c{number}",
            transaction,
            op,
            partial and op == "update",
            None,
            before,
            after,
        )


def a(key: int, value: str | None = None, **more: str) -> Row:
    return {"game": "0", "id": str(key), **({} if value is None else {"a": value}), **more}


CASES: dict[str, tuple[list[Change], dict[int, Row]]] = {
    "swap of rows with equal values": (
        list(
            written(
                ("insert", "t0", None, a(1, "x")),
                ("insert", "t0", None, a(2, "x")),
                ("update", "t1", a(1, "x"), a(2, "x")),
                ("update", "t1", a(2, "x"), a(1, "x")),
            )
        ),
        {1: a(1, "x"), 2: a(2, "x")},
    ),
    "swap of rows from before the feed": (
        list(written(("update", "t1", a(1, "x"), a(2, "x")), ("update", "t1", a(2, "y"), a(1, "y")))),
        {1: a(1, "y"), 2: a(2, "x")},
    ),
    "swap and swap back in one transaction": (
        list(
            written(
                ("insert", "t0", None, a(1, "x")),
                ("insert", "t0", None, a(2, "y")),
                ("update", "t1", a(1, "x"), a(2, "x")),
                ("update", "t1", a(2, "y"), a(1, "y")),
                ("update", "t1", a(1, "y"), a(2, "y")),
                ("update", "t1", a(2, "x"), a(1, "x")),
            )
        ),
        {1: a(1, "x"), 2: a(2, "y")},
    ),
    "a row passes through a free key, its before images are keys alone": (
        list(
            written(
                ("insert", "t0", None, a(2, "old")),
                ("delete", "t0", a(2, "old"), None),
                ("insert", "t0", None, a(1, "x")),
                ("update", "t1", a(1), a(2, "x")),
                ("update", "t1", a(2), a(3, "x")),
            )
        ),
        {3: a(3, "x")},
    ),
    "a partial change of the key whose before image is whole": (
        list(
            written(
                ("insert", "t0", None, a(1, "x", b="kept")),
                ("insert", "t0", None, a(2, "y", b="of another row")),
                ("delete", "t1", a(2, "y", b="of another row"), None),
                ("update", "t2", a(1, "x", b="kept"), a(2, "z")),
                partial=True,
            )
        ),
        {2: a(2, "z", b="kept")},
    ),
}


def test_listed_histories_end_as_in_the_source(spark: SparkSession) -> None:
    assert_end_states(spark, CASES)


def assert_end_states(spark: SparkSession, cases: dict[str, tuple[list[Change], dict[int, Row]]]) -> None:
    changes, expected = [], {}
    for number, (case_changes, rows) in enumerate(cases.values()):
        game = str(number)
        changes += [
            (
                *c[:2],
                f"{game}-{c[2]}",
                *c[3:7],
                *(None if image is None else {**image, "game": game} for image in c[7:]),
            )
            for c in case_changes
        ]
        expected |= {(number, key): {**row, "game": game} for key, row in rows.items()}
    found = found_in(spark, changes[::-1], has_key_changes=True, has_partials=True)
    names = list(cases)
    wrong = {names[key[0]] for key in found.keys() | expected.keys() if found.get(key) != expected.get(key)}
    assert not wrong, {key: row for key, row in found.items() if names[key[0]] in wrong}


KEPT = a(1, "x", b="kept")
PARTIAL_MOVES: dict[str, tuple[list[Change], dict[int, Row]]] = {
    "the rest is of the old key's row": (
        list(written(("insert", "t0", None, KEPT), ("update", "t1", a(1), a(2, "z")), partial=True)),
        {2: a(2, "z", b="kept")},
    ),
    "a row passes through many keys": (
        list(
            written(
                ("insert", "t0", None, KEPT),
                ("update", "t1", a(1), a(2)),
                ("update", "t1", a(2), a(3)),
                ("update", "t2", None, a(3, "y")),
                ("update", "t3", a(3), a(4)),
                ("update", "t4", a(4), a(5)),
                ("update", "t5", a(5), a(6)),
                partial=True,
            )
        ),
        {6: a(6, "y", b="kept")},
    ),
    "swap and swap back, each told by its key alone": (
        list(
            written(
                ("insert", "t0", None, a(1, "x")),
                ("insert", "t0", None, a(2, "y")),
                ("update", "t1", a(1), a(2)),
                ("update", "t1", a(2), a(1)),
                ("update", "t1", a(1), a(2)),
                ("update", "t1", a(2), a(1, b="new")),
                partial=True,
            )
        ),
        {1: a(1, "x", b="new"), 2: a(2, "y")},
    ),
    "another row has the new key": (
        list(
            written(
                ("insert", "t0", None, KEPT),
                ("insert", "t0", None, a(2, "other", b="other", c="other")),
                ("delete", "t1", a(2), None),
                ("update", "t2", a(1), a(2)),
                partial=True,
            )
        ),
        {2: a(2, "x", b="kept")},
    ),
    "the old row is from before the feed": (
        list(written(("update", "t1", a(1), a(2, "z")), partial=True)),
        {2: a(2, "z")},
    ),
}


def test_a_partial_change_of_the_key_takes_the_rest_from_the_old_row(spark: SparkSession) -> None:
    assert_end_states(spark, PARTIAL_MOVES)
