"""From when the rows of snapshots count, by the times of the changes after them.

The place of a snapshot's row in the order of the source may be before changes that the snapshot has read
already: rows without a position come before all changes of their epoch, whenever they were read. Their time
then says when somebody looked, not since when the row has been so.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from framework.contracts.events import Op
from gold.changes.effects import by_key
from gold.changes.full_loads import has_no_position


def with_counted_times(all_effects: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Adds `counted_time`, the time from which an effect counts, and drops rows of snapshots that are late.

    It is the event time. But a row of a snapshot is late where the next change of its key is older: it
    counts from that change on, and where it has no position, it is no version.

    Args:
        all_effects: Effects with complete images.
        keys: The names of the key columns.
    """
    is_read = F.col("op") == str(Op.READ)
    marked = all_effects.withColumn("_change", F.when(~is_read, F.struct("event_time")))
    following = F.expr("lead(_change) IGNORE NULLS").over(by_key(keys))
    next_time = F.col("_next.event_time")
    is_late = F.coalesce(is_read & (F.col("event_time") > next_time), F.lit(False))
    timed = marked.withColumn("_next", following).withColumn("_is_late", is_late)
    kept = timed.where(~(F.col("_is_late") & has_no_position(F.col("sequence"))))
    counted = F.when(F.col("_is_late"), next_time).otherwise(F.col("event_time"))
    return kept.withColumn("counted_time", counted).drop("_change", "_next", "_is_late")
