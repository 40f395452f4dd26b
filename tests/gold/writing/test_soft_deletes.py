"""Rows that are marked as deleted have the same values, batch by batch and rebuilt."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.gold.silver_builder import (
    ChangeSpec,
    GoldPipeline,
    copied,
    delete,
    insert,
    row,
    truncate,
    update,
)

SOFT: dict[str, tuple[list[list[ChangeSpec]], list[dict[str, object]]]] = {
    "known in part": (
        [
            [update("t", 1, None, row(1, a="x"), partial=True)],
            [delete("t", 2, row(1, a="old", b="y"))],
        ],
        [{"id": 1, "a": "x", "b": "y", "_cdc_deleted": True}],
    ),
    "not known": (
        [[delete("t", 1, row(1, a="x"))], [update("t", 2, None, row(1, b="y"), partial=True)]],
        [{"id": 1, "a": "x", "b": "y", "_cdc_deleted": False}],
    ),
    "a null before the delete": (
        [
            [update("t", 1, None, row(1, a="x", b=None), partial=True)],
            [delete("t", 2, row(1, a="x", b="y"))],
        ],
        [{"id": 1, "a": "x", "b": "y", "_cdc_deleted": True}],
    ),
    "a null after the delete": (
        [
            [update("t", 1, None, row(1, a="x"), partial=True)],
            [delete("t", 2, row(1, b="y")), update("t", 3, None, row(1, b=None), partial=True)],
        ],
        [{"id": 1, "a": "x", "_cdc_deleted": False}],
    ),
    "a whole row": (
        [
            [insert("t", 1, row(1, a="x", b=None))],
            [delete("t", 2, row(1, a=None, b="y"))],
            [insert("t", 3, row(1, a="z"))],
        ],
        [{"id": 1, "a": "z", "_cdc_deleted": False}],
    ),
    "emptied": (
        [
            [update("t", 1, row(1, a="x", b="y"), row(1, a="z"), partial=True)],
            [truncate("t", 2)],
        ],
        [{"id": 1, "a": "z", "_cdc_deleted": True}],
    ),
}


@pytest.mark.slow
def test_a_marked_row_has_what_its_delete_says_of_columns_without_a_value(
    spark: SparkSession, tmp_path: Path
) -> None:
    gold = GoldPipeline(spark, tmp_path, "  - {match: db.*, deletes: soft}\n")
    names = {case: f"t{number}" for number, case in enumerate(SOFT)}
    for number in range(3):
        gold.add_batch(
            *(
                event
                for case, (batches, _) in SOFT.items()
                for event in (copied(batches[number], names[case]) if number < len(batches) else ())
            )
        )
        gold.apply()
    expected = {case: rows for case, (_, rows) in SOFT.items()}
    assert {case: gold.rows(name, "_cdc_deleted") for case, name in names.items()} == expected
    gold.configure("  - {match: db.*, deletes: soft, columns: {id: {type: int}}}\n")
    gold.apply()
    assert {case: gold.rows(name, "_cdc_deleted") for case, name in names.items()} == expected
