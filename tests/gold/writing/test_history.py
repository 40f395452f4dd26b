"""Histories against a replay of the same changes:
no gap, no overlap, one current version a live key, in any order.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from gold.changes.key_changes import fill_partial_key_changes
from gold.changes.profile import Profile
from gold.schema.columns import TableColumn
from gold.schema.layout import SYSTEM_COLUMNS, VALIDITY_COLUMNS, Layout
from gold.writing.history import versions
from tests.gold.changes.test_latest import COLUMNS, KEYS, SCHEMA, SEED, START, Game, Row, games, shuffled
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


@pytest.mark.slow
def test_of_two_changes_at_one_position_the_history_has_that_of_the_replica(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Whether they come together or one after the other."""
    gold = GoldPipeline(spark, tmp_path, "  - {match: 'db.*', history: true}\n")
    one, other = insert("t", 1, {"id": "1", "a": "x"}), update("t", 1, None, {"id": "1", "a": "y"})
    gold.add_batch(one, other, *copied([one], "earlier"), *copied([other], "later"))
    gold.apply()
    gold.add_batch(*copied([other], "earlier"), *copied([one], "later"))
    gold.apply()
    for name in ("t", "earlier", "later"):
        assert gold.rows(name) == [{"id": 1, "a": "y"}]
        assert [(version["a"], version["_cdc_op"]) for version in gold.history(name)] == [("y", "update")]


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
