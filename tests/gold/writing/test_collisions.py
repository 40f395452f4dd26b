"""An insert that meets a row that is there, with other values, is counted:
the key of its table is too narrow.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from framework.contracts.expectations import PreviousResults
from framework.pipeline.layer import Run
from gold.layer import LAYER, _line
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
    assert (gold.state("line").insert_collisions, gold.state("fine").insert_collisions) == (5, 0)
    assert broken(gold) == {"line": (5, "5 inserts met a row that was there")}

    gold.configure("  - {match: db.line, keys: [id, n]}\n")
    assert gold.rebuild("line").notes == ("rebuilt: asked for",)
    assert gold.state("line").insert_collisions == 0
    assert broken(gold) == {}
