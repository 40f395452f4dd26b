"""The newest state of each key: effects in, one row for each key out.

The order of effects is total: no two are equal.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from framework.config.tables import Deletes
from gold.changes.effects import ORDER, by_key
from gold.changes.folded_images import newest_images
from gold.changes.merge_policy import MergePolicy

_PAYLOAD = ("sequence", "event_time", "change_id", "op", "is_upsert", "after", "is_deleted")


def latest(
    all_effects: DataFrame,
    keys: Sequence[str],
    policy: MergePolicy,
    *,
    has_key_changes: bool,
) -> DataFrame:
    """The newest state of each key.

    With soft deletes, a deleted key has its last row, and what the delete says of columns without a value.
    Where deletes are ignored, only key changes remove a row.

    Args:
        all_effects: Effects, as `effects` returns them.
        keys: The names of the key columns: k0….
        policy: How deletes, truncates and partial images are treated.
        has_key_changes: Whether some effects come from key changes.

    Returns:
        One row for each key: k0…, `sequence`, `event_time`, `change_id`, `op`, `is_upsert`, `after`,
        `is_deleted`, `is_whole`, which is false where `after` has only some columns, and the replica has
        the others, and `known`: `after` with what deletes say of columns without a value.
    """
    if has_key_changes:
        all_effects = drop_superseded_leaves(all_effects, keys, policy.truncated_at)
    all_effects = all_effects.withColumn("is_deleted", F.lit(False))
    if policy.deletes is Deletes.IGNORE:
        all_effects = all_effects.where(F.col("is_upsert") | F.col("is_key_change"))
    if policy.deletes is Deletes.SOFT:
        return newest_images(_as_soft_deletes(all_effects), keys)
    if policy.has_partials:
        return newest_images(all_effects, keys)
    payload = F.max_by(F.struct(*_PAYLOAD), F.struct(*ORDER)).alias("p")
    newest = all_effects.groupBy(*keys).agg(payload)
    return newest.select(*keys, "p.*", F.lit(True).alias("is_whole"), F.col("p.after").alias("known"))


def _as_soft_deletes(all_effects: DataFrame) -> DataFrame:
    """Turns each removal of a row into an upsert without columns, marked `is_deleted`."""
    is_upsert = F.col("is_upsert")
    return all_effects.withColumns(
        {
            "is_deleted": ~is_upsert,
            "after": F.when(is_upsert, F.col("after")).otherwise(F.create_map().cast("map<string,string>")),
            "partial": F.when(is_upsert, F.col("partial")).otherwise(F.lit(True)),
            "is_key_change": is_upsert & F.col("is_key_change"),
            "is_upsert": F.lit(True),
        }
    )


def drop_superseded_leaves(
    all_effects: DataFrame, keys: Sequence[str], truncated_at: str | None = None
) -> DataFrame:
    """Drops effects that leave a key which another key change of the transaction has just taken.

    `UPDATE t SET id = 3 - id` swaps two rows: when the second row leaves its old key, the first row has
    that key already and must stay. It is such a swap where a row had the key before the first row came.
    Where that is unknown, it is one where the image before the change is not the row that has the key now.
    Rows from before a truncate do not count.
    """
    marked = mark_superseded_leaves(all_effects, keys, truncated_at)
    return marked.where(~F.col("_superseded")).drop("_superseded")


def mark_superseded_leaves(
    all_effects: DataFrame, keys: Sequence[str], truncated_at: str | None = None
) -> DataFrame:
    """Adds `_superseded`: whether the effect leaves a key that another row of the transaction already has.

    Drops the effect of a half of an update where the next effect on the key is an upsert of the same change,
    unless it has an `_apart`.
    """
    window = by_key(keys)
    is_dropped = is_completed(keys)
    if "_apart" in all_effects.columns:
        is_dropped = is_dropped & F.col("_apart").isNull()
    whole = all_effects.withColumn("_is_dropped", is_dropped).where(~F.col("_is_dropped")).drop("_is_dropped")
    effect = F.struct("is_upsert", "is_key_change", "transaction_id", "event_time", "after", "sequence")
    marked = whole.withColumns(
        {
            "_previous": F.lag(effect).over(window),
            "_second_previous": F.lag(effect, 2).over(window),
            "_self": effect,
        }
    )
    is_leave = F.col("is_key_change") & ~F.col("is_upsert")
    current = F.col("_previous.after")
    is_same_row = F.forall(
        F.map_entries("before"),
        lambda e: (
            ~F.map_contains_key(current, e["key"])
            | F.try_element_at(current, e["key"]).eqNullSafe(e["value"])
        ),
    )
    floor = F.lit(truncated_at)
    is_emptied = F.coalesce(
        (F.col("_second_previous.sequence") < floor) & (F.col("sequence") >= floor), F.lit(False)
    )
    was_taken = (
        F.when(F.col("_second_previous").isNull(), ~is_same_row)
        .when(is_emptied, F.lit(False))
        .when(F.col("_second_previous.is_upsert"), F.lit(True))
        # else null, for a leave before this one: this one is superseded if that one was
        .when(~F.col("_second_previous.is_key_change"), F.lit(False))
    )
    marked = marked.withColumn(
        "_is_taken",
        F.when(is_leave, F.when(_arrives_with("_previous", "_self"), was_taken).otherwise(F.lit(False))),
    )
    is_taken = F.last("_is_taken", ignorenulls=True).over(
        window.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    marked = marked.withColumn("_superseded", is_leave & F.coalesce(is_taken, F.lit(False)))
    return marked.drop("_previous", "_second_previous", "_self", "_is_taken")


def is_completed(keys: Sequence[str]) -> Column:
    """Whether the next effect on the key is the whole update of which this one is a half; never null."""
    following = F.lead(F.struct("change_id", "is_upsert")).over(by_key(keys))
    is_half = ~F.col("is_whole_change") & (following["change_id"] == F.col("change_id"))
    return F.coalesce(is_half & following["is_upsert"], F.lit(False))


def _arrives_with(one: str, other: str) -> Column:
    """Whether the effect `one` takes this key by a key change in the transaction of `other`; never null."""
    is_together = F.coalesce(
        F.col(f"{one}.transaction_id") == F.col(f"{other}.transaction_id"),
        F.col(f"{one}.event_time").eqNullSafe(F.col(f"{other}.event_time")),
    )
    return F.coalesce(F.col(f"{one}.is_upsert") & F.col(f"{one}.is_key_change") & is_together, F.lit(False))
