"""What a rebuild changes in tables that were kept up to date: it must be nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from framework.lakehouse.lakehouse import read_table

_SHOWN = 3


def changed_by(rebuild: Callable[[], object], spark: SparkSession, places: Sequence[str]) -> list[str]:
    """Rebuilds; each table that is another one then, with some rows that only one of both has.

    Args:
        rebuild: Rebuilds the tables.
        spark: The session.
        places: Their paths.
    """
    before = [_rows_of(spark, place) for place in places]
    rebuild()
    changed: list[str] = []
    for place, were in zip(places, before, strict=True):
        are = _rows_of(spark, place)
        if are != were:
            changed.append(place)
            changed += [f"  only before: {row}" for row in sorted((were - are).elements())[:_SHOWN]]
            changed += [f"  only rebuilt: {row}" for row in sorted((are - were).elements())[:_SHOWN]]
    return changed


def _rows_of(spark: SparkSession, place: str) -> Counter[str]:
    """All rows of a table, with the columns of Mainstem's own."""
    frame = read_table(spark, place)
    return Counter(map(repr, frame.select(*(F.col(f"`{name}`") for name in sorted(frame.columns))).collect()))
