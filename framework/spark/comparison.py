"""Compares two sets of rows: what should be there, and what is there.

One shuffle and one job answer for both directions, and each side is computed once.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def compare(expected: DataFrame, found: DataFrame) -> DataFrame:
    """How often each row is in the two frames, which have the same columns; nulls are equal.

    Returns:
        The distinct rows of both, and `expected` and `found`: how often each frame has them, 0 for never.
    """
    columns = [F.col(f"`{name}`") for name in expected.columns]
    one, none = F.lit(1).cast("bigint"), F.lit(0).cast("bigint")
    rows = expected.select(*columns, one.alias("expected"), none.alias("found")).unionByName(
        found.select(*columns, none.alias("expected"), one.alias("found"))
    )
    return rows.groupBy(*columns).agg(F.sum("expected").alias("expected"), F.sum("found").alias("found"))


def count_differences(expected: DataFrame, found: DataFrame) -> int:
    """How many rows only one of the frames has; a row counts as often as a frame has it more often."""
    row = compare(expected, found).agg(F.sum(F.abs(F.col("expected") - F.col("found")))).first()
    return int(row[0] or 0) if row else 0
