"""A parked table is read again only when something changed on which its refusal depends."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from gold import job
from gold.planning.table_state import State
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
