"""Partial images completed by the effects before them on the same key.

The work grows with the number of effects, also where one key has all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from gold.changes.effects import ORDER, by_key, overlay

_PAYLOAD = ("sequence", "event_time", "change_id", "op", "is_upsert", "is_deleted")
_ROWS = 256
"""How many images are Python objects at a time."""


def fold_images(all_effects: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Completes each `after` from earlier effects on its key, and adds `is_whole` and `is_reset`.

    `is_whole` is true where all columns of the row are known. `is_reset` is true where an image does not
    build on the one before it: for removals, whole images, and rows that take the key by a key change.
    """
    window = by_key(keys)
    is_reset = _is_reset()
    if "_superseded" in all_effects.columns:
        is_reset = is_reset & ~F.col("_superseded")
    numbered = all_effects.withColumn("is_reset", is_reset).withColumns(
        {
            "is_whole": F.max("is_reset").over(window),
            "_begins": F.col("is_reset") | (F.row_number().over(window) == 1),
        }
    )
    ordered = numbered.sortWithinPartitions(*keys, *ORDER)  # a window leaves all effects of a key together
    return ordered.mapInArrow(complete_images, ordered.schema).drop("_begins")


def complete_images(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Completes `after` row by row: each image adds its columns to those of the rows above it.

    Rows have `_begins` where nothing of the rows above counts, and `is_upsert`; `after` is null in others.
    """
    image: dict[str, str | None] = {}
    for batch in batches:
        for start in range(0, batch.num_rows, _ROWS):
            rows = batch.slice(start, _ROWS)
            at = rows.schema.get_field_index("after")
            images: list[list[tuple[str, str | None]] | None] = []
            flags = (rows.column(name).to_pylist() for name in ("_begins", "is_upsert"))
            for begins, is_upsert, own in zip(*flags, rows.column(at).to_pylist(), strict=True):
                image = {} if begins else image
                if is_upsert:
                    image.update(own or ())
                images.append(list(image.items()) if is_upsert else None)
            yield rows.set_column(at, rows.schema.field(at), pa.array(images, rows.schema.field(at).type))


def newest_images(all_effects: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The newest effect of each key, with `after` completed from the effects before it.

    Args:
        all_effects: Effects with `is_deleted`.
        keys: The names of the key columns.

    Returns:
        The key, `sequence`, `event_time`, `change_id`, `op`, `is_upsert`, `after`, `is_deleted`, `is_whole`:
        whether all columns of the row are known, and `known`: `after`, where columns that had no value at
        the newest effect with `is_deleted` have that of its `before`.
    """
    empty = F.create_map().cast("map<string,string>")
    parts = newest_parts(all_effects, keys)
    cell = F.struct("_at", F.col("_name").alias("key"), F.col("_text.value").alias("value"))
    newest = parts.groupBy(*keys).agg(
        F.first("_newest", ignorenulls=True).alias("p"),
        F.first("_base", ignorenulls=True).alias("_base"),
        F.first("_deleted", ignorenulls=True).alias("_deleted"),
        F.collect_list(F.when(F.col("_name").isNotNull(), cell)).alias("_cells"),
    )
    base = F.col("_base")
    later = F.filter("_cells", lambda c: base.isNull() | (c["_at"] > base["at"]))
    added = F.map_from_entries(
        F.transform(F.array_sort(later), lambda c: F.struct(c["key"].alias("key"), c["value"].alias("value")))
    )
    image = overlay(F.coalesce(base["image"], empty), added)
    states = newest.select(
        *keys,
        *(F.col(f"p.{name}") for name in _PAYLOAD),
        F.when(F.col("p.is_upsert"), image).alias("after"),
        base.isNotNull().alias("is_whole"),
        "_deleted",
        "_cells",
        base["at"].alias("_base_at"),
    )
    return states.withColumn("known", _known_image()).drop("_deleted", "_cells", "_base_at")


def _known_image() -> Column:
    """`after` with the values of the newest delete's image, wherever the row had none at that time."""
    deleted, after = F.col("_deleted"), F.col("after")
    since = F.transform(F.filter("_cells", lambda c: c["_at"] > deleted["at"]), lambda c: c["key"])
    values = F.map_filter(deleted["image"], lambda name, _: ~F.array_contains(since, name))
    known = overlay(values, F.map_filter(after, lambda _, value: value.isNotNull()))
    is_older = F.coalesce(deleted["at"] < F.col("_base_at"), F.lit(False))
    return F.when(deleted.isNull() | is_older, after).otherwise(known)


def newest_parts(all_effects: DataFrame, keys: Sequence[str]) -> DataFrame:
    """What the newest image of each key is made of: rows for a key are as many as its columns, and one.

    Returns:
        The key with `_name`. Where it is null: `_newest`, the newest effect, and `_base`, the newest effect
        that does not build on others (`at`, its place in the order, and `image`), null where there is none;
        `_deleted`, the same of the newest effect with `is_deleted` and a `before`: the values there.
        Else `_text` has the newest value of this column in a partial image (`value`), and `_at` its place.
    """
    is_reset, at = _is_reset(), F.struct(*ORDER)
    entries = F.when(F.col("is_upsert") & ~is_reset, F.map_entries("after"))
    # the first element is null: it stands for the effect itself
    cells = F.concat(
        F.array(F.lit(None).cast("struct<key:string,value:string>")), F.coalesce(entries, F.array())
    )
    image = F.when(F.col("is_upsert"), F.col("after"))
    values = F.map_filter("before", lambda _, value: value.isNotNull())
    is_deleted = F.col("is_deleted") & F.col("before").isNotNull()
    exploded = all_effects.select(
        *keys,
        at.alias("_order"),
        F.struct(*_PAYLOAD).alias("_effect"),
        F.when(is_reset, F.struct(at.alias("at"), image.alias("image"))).alias("_reset"),
        F.when(is_deleted, F.struct(at.alias("at"), values.alias("image"))).alias("_deleted"),
        F.explode(cells).alias("_cell"),
    )
    is_effect = F.col("_cell").isNull()
    named = exploded.select(
        *keys,
        "_order",
        F.col("_cell.key").alias("_name"),
        F.when(is_effect, F.col("_effect")).alias("_effect"),
        F.when(is_effect, F.col("_reset")).alias("_reset"),
        F.when(is_effect, F.col("_deleted")).alias("_deleted"),
        F.when(~is_effect, F.struct(F.col("_cell.value").alias("value"))).alias("_value"),
    )
    return named.groupBy(*keys, "_name").agg(
        F.max_by("_effect", "_order").alias("_newest"),
        F.max_by("_reset", F.col("_reset.at")).alias("_base"),
        F.max_by("_deleted", F.col("_deleted.at")).alias("_deleted"),
        F.max_by("_value", "_order").alias("_text"),
        F.max("_order").alias("_at"),
    )


def _is_reset() -> Column:
    is_partial = F.coalesce(F.col("partial"), F.lit(False))
    return ~F.col("is_upsert") | F.col("is_key_change") | ~is_partial
