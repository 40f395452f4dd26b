"""Histories against a replay of the same changes:
no gap, no overlap, one current version a live key, in any order.
"""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.config.tables import Deletes
from gold.changes.effects import effects
from gold.changes.key_changes import fill_partial_key_changes
from gold.changes.latest import latest
from gold.changes.merge_policy import MergePolicy
from gold.changes.profile import Profile
from gold.schema.columns import TableColumn
from gold.schema.layout import SYSTEM_COLUMNS, VALIDITY_COLUMNS, Layout
from gold.writing.history import versions
from tests.gold.changes.test_latest import (
    COLUMNS,
    KEYS,
    SCHEMA,
    SEED,
    START,
    Change,
    Game,
    Row,
    games,
    shuffled,
)
from tests.gold.silver_builder import GoldPipeline, copied, delete, insert, update

Version = tuple[int, int, str, Row, int, int | None, bool]
LAYOUT = Layout(
    (*KEYS, *(TableColumn(name, "string", None) for name in COLUMNS)),
    tuple(k.name for k in KEYS),
    {**SYSTEM_COLUMNS, **VALIDITY_COLUMNS},
)


def replayed(game: Game) -> list[Version]:
    """The versions of a game's keys, from its own record of which row had which key."""
    found: list[list[Any]] = []
    standing: dict[int, tuple[int, list[Any]]] = {}
    times: dict[int, int] = {}

    def now(key: int, moment: int) -> int:
        """Time on a key never runs backwards."""
        times[key] = max(times.get(key, moment), moment)
        return times[key]

    def close(key: int, moment: int) -> None:
        _, version = standing.pop(key)
        version[5:7] = [now(key, moment), False]

    for moment, op, sequence, row, key, image, left in game.account:
        if left is not None and left in standing and standing[left][0] == row:
            close(left, moment)
        if key is not None and image is not None:
            if key in standing:
                close(key, moment)
            standing[key] = (row, [game.number, key, op, dict(image), now(key, moment), None, True, sequence])
            found.append(standing[key][1])
    return [tuple(version[:7]) for version in sorted(found, key=lambda v: (v[1], v[7]))]


@pytest.mark.parametrize("is_partial", [False, True], ids=["whole", "partial"])
def test_histories_are_those_of_the_source(spark: SparkSession, is_partial: bool) -> None:
    played = games(60, is_partial=is_partial, has_key_changes=True)
    frame = spark.createDataFrame(shuffled(played), SCHEMA)
    frame = fill_partial_key_changes(frame, KEYS, None) if is_partial else frame
    rows = versions(frame, LAYOUT, Profile(has_key_changes=True, has_partials=is_partial), (), None).collect()
    found: dict[int, list[Version]] = {game.number: [] for game in played}
    for row in sorted(rows, key=lambda r: (r["k0"], r["k1"], r["_cdc_sequence"])):
        image = {
            "game": str(row["k0"]),
            "id": str(row["k1"]),
            **{n: row[f"c{i + 2}"] for i, n in enumerate(COLUMNS)},
        }
        times = [
            None if t is None else int(t.timestamp() - START.timestamp())
            for t in (row["_cdc_valid_from"], row["_cdc_valid_to"])
        ]
        found[row["k0"]].append((row["k0"], row["k1"], row["_cdc_op"], image, *times, row["_cdc_is_current"]))
    wrong = [game for game in played if found[game.number] != replayed(game)]
    if wrong:
        game = min(wrong, key=lambda g: len(g.changes))
        lines = [
            f"seed {SEED}: {len(wrong)} of {len(played)} histories differ; the shortest is game "
            f"{game.number}",
            *map(str, game.changes),
        ]
        pairs = [("found", v) for v in found[game.number] if v not in replayed(game)]
        pairs += [("expected", v) for v in replayed(game) if v not in found[game.number]]
        pytest.fail("\n".join([*lines, *map(str, pairs)]))


def crowded(number: int) -> list[Change]:
    """Changes of two keys of a table at few positions: several of a key at each, whole and partial ones."""
    draw = random.Random(f"{SEED} {number}")
    changes: list[Change] = []
    for place in range(20):
        position = draw.randint(1, 5)
        key: Row = {"game": str(number), "id": str(draw.randint(1, 2))}
        op = draw.choice(("insert", "update", "update", "update", "update", "delete"))
        is_partial = op == "update" and draw.random() < 0.8
        names = draw.sample(COLUMNS, draw.randint(1, 2)) if is_partial else COLUMNS
        image = {**key, **{name: draw.choice(("p", "q", "r", "s", None)) for name in names}}
        change_id = f"{draw.randrange(1000)}-{number}-{place}"
        images = (key, None) if op == "delete" else (None, image)
        at = START + timedelta(seconds=position)
        changes.append((f"011.011.01{position}", at, change_id, None, op, is_partial, None, *images))
    return changes


def test_partial_changes_at_one_position_are_folded_as_in_the_replica(spark: SparkSession) -> None:
    """The newest version of each key is the row of the replica, and each position has one version."""
    frame = spark.createDataFrame([change for number in range(60) for change in crowded(number)], SCHEMA)
    policy = MergePolicy(Deletes.HARD, None, has_partials=True)
    newest = latest(effects(frame, KEYS), ["k0", "k1"], policy, has_key_changes=False)
    replica = {
        (row["k0"], row["k1"]): (row["change_id"], *(row["after"].get(name) for name in COLUMNS))
        for row in newest.where("is_upsert").collect()
    }
    found = versions(frame, LAYOUT, Profile(has_partials=True), (), None).collect()
    places = [(row["k0"], row["k1"], row["_cdc_sequence"]) for row in found]
    assert len(places) == len(set(places))
    current = {
        (row["k0"], row["k1"]): (row["_cdc_change_id"], *(row[f"c{i + 2}"] for i in range(len(COLUMNS))))
        for row in found
        if row["_cdc_is_current"]
    }
    wrong = [key for key in replica.keys() | current.keys() if replica.get(key) != current.get(key)]
    shown = [f"{key}: {current.get(key)} instead of {replica.get(key)}" for key in wrong[:3]]
    assert not wrong, "\n".join([f"seed {SEED}", *shown, *map(str, crowded(wrong[0][0]))])


@pytest.mark.slow
def test_of_two_changes_at_one_position_the_history_has_that_of_the_replica(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Whether they come together or one after the other."""
    gold = GoldPipeline(spark, tmp_path, "  - {match: 'db.*', history: true}\n")
    one, other = insert("t", 1, {"id": "1", "a": "x"}), update("t", 1, None, {"id": "1", "a": "y"})
    whole = insert("parts", 0, {"id": "1", "a": "x", "b": "x"})
    parts = [
        insert("parts", 1, {"id": "1", "a": "y"}, partial=True),
        update("parts", 1, None, {"id": "1", "b": "z"}, partial=True),
    ]
    gold.add_batch(
        one,
        other,
        *copied([one], "earlier"),
        *copied([other], "later"),
        *(whole, parts[1]),
        *copied([whole, *parts], "parts_at_once"),
    )
    gold.apply()
    gold.add_batch(*copied([other], "earlier"), *copied([one], "later"), parts[0])
    gold.apply()
    for name in ("t", "earlier", "later"):
        assert gold.rows(name) == [{"id": 1, "a": "y"}]
        assert [(version["a"], version["_cdc_op"]) for version in gold.history(name)] == [("y", "update")]
    for name in ("parts", "parts_at_once"):
        assert gold.rows(name) == [{"id": 1, "a": "y", "b": "z"}]
        versions = [(version["a"], version["b"], version["_cdc_op"]) for version in gold.history(name)]
        assert versions == [("x", "x", "insert"), ("y", "z", "update")]


@pytest.mark.slow
@pytest.mark.parametrize("deletes", ["hard", "ignore"])
def test_a_row_that_leaves_its_key_at_the_position_of_a_delete_has_left(
    spark: SparkSession, tmp_path: Path, deletes: str
) -> None:
    gold = GoldPipeline(spark, tmp_path, f"  - {{match: 'db.*', history: true, deletes: {deletes}}}\n")
    moved = update("t", 2, {"id": "1", "a": "x"}, {"id": "2", "a": "x"})
    gold.add_batch(insert("t", 1, {"id": "1", "a": "x"}), delete("t", 2, {"id": "1", "a": "x"}), moved)
    gold.apply()
    assert gold.rows("t") == [{"id": 2, "a": "x"}]
    assert {(version["id"], version["_cdc_is_current"]) for version in gold.history("t")} == {
        (1, False),
        (2, True),
    }
