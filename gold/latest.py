"""The newest state of each key: effects in, one row a key out. Total: two effects never compare equal."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from gold.changes import laid_over

_ORDER = ("sequence", "rank", "is_whole_change", "change_id")


def latest(found: DataFrame, keys: Sequence[str], *, has_moves: bool, has_partials: bool) -> DataFrame:
    """One row a key: k0…, `sequence`, `event_time`, `change_id`, `op`, `is_put`, `after`, `is_whole`.

    `is_whole` is false where `after` holds only some columns and the rest is what the replica has.
    """
    if has_moves:
        found = without_shielded(found, keys)
    if has_partials:
        return _folded(found, keys)
    payload = F.struct("sequence", "event_time", "change_id", "op", "is_put", "after")
    newest = found.groupBy(*keys).agg(F.max_by(payload, F.struct(*_ORDER)).alias("p"))
    return newest.select(*keys, "p.*", F.lit(True).alias("is_whole"))


def by_key(keys: Sequence[str]) -> WindowSpec:
    """The effects of each key in their order."""
    return Window.partitionBy(*keys).orderBy(*_ORDER)


def without_shielded(found: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Effects without those where a key change leaves a key that another one of its transaction has just taken.

    `UPDATE t SET id = 3 - id` swaps two rows: the second row's leaving of its old key must not remove the first row,
    which stands there now. Where the image before the change is the very row that stands there, it did leave.
    """
    window = by_key(keys)
    before_it = F.lag(F.struct("is_put", "is_move", "transaction_id", "event_time", "after")).over(window)
    marked = found.withColumn("_last", before_it)
    same = F.coalesce(
        F.col("transaction_id") == F.col("_last.transaction_id"),
        F.col("event_time").eqNullSafe(F.col("_last.event_time")),
    )
    is_leave = F.col("is_move") & ~F.col("is_put")
    stands = F.map_entries(F.col("_last.after"))
    was = F.map_entries(F.col("before"))
    is_same_row = F.array_sort(stands).eqNullSafe(F.array_sort(was))
    shielded = is_leave & F.col("_last.is_put") & F.col("_last.is_move") & same & ~is_same_row
    return marked.where(~F.coalesce(shielded, F.lit(False))).drop("_last")


def folded_images(found: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Every effect with `after` as the row then was, as far as the effects tell, and `is_whole`: all of it is known."""
    window = by_key(keys)
    is_reset = ~F.col("is_put") | ~F.coalesce(F.col("partial"), F.lit(False))
    numbered = found.withColumn("_since", F.sum(is_reset.cast("int")).over(window))
    since = Window.partitionBy(*keys, "_since").orderBy(*_ORDER).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    images = F.collect_list(F.when(F.col("is_put"), F.col("after"))).over(since)
    whole: Column = F.aggregate(images, F.create_map().cast("map<string,string>"), lambda acc, image: laid_over(acc, image))
    return numbered.withColumn("after", F.when(F.col("is_put"), whole)).withColumn("is_whole", F.col("_since") > 0).drop("_since")


def _folded(found: DataFrame, keys: Sequence[str]) -> DataFrame:
    folded = folded_images(found, keys)
    payload = F.struct("sequence", "event_time", "change_id", "op", "is_put", "after", "is_whole")
    newest = folded.groupBy(*keys).agg(F.max_by(payload, F.struct(*_ORDER)).alias("p"))
    return newest.select(*keys, "p.*")
