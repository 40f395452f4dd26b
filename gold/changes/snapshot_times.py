"""What the rows of snapshots count for, by the times of the changes after them.

The place of a snapshot's row in the order of the source may be before changes that the snapshot has read
already: rows without a position come before all changes of their epoch, whenever they were read. Their time
then says when somebody looked, not since when the row has been so. Nor need it be the row that had the key
before those changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
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


def mark_rows_of_later_owners(all_effects: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Adds `_is_of_later_owner`: when a snapshot read the key, it had another row than before the changes.

    That is so for a row without a position which is newer than the change with which another row took the
    key, and than all changes before that one. It says nothing of the rows that had the key before. Where no
    other row took the key by then, its time is later than what it shows.

    Args:
        all_effects: Effects, as `effects` returns them.
        keys: The names of the key columns.
    """
    window, is_read = by_key(keys), F.col("op") == str(Op.READ)
    so_far = window.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    was_there = F.coalesce(F.lag("is_upsert").over(window), F.lit(True))
    is_other = ~is_read & F.col("is_upsert") & (F.col("is_key_change") | ~was_there)
    newest = F.max(F.when(~is_read, F.col("event_time"))).over(so_far)
    marked = all_effects.withColumn("_taken", F.when(is_other, F.struct(newest.alias("time"))))
    marked = marked.withColumn("_next", F.expr("lead(_taken) IGNORE NULLS").over(window))
    is_newer = F.col("event_time") > F.col("_next.time")
    is_mine = is_read & has_no_position(F.col("sequence")) & is_newer
    return marked.withColumn("_is_of_later_owner", F.coalesce(is_mine, F.lit(False))).drop("_taken", "_next")


def without_rows_of_later_owners(all_effects: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The effects without those that `mark_rows_of_later_owners` marks."""
    marked = mark_rows_of_later_owners(all_effects, keys)
    return marked.where(~F.col("_is_of_later_owner")).drop("_is_of_later_owner")
