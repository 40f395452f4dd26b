"""A change of a key that leaves columns out takes them from the row with the old key."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from gold.changes import key_changes
from gold.changes.key_changes import fill_partial_key_changes
from gold.schema.columns import TableColumn
from tests.gold.changes.test_former_keys import SCHEMA, change


@pytest.mark.slow
@pytest.mark.parametrize(
    ("is_connect", "most"),
    [(False, 0), (True, 100), (True, 0)],
    ids=["classic", "few links on Spark Connect", "many links on Spark Connect"],
)
def test_a_row_is_followed_through_all_its_keys(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, is_connect: bool, most: int
) -> None:
    monkeypatch.setattr(key_changes, "is_connect", lambda _: is_connect)
    monkeypatch.setattr(key_changes, "MOST_IN_PROCESS", most)
    changes = [change(0, "insert", None, {"id": "0", "n": "x"}, ["id"])]
    changes += [
        change(n, "update", {"id": str(n - 1)}, {"id": str(n), f"c{n}": "y"}, ["id"]) for n in range(1, 5)
    ]
    rows = spark.createDataFrame(changes, SCHEMA)
    found = fill_partial_key_changes(rows, [TableColumn("id", "int", None)], None).collect()
    images = {row["change_id"]: (row["partial"], row["after"]) for row in found}
    assert images["c4"] == (False, {"id": "4", "n": "x", "c1": "y", "c2": "y", "c3": "y", "c4": "y"})
    assert images["c1"] == (False, {"id": "1", "n": "x", "c1": "y"})
