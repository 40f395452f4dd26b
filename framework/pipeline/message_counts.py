"""Why the counts of messages and changes of a pipeline differ.

    messages = changes + control events + duplicates + quarantined + halves waiting + excluded
               + merged halves + halves of key changes + messages without an outcome yet - further rows

A merged half is a message that is part of another message's change. A further row is one that is not the
first of its message, or a change that was written before its other half arrived and again when it did.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

_IS_ROW = "kind = 'row'"


def accounts(changes: DataFrame) -> DataFrame:
    """Counts, for each source of the change table, what messages need beside the counts of their outcomes.

    Args:
        changes: Rows of `silver/changes`.

    Returns:
        `source`, `key_halves` (the delete halves of key changes) and `further` (the further rows).
    """
    counted = changes.groupBy("source").agg(
        F.count_if(F.expr("kind = 'half' AND half IS NULL")).alias("key_halves"),
        F.count_if(F.expr("ordinal > 0 AND kind NOT IN ('half', 'quarantined')")).alias("further"),
    )
    at = ["source", "topic", "partition", "offset"]
    released = changes.where(f"{_IS_ROW} AND half IS NOT NULL").select(*at).distinct()
    completed = changes.where(f"{_IS_ROW} AND half IS NULL AND paired_with IS NOT NULL").join(
        released, at, "left_semi"
    )
    again = completed.groupBy("source").agg(
        F.lit(0).cast("long").alias("key_halves"), F.count("*").alias("further")
    )
    return (
        counted.unionByName(again)
        .groupBy("source")
        .agg(F.sum("key_halves").alias("key_halves"), F.sum("further").alias("further"))
    )
