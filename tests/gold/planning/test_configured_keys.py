"""Another key in the configuration reaches a table to which nothing new comes."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.pipeline.layer import Run
from framework.spark.no_session import SessionNeeded, no_session
from gold.job import GoldResult, update_tables
from gold.planning.table_state import State
from tests.gold.silver_builder import GoldPipeline, insert, row


def without_session(gold: GoldPipeline) -> GoldResult:
    return update_tables(Run(no_session(), gold.lake, gold.config, "idle"))


@pytest.mark.slow
def test_a_key_is_configured_for_a_table_that_is_quiet(spark: SparkSession, tmp_path: Path) -> None:
    gold = GoldPipeline(spark, tmp_path)
    gold.add_batch(insert("t", 1, row(1, n="1"), keys=None), insert("t", 2, row(1, n="2"), keys=None))
    assert gold.apply()["t"].state.state is State.APPEND_ONLY
    assert without_session(gold).tables == ()

    gold.configure("  - {match: db.t, keys: [idd]}\n")
    parked = gold.apply()["t"].state
    assert (parked.state, (parked.reason or "")[:18]) == (State.PARKED, "KEY_COLUMN_MISSING")
    assert len(gold.rows("t")) == 2

    gold.configure("  - {match: db.t, keys: [id]}\n")
    with pytest.raises(SessionNeeded):
        without_session(gold)
    done = gold.apply()["t"]
    assert (done.state.state, done.state.keys, done.applied) == (State.ACTIVE, ("id",), 0)
    assert gold.rows("t") == [{"id": 1, "n": 2}]
    assert without_session(gold).tables == ()
