"""The change feed of gold's tables is on, so that readers can chain, also after somebody switched it off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.lakehouse.lakehouse import table_properties, table_version
from gold.planning.table_state import State
from gold.writing import merge
from tests.gold.silver_builder import GoldPipeline, delete, insert, row

FEED = "delta.enableChangeDataFeed"


class KilledError(BaseException):
    """The process ends here: nothing handles it."""


def switch_off(spark: SparkSession, path: str) -> None:
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('{FEED}' = 'false')")


@pytest.mark.slow
def test_a_feed_that_somebody_has_switched_off_is_on_again_with_the_next_changes(
    spark: SparkSession, tmp_path: Path
) -> None:
    gold = GoldPipeline(spark, tmp_path, "  - {match: db.kept, history: true}\n")
    gold.add_batch(
        insert("kept", 1, row(1)),
        insert("keyless", 1, row(1), keys=None),
        insert("odd", 1, row(1, **{"a`b": "x"})),
    )
    gold.apply()
    places = {
        name: f"{gold.lake.root}/gold/db/{name}" for name in ("kept", "kept__history", "keyless", "odd")
    }
    for name in ("kept", "kept__history", "keyless"):
        switch_off(spark, places[name])
    before = table_version(spark, places["odd"])
    gold.add_batch(
        insert("kept", 2, row(9)), delete("kept", 3, row(9)),
        insert("keyless", 2, row(2), keys=None), insert("odd", 2, row(2, **{"a`b": "y"})),
    )  # fmt: skip
    done = gold.apply()
    assert {name: one.state.reason for name, one in done.items()} == dict.fromkeys(done)
    assert {name: table_properties(spark, path).get(FEED) for name, path in places.items()} == {
        "kept": "true", "kept__history": "true", "keyless": "true", "odd": "false"
    }  # fmt: skip
    assert table_version(spark, places["odd"]) == (before or 0) + 1


@pytest.mark.slow
def test_a_feed_that_is_switched_off_beside_a_merge_stops_no_table(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gold = GoldPipeline(spark, tmp_path)
    gold.add_batch(insert("t", 1, row(1, n="1")))
    gold.apply()
    place = f"{gold.lake.root}/gold/db/t"
    begin_marks = merge.begin_marks

    def switched_off(*given: Any) -> bool:
        switch_off(spark, place)
        return begin_marks(*given)

    monkeypatch.setattr(merge, "begin_marks", switched_off)
    gold.add_batch(insert("t", 2, row(1, n="2")), insert("t", 3, row(2)), insert("t", 4, row(2, n="1")))
    done = gold.apply()["t"]
    assert (done.state.state, done.state.reason) == (State.ACTIVE, None)
    assert len(gold.rows("t")) == 2


@pytest.mark.slow
def test_a_rebuild_that_was_killed_leaves_no_table_without_a_feed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gold = GoldPipeline(spark, tmp_path)
    gold.add_batch(insert("t", 1, row(1, **{"a b": "x"})))
    gold.apply()
    path = f"{gold.lake.root}/gold/db/t"
    assert table_properties(spark, path)[FEED] == "true"
    set_change_feed = merge._set_change_feed

    def dies(spark: SparkSession, path: str, value: str) -> None:
        if value == "true":
            raise KilledError
        set_change_feed(spark, path, value)

    with monkeypatch.context() as patch:
        patch.setattr(merge, "_set_change_feed", dies)
        with pytest.raises(KilledError):
            gold.rebuild("t")
    assert table_properties(spark, path)[FEED] == "false"
    gold.add_batch(insert("t", 2, row(2, **{"a b": "y"})))
    gold.apply()
    assert table_properties(spark, path)[FEED] == "true"
    assert gold.rows("t") == [{"id": 1, "a b": "x"}, {"id": 2, "a b": "y"}]
