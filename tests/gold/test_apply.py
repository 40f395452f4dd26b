"""Tables kept up to date batch by batch, late changes and rebuilds included: one answer, whatever the way to it."""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.sql import SparkSession

from tests.gold.told import Gold, copied, insert, row, update

MOVES = [
    insert("t", 1, row(1, a="x", b="kept")),
    update("t", 2, row(1), row(1, b="new"), partial=True),
    update("t", 3, row(1), row(2, a="z"), partial=True),
    update("t", 4, row(2), row(3), partial=True),
    update("t", 5, row(3), row(3, a="last"), partial=True),
    insert("t", 6, row(1, a="another")),
]
CUTS = {"together": [[0, 1, 2, 3, 4, 5], []], "row_last": [[2, 3, 4, 5], [0, 1]], "late_value": [[0, 2, 3, 4, 5], [1]]}
if os.environ.get("MAINSTEM_SIZE"):
    CUTS |= {
        "row_first": [[0, 1], [2, 3, 4, 5]],
        "between": [[0, 1, 2], [3, 4, 5]],
        "late_move": [[0, 1, 3, 4, 5], [2]],
    }


def test_a_partial_change_of_the_key_takes_the_rest_from_the_old_row(spark: SparkSession, tmp_path: Path) -> None:
    gold = Gold(spark, tmp_path, "  - {match: db.*, history: true}\n")
    for part in range(2):
        gold.tell(*(event for name, cuts in CUTS.items() for event in copied([MOVES[i] for i in cuts[part]], name)))
        gold.apply()

    expected = [row(1, a="another"), row(3, a="last", b="new")]
    versions = [(1, "x", "kept", 1, 2), (1, "x", "new", 2, 3), (1, "another", None, 6, None), (2, "z", "new", 3, 4),
                (3, "z", "new", 4, 5), (3, "last", "new", 5, None)]  # fmt: skip
    for _ in range(2):
        for name in CUTS:
            assert [{**r, "id": str(r["id"])} for r in gold.rows(name)] == expected, name
            history = [(r["id"], r.get("a"), r.get("b"), r["from"], r["to"]) for r in gold.history(name)]
            assert history == versions, name
        gold.rebuild("late_value")
