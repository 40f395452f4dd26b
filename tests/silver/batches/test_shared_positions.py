"""Whether halves of one position are a key change depends on whether the updates of their source share
positions.
"""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from framework.contracts.table_schemas import CHANGES
from silver.batches import outcomes
from silver.batches.encodings import Encodings
from silver.batches.outcomes import pair_halves
from silver.changes.adjacent_halves import SHARED_POSITIONS
from silver.changes.staged_rows import STAGED, Row, staged_table
from tests.silver.changes.test_pairing import BOB, JOE, after, before

ZOE = {"id": "9", "name": "Zoe"}


@pytest.mark.parametrize("few", [1_000, 0], ids=["few halves", "many halves"])
def test_a_source_that_shares_positions_waits_with_its_key_changes(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(outcomes, "FEW_HALVES", few)
    rows: list[Row] = []
    for source, others in (("plain", []), ("shared", [before(JOE, 5), before(BOB, 6)])):
        halves = [before(JOE, 0, sequence="011.011.016"), after(ZOE, 0, sequence="011.011.016", partition=1)]
        rows += [
            {**row, "source": source, "change_id": f"{source} {n}"} for n, row in enumerate(halves + others)
        ]
    staged = spark.createDataFrame(staged_table([{name: row[name] for name in STAGED.names} for row in rows]))
    nothing = spark.createDataFrame([], CHANGES)
    found = pair_halves(staged, nothing, None, {}).collect()
    assert sorted((row["source"], row["kind"]) for row in found) == [
        ("plain", "row"),
        ("shared", "half"),
        ("shared", "half"),
        ("shared", "half"),
        ("shared", "half"),
    ]


@pytest.mark.parametrize("few", [1_000, 0], ids=["few halves", "many halves"])
def test_whole_updates_show_that_positions_are_shared(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(outcomes, "FEW_HALVES", few)
    whole = [
        {**after(JOE, n, sequence="011.011.017"), "before": JOE, "half": None, "change_id": f"whole {n}"}
        for n in (5, 6)
    ]
    key_change = [before(JOE, 0, sequence="011.011.016"), after(ZOE, 0, sequence="011.011.016", partition=1)]
    rows = [{**row, "source": "feed"} for row in key_change + whole]
    staged = spark.createDataFrame(staged_table([{name: row[name] for name in STAGED.names} for row in rows]))
    found = pair_halves(staged, spark.createDataFrame([], CHANGES), None, {}).collect()
    assert [row["kind"] for row in found] == ["half", "half"]


def test_a_source_that_has_shared_positions_waits_in_later_batches(spark: SparkSession) -> None:
    key_change = [before(JOE, 0), after(ZOE, 0, partition=1)]
    staged = spark.createDataFrame(
        staged_table([{name: row[name] for name in STAGED.names} for row in key_change])
    )
    nothing = spark.createDataFrame([], CHANGES)
    kinds = {
        shared: [row["kind"] for row in pair_halves(staged, nothing, None, {}, shared).collect()]
        for shared in ((), ("other",), ("feed",))
    }
    assert kinds == {(): ["row"], ("other",): ["row"], ("feed",): ["half", "half"]}


def test_that_a_source_shares_positions_is_recorded_once() -> None:
    shown = {"feed": {SHARED_POSITIONS}}
    (row,) = Encodings().news(shown, 1000)
    assert (row.source, row.state, row.kind, row.modes) == ("feed", "shown", "positions", "shared")
    known = Encodings((row,))
    assert (known.shared, known.news(shown, 2000)) == ({"feed"}, [])
