"""Partial changes of the key: what such a change leaves out is what the row under its old key held.

The old key's row may be the work of another batch, and may itself have come by a partial change of the key. Each such
change is a link to the one from which the row under its old key descends; links are followed twice as far each round.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from framework.session import is_connect
from gold.changes import effects, key_names, laid_over
from gold.columns import TableColumn
from gold.latest import by_key, folded_images, with_shields

_EMPTY = "map<string,string>"


def completed(rows: DataFrame, keys: Sequence[TableColumn], truncated_at: str | None) -> DataFrame:
    """The rows, in which every partial change of the key has the whole image of the row that it makes.

    `rows` are all changes of the table, `truncated_at` is its newest truncate. Columns that no change has told are missing
    from the image. Runs jobs: as many as the logarithm of how often one row has changed its key.
    """
    found = _followed(_links(effects(rows, keys), key_names(len(keys)), truncated_at))
    images = found.select("change_id", F.col("image").alias("_image"))
    is_linked = F.col("_image").isNotNull() & F.col("half").isNull() & F.col("before").isNotNull()
    joined = rows.join(images, "change_id", "left")
    joined = joined.withColumn("after", F.when(is_linked, F.col("_image")).otherwise(F.col("after")))
    joined = joined.withColumn("partial", F.when(is_linked, F.lit(False)).otherwise(F.col("partial")))
    return joined.select(*rows.columns)


def reached(rows: DataFrame, keys: Sequence[TableColumn], after: str) -> DataFrame:
    """The keys that changes of the key beyond a position have put: what came late may concern the rows there."""
    found = effects(rows, keys)
    return found.where(F.col("is_move") & F.col("is_put") & (F.col("sequence") > after)).select(*key_names(len(keys)))


def _is_partial_move() -> Column:
    return F.col("is_move") & F.coalesce(F.col("partial"), F.lit(False))


def _links(found: DataFrame, keys: Sequence[str], truncated_at: str | None) -> DataFrame:
    """A row a partial change of the key: its image as far as the old key's effects tell, and `from`, the one before it.

    `from` is the partial change of the key by which the row under the old key came, null where there is none.
    """
    left = found.where(_is_partial_move() & ~F.col("is_put"))
    wanted = left.select(*(F.col(k).alias(f"_{k}") for k in keys)).distinct()
    same = F.lit(True)
    for key in keys:
        same = same & F.col(key).eqNullSafe(F.col(f"_{key}"))
    stands = stood(found.join(wanted, same, "left_semi"), keys, truncated_at)
    told = stands.where(_is_partial_move() & ~F.col("is_put"))
    under = F.coalesce(F.col("_row.image"), F.create_map().cast(_EMPTY))
    image = laid_over(under, F.coalesce(F.col("_own"), F.create_map().cast(_EMPTY)))
    return told.select("change_id", image.alias("image"), F.col("_row.from").alias("from")).dropDuplicates(["change_id"])


def stood(found: DataFrame, keys: Sequence[str], truncated_at: str | None) -> DataFrame:
    """The effects with `_own`, their own image, and `_row`, which row stood on the key before: null where none did.

    `_row` holds `image`, as far as the effects tell it, and `from`, the partial change of the key by which it came.
    """
    marked = with_shields(found, keys, truncated_at)
    own = marked.select("*", F.col("after").alias("_own"))
    folded = folded_images(own, keys)
    window = by_key(keys)
    so_far = window.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    earlier = window.rowsBetween(Window.unboundedPreceding, -1)
    comes = F.when(F.col("is_put") & _is_partial_move(), F.col("change_id"))
    folded = folded.withColumn("_comes", F.last(F.when(F.col("is_reset"), F.struct(comes.alias("id"))), ignorenulls=True).over(so_far))
    stands = F.struct("is_put", F.col("after").alias("image"), F.col("_comes.id").alias("from"))
    folded = folded.withColumn("_stands", F.when(~F.col("_shielded"), stands))
    folded = folded.withColumn("_stood", F.last("_stands", ignorenulls=True).over(earlier))
    both = F.when(~F.col("_shielded"), F.struct(F.col("_stands").alias("last"), F.col("_stood").alias("before")))
    folded = folded.withColumn("_two", F.last(both, ignorenulls=True).over(earlier))
    row = F.when(F.col("_shielded"), F.col("_two.before")).otherwise(F.col("_two.last"))
    return folded.withColumn("_row", F.when(row["is_put"], row))


def _followed(links: DataFrame) -> DataFrame:
    """The links without `from`: their images hold what all links before them knew."""
    links = _cut(links)
    while not links.where(F.col("from").isNotNull()).isEmpty():
        earlier = links.select(F.col("change_id").alias("_id"), F.col("image").alias("_under"), F.col("from").alias("_from"))
        joined = links.join(earlier, F.col("from") == F.col("_id"), "left")
        image = F.when(F.col("_id").isNull(), F.col("image")).otherwise(laid_over(F.col("_under"), F.col("image")))
        links = _cut(joined.select("change_id", image.alias("image"), F.col("_from").alias("from")))
    return links


def _cut(links: DataFrame) -> DataFrame:
    """The links as they are now, without the plan that has led to them: each round would double it.

    On Spark Connect they pass through here: a checkpoint there belongs to the thread's session, which is not the one at work.
    """
    spark = links.sparkSession
    return spark.createDataFrame(links.toArrow(), links.schema) if is_connect(spark) else links.localCheckpoint()
