"""A table with `deletes: ignore`: its replica and its history keep what the source deletes."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.gold.silver_builder import GoldPipeline, delete, insert, row, truncate, update


@pytest.mark.slow
def test_where_deletes_are_ignored_the_history_ends_no_version_of_a_row_that_stays(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Only a changed key ends the version of its former row."""
    gold = GoldPipeline(spark, tmp_path, "  - {match: db.t, history: true, deletes: ignore}\n")
    gold.add_batch(
        *(insert("t", at, row(at)) for at in (1, 2, 3)),
        delete("t", 4, row(1)),
        update("t", 5, row(3), row(4)),
    )
    gold.apply()
    built = gold.history("t")
    gold.add_batch(delete("t", 6, row(2)), truncate("t", 7))
    assert gold.apply()["t"].notes == ()
    assert gold.rows("t") == [{"id": number} for number in (1, 2, 4)]
    assert gold.history("t") == built
    assert [(version["id"], version["_cdc_is_current"]) for version in built] == [
        (1, True),
        (2, True),
        (3, False),
        (4, True),
    ]
