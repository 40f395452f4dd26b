"""Whole updates whose id another update of their row may have: `pair` decides about them.

Where the position and the key identify an update, two updates of one row have at first one id if they share a
position. The id alone then shows no duplicate. Such updates are found here, for Spark and for few rows in
this process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from framework.spark.local_frame import arrow_frame
from silver.changes.same_position import images_of
from silver.changes.staged_rows import column_values, plain_rows
from silver.formats import FORMATS

WITH_HALVES = frozenset(name for name, fmt in FORMATS.items() if fmt.halves)
"""The formats that send updates as two halves."""
UPDATE_OF_HALVES = "kind = 'row' AND op = 'update' AND format IN ({})".format(
    ", ".join(f"'{name}'" for name in sorted(WITH_HALVES))
)
"""Updates, and halves of updates, of these formats."""
IS_UPDATE_OF_HALVES = (
    (pc.field("kind") == "row") & (pc.field("op") == "update") & pc.field("format").isin(sorted(WITH_HALVES))
)
"""Updates, and halves of updates, of formats that send halves (UPDATE_OF_HALVES), for Arrow."""


def contested_ids(
    staged: DataFrame, pending: DataFrame, known: DataFrame | None, *, may_repeat: bool
) -> DataFrame:
    """The ids of whole updates that an AFTER half has too, or an update with other images (`change_id`).

    `pair` decides about these updates, because several updates of a row have one id at first.

    Args:
        staged: Decoded rows.
        pending: The halves that wait.
        known: Earlier changes that may have the same ids, or None.
        may_repeat: Whether an id may occur more than once among them and the whole rows.
    """
    mine = staged.where(UPDATE_OF_HALVES).where("half IS NULL OR half = 'after'")
    afters = mine.where("half = 'after'").select("change_id")
    afters = afters.unionByName(pending.where("half = 'after'").select("change_id"))
    whole = mine.where("half IS NULL")
    if not may_repeat:
        return (
            whole.join(F.broadcast(afters.distinct()), "change_id", "left_semi")
            .select("change_id")
            .distinct()
        )
    images = hash_of("before", "after").alias("images")
    shown = whole.select("change_id", images, F.lit(True).alias("is_new"))
    shown = shown.unionByName(
        afters.select("change_id", F.lit(None).alias("images"), F.lit(False).alias("is_new"))
    )
    if known is not None:
        earlier = known.where(UPDATE_OF_HALVES)
        shown = shown.unionByName(earlier.select("change_id", images, F.lit(False).alias("is_new")))
    is_open = F.max(F.col("images").isNull())
    several = shown.groupBy("change_id").agg(
        F.max("is_new").alias("is_new"),
        (is_open | (F.min("images") != F.max("images"))).alias("is_contested"),
    )
    return several.where("is_new AND is_contested").select("change_id")


def hash_of(*images: str) -> Column:
    """A hash of images that does not depend on the order of their columns."""
    return F.xxhash64(*(F.sort_array(F.map_entries(image)) for image in images))


def with_contested(staged: DataFrame, ids: Collection[str] | DataFrame) -> DataFrame:
    """The rows with `is_contested`: whether it is a whole update with one of these ids."""
    if not isinstance(ids, DataFrame):
        named = pa.table({"change_id": pa.array(sorted(ids), pa.string())})
        ids = F.broadcast(arrow_frame(staged.sparkSession, named, "change_id string"))
    marks = ids.withColumn("is_contested", F.lit(True))
    joined = staged.join(marks, "change_id", "left")
    is_whole = F.expr(UPDATE_OF_HALVES) & F.col("half").isNull()
    is_contested = F.coalesce(F.col("is_contested"), F.lit(False)) & is_whole
    return joined.select(*staged.columns, is_contested.alias("is_contested"))


def contested_here(rows: pa.Table, waiting: pa.Table, history: pa.Table | DataFrame | None) -> frozenset[str]:
    """The ids of whole updates that an AFTER half has too, or an update with other images.

    `pair` decides about these updates, because several updates of a row have one id at first.

    Args:
        rows: Decoded rows (STAGED).
        waiting: The halves that wait (CHANGES).
        history: Earlier changes that may have the same ids (CHANGES), of this process or Spark, or None.
    """
    updates = rows.filter(IS_UPDATE_OF_HALVES & pc.field("half").is_null())
    if not updates.num_rows:
        return frozenset()
    times = Counter(map(str, updates.column("change_id").to_pylist()))
    afters = {
        row[0]
        for part in (rows, waiting)
        for row in column_values(part.filter(pc.field("half") == "after"), "change_id")
    }
    found = afters.intersection(times)
    several = {change_id for change_id, count in times.items() if count > 1}
    columns = ["change_id", "before", "after"]
    near = [] if history is None else plain_rows(_with_ids(history, times).select(columns))
    named = pa.array(sorted(several | {row["change_id"] for row in near}), pa.string())
    images: dict[str, set[object]] = {}
    for row in [*near, *plain_rows(updates.filter(pc.field("change_id").isin(named)).select(columns))]:
        images.setdefault(row["change_id"], set()).add(images_of(row))
    return frozenset(found.union(change_id for change_id, mine in images.items() if len(mine) > 1))


def without_updates(rows: pa.Table, ids: Collection[str]) -> pa.Table:
    """The rows (STAGED) without the whole updates that have one of these ids."""
    if not ids:
        return rows
    named = pc.field("change_id").isin(pa.array(sorted(ids), pa.string()))
    return rows.filter(~(IS_UPDATE_OF_HALVES & pc.field("half").is_null() & named))


def _with_ids(history: pa.Table | DataFrame, ids: Iterable[str]) -> pa.Table:
    """The updates, released halves among them, with one of these ids."""
    wanted = pa.array(ids, pa.string())
    if isinstance(history, pa.Table):
        return history.filter(IS_UPDATE_OF_HALVES & pc.field("change_id").isin(wanted))
    frame = arrow_frame(history.sparkSession, pa.table({"change_id": wanted}), "change_id string")
    named = F.broadcast(frame)
    return history.where(F.expr(UPDATE_OF_HALVES)).join(named, "change_id", "left_semi").toArrow()
