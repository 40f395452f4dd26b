"""The newest state of each key: effects in, one row a key out. Total: two effects never compare equal."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from framework.config_rules import Deletes
from gold.changes import laid_over
from gold.merge import Rules

_PAYLOAD = ("sequence", "event_time", "change_id", "op", "is_put", "after", "is_deleted", "before")
_ORDER = ("sequence", "rank", "is_whole_change", "change_id")


def latest(found: DataFrame, keys: Sequence[str], rules: Rules, *, has_moves: bool) -> DataFrame:
    """One row a key: k0…, `sequence`, `event_time`, `change_id`, `op`, `is_put`, `after`, `is_whole`, `is_deleted`, `before`.

    `is_whole` is false where `after` holds only some columns and the rest is what the replica has. Where deletes only
    mark a row, `is_deleted` says that it is marked, and the row is the last that stood on the key (`before` holds what
    the delete told of it); where they are ignored, only changes of the key take a row away.
    """
    if has_moves:
        found = without_shielded(found, keys, rules.truncated_at)
    found = found.withColumn("is_deleted", F.lit(False))
    if rules.deletes is Deletes.IGNORE:
        found = found.where(F.col("is_put") | F.col("is_move"))
    if rules.deletes is Deletes.SOFT:
        return _folded(_marked(found), keys)
    if rules.has_partials:
        return _folded(found, keys)
    newest = found.groupBy(*keys).agg(F.max_by(F.struct(*_PAYLOAD), F.struct(*_ORDER)).alias("p"))
    return newest.select(*keys, "p.*", F.lit(True).alias("is_whole"))


def _marked(found: DataFrame) -> DataFrame:
    """Effects where taking a key away is a change of its row that tells no column, marked `is_deleted`."""
    is_put = F.col("is_put")
    return found.withColumns(
        {
            "is_deleted": ~is_put,
            "after": F.when(is_put, F.col("after")).otherwise(F.create_map().cast("map<string,string>")),
            "partial": F.when(is_put, F.col("partial")).otherwise(F.lit(True)),
            "is_move": is_put & F.col("is_move"),
            "is_put": F.lit(True),
        }
    )


def by_key(keys: Sequence[str]) -> WindowSpec:
    """The effects of each key in their order."""
    return Window.partitionBy(*keys).orderBy(*_ORDER)


def without_shielded(found: DataFrame, keys: Sequence[str], truncated_at: str | None = None) -> DataFrame:
    """Effects without those where a key change leaves a key that another one of its transaction has just taken.

    `UPDATE t SET id = 3 - id` swaps two rows: the second row's leaving of its old key must not remove the first row,
    which stands there now. It is such a swap where a row stood on the key before the first one came; where that is not
    known, where the image before the change is another row than the one that stands there. What stood there before a
    truncate stands there no more.
    """
    marked = with_shields(found, keys, truncated_at)
    return marked.where(~F.col("_shielded")).drop("_shielded")


def with_shields(found: DataFrame, keys: Sequence[str], truncated_at: str | None = None) -> DataFrame:
    """Effects with `_shielded`: whether a leave does not touch the row that stands there."""
    window = by_key(keys)
    following = F.lead(F.struct("change_id", "is_put")).over(window)
    is_completed = ~F.col("is_whole_change") & (following["change_id"] == F.col("change_id")) & following["is_put"]
    whole = found.withColumn("_completed", is_completed).where(~F.coalesce("_completed", F.lit(False))).drop("_completed")
    effect = F.struct("is_put", "is_move", "transaction_id", "event_time", "after", "sequence")
    marked = whole.withColumns({"_last": F.lag(effect).over(window), "_stood": F.lag(effect, 2).over(window), "_self": effect})
    is_leave = F.col("is_move") & ~F.col("is_put")
    stands = F.col("_last.after")
    is_same_row = F.forall(
        F.map_entries("before"), lambda e: ~F.map_contains_key(stands, e["key"]) | F.try_element_at(stands, e["key"]).eqNullSafe(e["value"])
    )
    floor = F.lit(truncated_at)
    is_emptied = F.coalesce((F.col("_stood.sequence") < floor) & (F.col("sequence") >= floor), F.lit(False))
    was_taken = (
        F.when(F.col("_stood").isNull(), ~is_same_row)
        .when(is_emptied, F.lit(False))
        .when(F.col("_stood.is_put"), F.lit(True))
        .when(~F.col("_stood.is_move"), F.lit(False))  # else it is the leave before this one: taken if that was shielded
    )
    marked = marked.withColumn("_taken", F.when(is_leave, F.when(_arrives_with("_last", "_self"), was_taken).otherwise(F.lit(False))))
    is_taken = F.last("_taken", ignorenulls=True).over(window.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    marked = marked.withColumn("_shielded", is_leave & F.coalesce(is_taken, F.lit(False)))
    return marked.drop("_last", "_stood", "_self", "_taken")


def _arrives_with(one: str, other: str) -> Column:
    """Whether `one` is a row that takes this key by a key change, in the transaction of `other`; false where it is null."""
    is_together = F.coalesce(
        F.col(f"{one}.transaction_id") == F.col(f"{other}.transaction_id"),
        F.col(f"{one}.event_time").eqNullSafe(F.col(f"{other}.event_time")),
    )
    return F.coalesce(F.col(f"{one}.is_put") & F.col(f"{one}.is_move") & is_together, F.lit(False))


def folded_images(found: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Every effect with `after` as the row then was, as far as the effects tell, and `is_whole`: all of it is known.

    A row that takes the key by a key change owes nothing to the one that stood there: the image begins anew, `is_reset`.
    """
    window = by_key(keys)
    is_reset = ~F.col("is_put") | F.col("is_move") | ~F.coalesce(F.col("partial"), F.lit(False))
    if "_shielded" in found.columns:
        is_reset = is_reset & ~F.col("_shielded")
    found = found.withColumn("is_reset", is_reset)
    numbered = found.withColumn("_since", F.sum(F.col("is_reset").cast("int")).over(window))
    since = Window.partitionBy(*keys, "_since").orderBy(*_ORDER).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    images = F.collect_list(F.when(F.col("is_put"), F.col("after"))).over(since)
    whole: Column = F.aggregate(images, F.create_map().cast("map<string,string>"), lambda acc, image: laid_over(acc, image))
    return numbered.withColumn("after", F.when(F.col("is_put"), whole)).withColumn("is_whole", F.col("_since") > 0).drop("_since")


def _folded(found: DataFrame, keys: Sequence[str]) -> DataFrame:
    folded = folded_images(found, keys)
    newest = folded.groupBy(*keys).agg(F.max_by(F.struct(*_PAYLOAD, "is_whole"), F.struct(*_ORDER)).alias("p"))
    return newest.select(*keys, "p.*")
