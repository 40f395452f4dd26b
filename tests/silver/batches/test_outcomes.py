"""Which rows can be deliveries of the same change."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from silver.batches.known_runs import with_own_positions
from silver.values.sequence import Tie, sequence_of


@pytest.mark.parametrize(
    ("position", "tie", "expected"),
    [
        ((5, 0, 1), ("shop.t", 0, 7, 0), (5, 0, 1)),
        ((5, 0, 1), ("7", 0, 7, 0), (5, 0, 1)),
        ((5, 0, 0, 0, 1, 0), None, (5, 0, 0, 0, 1, 0)),
        (None, ("shop.t", 0, 7, 0), None),
    ],
)
def test_the_position_of_a_committed_change(
    spark: SparkSession, position: tuple[int, ...] | None, tie: Tie | None, expected: tuple[int, ...] | None
) -> None:
    frame = spark.createDataFrame([(sequence_of(1, position, tie), None)], "sequence string, position string")
    wanted = None if expected is None else sequence_of(1, expected, None)
    assert [row["position"] for row in with_own_positions(frame).collect()] == [wanted]
