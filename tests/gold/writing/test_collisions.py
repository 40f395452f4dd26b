"""An insert that meets a row that is there, with other values, is counted:
the key of its table is too narrow.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.contracts.expectations import PreviousResults
from framework.pipeline.layer import Run
from gold.layer import LAYER, _line
from gold.planning.table_state import Collisions
from tests.gold.silver_builder import ChangeSpec, GoldPipeline, delete, insert, row, truncate, update


def line(at: int, number: int, n: int, **more: object) -> ChangeSpec:
    return insert("line", at, row(number, n=str(n)), keys=None, **more)


def broken(gold: GoldPipeline) -> dict[str, tuple[int, str]]:
    """The tables whose rule does not hold, with what it says."""
    subjects = (
        LAYER.expectations(Run(gold.spark, gold.lake, gold.config, "quality"), PreviousResults())
        if LAYER.expectations
        else ()
    )
    found = [
        (subject.name, finding)
        for subject in subjects
        for finding in subject.own_findings(gold.spark)
        if subject.name
    ]
    return {
        name.table: (f.failed, f.observed) for name, f in found if f.rule.kind == "inserts_met" and f.failed
    }


@pytest.mark.slow
def test_inserts_that_meet_another_row_are_counted_and_legitimate_ones_are_not(
    spark: SparkSession, tmp_path: Path
) -> None:
    gold = GoldPipeline(spark, tmp_path, "  - {match: db.line, keys: [id]}\n")
    fine = [
        # a snapshot that was ahead
        ChangeSpec("fine", 1, "read", None, row(1, n="1")), insert("fine", 2, row(1, n="2")),
        insert("fine", 3, row(2, n="1")), delete("fine", 4, row(2)), insert("fine", 5, row(2, n="2")),
        insert("fine", 6, row(3, n="1")), insert("fine", 7, row(3, n="1")),  # the same row
        insert("fine", 8, row(4, n="1")), update("fine", 9, row(4), row(5, n="1")),
        insert("fine", 10, row(4, n="2")),
        insert("fine", 11, row(6, n="1")), ChangeSpec("fine", 12, "read", None, row(7, n="1")),
    ]  # fmt: skip
    gold.add_batch(*(line(n, 1, n) for n in range(4)), line(5, 2, 0), *fine)
    applied = gold.apply()
    assert (applied["line"].notes, applied["fine"].notes) == (("3 inserts met a row that was there",), ())
    assert _line(applied["line"]).notes == ("3 inserts met a row that was there",)

    gold.add_batch(
        # meets the replica; is the same; meets its batch
        line(20, 1, 7), line(21, 2, 0), line(22, 3, 0), line(23, 3, 1),
        truncate("fine", 20), insert("fine", 21, row(6, n="2")), delete("fine", 22, row(6)),
        insert("fine", 23, row(6, n="3")),
    )  # fmt: skip
    applied = gold.apply()
    assert (applied["line"].notes, applied["fine"].notes) == (("2 inserts met a row that was there",), ())
    gold.add_batch(
        insert("fine", 30, row(6, n="3")),
        insert("fine", 31, row(8)),
        delete("fine", 32, row(8)),
        line(30, 4, 0),
    )
    gold.apply()
    assert (gold.state("line").collisions, gold.state("fine").collisions) == (Collisions(5), Collisions())
    assert broken(gold) == {"line": (5, "5 inserts met a row that was there")}

    gold.configure("  - {match: db.line, keys: [id, n]}\n")
    assert gold.rebuild("line").notes == ("rebuilt: other settings",)
    assert gold.state("line").collisions == Collisions()
    assert broken(gold) == {}


def loaded(at: int, number: int, n: int, **more: Any) -> ChangeSpec:
    return ChangeSpec("line", at, "read", None, row(number, n=str(n)), keys=None, **more)


@pytest.mark.slow
def test_rows_of_one_full_load_that_differ_under_one_key_are_counted(
    spark: SparkSession, tmp_path: Path
) -> None:
    gold = GoldPipeline(spark, tmp_path, "  - {match: db.line, keys: [id]}\n")
    gold.add_batch(loaded(1, 1, 0), loaded(2, 1, 1), loaded(3, 1, 1), loaded(4, 2, 0))
    assert gold.apply()["line"].notes == ("1 row of a snapshot met a row that was there",)
    gold.add_batch(loaded(5, 2, 1), loaded(6, 3, 0), line(7, 4, 0), line(8, 4, 1))
    note = "1 insert and 1 row of a snapshot met a row that was there"
    assert gold.apply()["line"].notes == (note,)
    assert gold.state("line").collisions == Collisions(inserts=1, loaded=2)
    assert broken(gold) == {"line": (3, "1 insert and 2 rows of a snapshot met a row that was there")}
    gold.rebuild("line")
    assert gold.state("line").collisions == Collisions(inserts=1, loaded=2)


@pytest.mark.slow
def test_a_row_of_another_load_or_of_changes_is_met_without_harm(spark: SparkSession, tmp_path: Path) -> None:
    gold = GoldPipeline(spark, tmp_path, "  - {match: db.line, keys: [id]}\n")
    gold.add_batch(loaded(1, 1, 0), line(2, 2, 0))
    assert gold.apply()["line"].notes == ()
    gold.add_batch(loaded(3, 2, 1), loaded(9, 1, 1, epoch=2))
    assert gold.apply()["line"].notes == ()
    assert gold.state("line").collisions == Collisions()
