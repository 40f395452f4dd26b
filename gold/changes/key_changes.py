"""Partial key changes: the columns that such a change leaves out are those of the row with the old key.

That row may come from another batch, and may itself come from a partial key change. Each such change is
linked to the one that made its row; each round follows the links twice as far.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from framework.naming import quoted
from framework.spark.local_frame import arrow_frame
from framework.spark.session import is_connect
from gold.changes.effects import by_key, effects, key_names, overlay
from gold.changes.folded_images import fold_images
from gold.changes.latest import mark_superseded_leaves
from gold.schema.columns import TableColumn

_EMPTY = "map<string,string>"
MOST_IN_PROCESS = 10_000
"""How many rows pass through this process on Spark Connect, to be data without a plan."""


def fill_partial_key_changes(
    rows: DataFrame, keys: Sequence[TableColumn], truncated_at: str | None, among: Column | None = None
) -> DataFrame:
    """Gives every partial key change the whole image of its row, and sets its `partial` to false.

    Columns that no change has a value of stay missing. Runs as many jobs as the logarithm of how often one
    row has changed its key.

    Args:
        rows: All row changes of the table, with current column names.
        keys: The key columns.
        truncated_at: The position of the newest truncate.
        among: Which rows count; None for all. The others stay as they are.

    Returns:
        The rows with the same columns.
    """
    mine = rows if among is None else rows.where(among)
    links = _follow(_links(effects(mine, keys), key_names(len(keys)), truncated_at))
    images = links.select("change_id", F.col("image").alias("_image"))
    is_linked = F.col("_image").isNotNull() & F.col("half").isNull() & F.col("before").isNotNull()
    is_linked = is_linked if among is None else is_linked & among
    joined = rows.join(images, "change_id", "left")
    joined = joined.withColumn("after", F.when(is_linked, F.col("_image")).otherwise(F.col("after")))
    joined = joined.withColumn("partial", F.when(is_linked, F.lit(False)).otherwise(F.col("partial")))
    return joined.select(*(F.col(quoted(name)) for name in rows.columns))


def keys_reached(rows: DataFrame, keys: Sequence[TableColumn], after: str) -> DataFrame:
    """The keys (k0…) that key changes after a position reached: a late change may concern the rows there."""
    all_effects = effects(rows, keys)
    return all_effects.where(
        F.col("is_key_change") & F.col("is_upsert") & (F.col("sequence") > after)
    ).select(*key_names(len(keys)))


def _is_partial_key_change() -> Column:
    return F.col("is_key_change") & F.coalesce(F.col("partial"), F.lit(False))


def _links(all_effects: DataFrame, keys: Sequence[str], truncated_at: str | None) -> DataFrame:
    """One row for each partial key change: `change_id`, `image` and `from`.

    `image` is what the effects on the old key know of the row. `from` is the partial key change that made
    the row with the old key, null where there is none.
    """
    leaves = all_effects.where(_is_partial_key_change() & ~F.col("is_upsert"))
    wanted = leaves.select(*(F.col(k).alias(f"_{k}") for k in keys)).distinct()
    same = F.lit(True)
    for key in keys:
        same = same & F.col(key).eqNullSafe(F.col(f"_{key}"))
    with_rows = row_before(all_effects.join(wanted, same, "left_semi"), keys, truncated_at)
    linked = with_rows.where(_is_partial_key_change() & ~F.col("is_upsert"))
    base = F.coalesce(F.col("_row.image"), F.create_map().cast(_EMPTY))
    image = overlay(base, F.coalesce(F.col("_own"), F.create_map().cast(_EMPTY)))
    links = linked.select("change_id", image.alias("image"), F.col("_row.from").alias("from"))
    return links.dropDuplicates(["change_id"])


def row_before(all_effects: DataFrame, keys: Sequence[str], truncated_at: str | None) -> DataFrame:
    """Adds `_own`, the effect's own image, and `_row`, the row that had the key before it.

    `_row` is null where no row had the key. It has `image`, as far as the effects know it, and `from`, the
    partial key change that made the row.
    """
    marked = mark_superseded_leaves(all_effects, keys, truncated_at)
    own = marked.select("*", F.col("after").alias("_own"))
    folded = fold_images(own, keys)
    window = by_key(keys)
    so_far = window.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    earlier = window.rowsBetween(Window.unboundedPreceding, -1)
    maker = F.when(F.col("is_upsert") & _is_partial_key_change(), F.col("change_id"))
    folded = folded.withColumn(
        "_maker",
        F.last(F.when(F.col("is_reset"), F.struct(maker.alias("id"))), ignorenulls=True).over(so_far),
    )
    state = F.struct("is_upsert", F.col("after").alias("image"), F.col("_maker.id").alias("from"))
    folded = folded.withColumn("_state", F.when(~F.col("_superseded"), state))
    folded = folded.withColumn("_state_before", F.last("_state", ignorenulls=True).over(earlier))
    both = F.when(
        ~F.col("_superseded"),
        F.struct(F.col("_state").alias("last"), F.col("_state_before").alias("before")),
    )
    folded = folded.withColumn("_two", F.last(both, ignorenulls=True).over(earlier))
    row = F.when(F.col("_superseded"), F.col("_two.before")).otherwise(F.col("_two.last"))
    return folded.withColumn("_row", F.when(row["is_upsert"], row))


def _follow(links: DataFrame) -> DataFrame:
    """The links without `from`: each image has what all links before it know."""
    links = _materialize(links)
    while not links.where(F.col("from").isNotNull()).isEmpty():
        earlier = links.select(
            F.col("change_id").alias("_id"), F.col("image").alias("_base"), F.col("from").alias("_from")
        )
        joined = links.join(earlier, F.col("from") == F.col("_id"), "left")
        image = F.when(F.col("_id").isNull(), F.col("image")).otherwise(
            overlay(F.col("_base"), F.col("image"))
        )
        links = _materialize(joined.select("change_id", image.alias("image"), F.col("_from").alias("from")))
    return links


def _materialize(links: DataFrame) -> DataFrame:
    """The links as data, without the plan that computed them: each round would double it.

    On Spark Connect they pass through this process: a checkpoint belongs to the thread's session there,
    which is not the session at work. Many links stay a plan: one that few rounds double, because hardly any
    row has changed its key often.
    """
    if not is_connect(links.sparkSession):
        return links.localCheckpoint()
    found = links.limit(MOST_IN_PROCESS + 1).toArrow()
    if found.num_rows > MOST_IN_PROCESS:
        return links
    return arrow_frame(links.sparkSession, found, links.schema)
