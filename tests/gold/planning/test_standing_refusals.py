"""A parked table is read again only when something changed on which its refusal depends, or after a pause."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.pipeline import failed_tries
from framework.pipeline.layer import Run
from gold import job
from gold.planning.table_state import State
from gold.writing import history
from gold.writing.apply import Applied, apply_table
from tests.gold.silver_builder import GoldPipeline, insert, row
from tests.jobs import jobs

STRICT = "  - {match: db.t, bad_values: park}\n"


@pytest.mark.slow
def test_a_parked_table_of_which_nothing_is_new_costs_no_job(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gold = GoldPipeline(spark, tmp_path / "p", STRICT)
    read: list[str] = []

    def counted(*arguments: object, **more: object) -> Applied:
        read.append(arguments[2].name.table)  # type: ignore[attr-defined]
        return apply_table(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(job, "apply_table", counted)

    def states() -> dict[str, State]:
        read.clear()
        return {name: applied.state.state for name, applied in gold.apply().items()}

    gold.add_batch(insert("t", 1, row(1, n="1")), insert("u", 1, row(1)))
    assert states() == {"t": State.ACTIVE, "u": State.ACTIVE}
    gold.add_batch(insert("t", 2, row(2, n="no number")))
    assert states() == {"t": State.PARKED}
    reason = gold.state("t").reason
    before = jobs(spark)
    assert states() == {"t": State.PARKED}
    assert (jobs(spark) - before, read, gold.state("t").reason) == (0, [], reason)
    gold.add_batch(insert("u", 3, row(2)))
    assert states() == {"t": State.PARKED, "u": State.ACTIVE}
    assert read == ["u"]

    gold.apply("db.t")
    assert read == ["u", "t"]  # who asks for the table by name has a reason
    gold.add_batch(insert("t", 4, row(3, n="3")))
    assert states() == {"t": State.PARKED}
    assert read == ["t"]
    shutil.rmtree(tmp_path / "p/lakehouse/gold/db/t")
    assert states() == {"t": State.PARKED}
    assert read == ["t"]
    gold.configure("")
    assert states() == {"t": State.ACTIVE}
    assert gold.rows("t") == [{"id": 1, "n": 1}, {"id": 2}, {"id": 3, "n": 3}]
    assert states() == {}


@pytest.mark.slow
def test_the_rounds_of_a_command_try_a_rebuild_that_fails_after_pauses(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails when the replica is replaced already. Meanwhile the table is parked, and others go on."""
    gold = GoldPipeline(spark, tmp_path, "  - {match: db.t, history: true}\n")
    kept: dict[str, Any] = {}
    tried: list[object] = []

    def fails(*given: object) -> None:
        tried.append(given)
        raise OSError("no space is left")

    def of_round() -> dict[str, State]:
        found = job.update_tables(Run(spark, gold.lake, gold.config, "round", kept=kept)).tables
        return {applied.state.name.table: applied.state.state for applied in found}

    gold.add_batch(insert("t", 1, row(1, n="1")))
    gold.apply()
    with monkeypatch.context() as context:
        context.setattr(failed_tries, "FIRST_PAUSE", failed_tries.LONGEST_PAUSE)
        context.setattr(history, "rewrite", fails)
        assert gold.rebuild("t").state.state is State.PARKED
        for number in (2, 3):
            gold.add_batch(insert("t", number, row(number, n="2")), insert("u", number, row(number)))
            assert of_round() == {"t": State.PARKED, "u": State.ACTIVE}
        assert len(tried) == 2
        assert "no space is left" in (gold.state("t").reason or "")
        gold.apply("db.t")
        assert len(tried) == 3  # who asks for the table by name has a reason
    assert {name: applied.state.state for name, applied in gold.apply().items()} == {"t": State.ACTIVE}
    assert [one["id"] for one in gold.rows("t")] == [one["id"] for one in gold.history("t")] == [1, 2, 3]
