"""The newest rows of changes that need no care: whole images, of which none changes its key.

Most changes are like that. Each of them has one effect, on the key in its own image, so its cells are made
once, before changes of one key meet: they serve as the key, show what does not fit, and are smaller to sort
than images.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from framework.config.tables import Deletes
from framework.spark.planned_rows import seen
from framework.spark.session import is_connect
from gold.changes.effects import ORDER, key_names
from gold.changes.merge_policy import MergePolicy
from gold.changes.wide_images import WIDE
from gold.planning.plan import Plan
from gold.schema.casting import IMPRECISE, may_be_imprecise, typed, typed_key
from gold.schema.layout import Layout
from gold.writing.key_bounds import key_measures

_OF_CHANGE = ("sequence", "event_time", "change_id", "rank", "is_whole_change", "is_upsert")
_SYSTEM = {
    "_cdc_sequence": "sequence",
    "_cdc_event_time": "event_time",
    "_cdc_change_id": "change_id",
}


def are_plain(plan: Plan, policy: MergePolicy) -> bool:
    """Whether `plain_rows` has what the general way (`gold.changes.latest`) would find of the new changes.

    Very wide images are faster to spread after the reduction.
    """
    return have_one_effect(plan, policy) and len(plan.layout.columns) < WIDE


def have_one_effect(plan: Plan, policy: MergePolicy) -> bool:
    """Whether each new change makes a row, or removes one, by its own image alone.

    Soft deletes keep the cells of the row before.
    """
    return not (
        policy.has_partials
        or policy.deletes is Deletes.SOFT
        or plan.batch_profile.has_key_changes
        or plan.has_new_former_keys
    )


def plain_cells(rows: DataFrame, layout: Layout) -> DataFrame:
    """Row changes with their cells, for `plain_rows`.

    Args:
        rows: Row changes with current column names.
        layout: The columns of the table, whose changes are plain.

    Returns:
        `sequence`, `event_time`, `change_id`, `rank` and `is_whole_change` as effects have them, `is_upsert`,
        k0…, c0…, `is_faulty`: the change has a cell to list, and `is_bad`: it has no effect, because its key
        is not there or does not fit.
    """
    is_delete = F.col("op") == "delete"
    before_has_key = _has(F.col("before"), layout.keys)
    image = F.when(is_delete & before_has_key, F.col("before")).otherwise(F.col("after"))
    spread = rows.select(
        "sequence",
        "event_time",
        "change_id",
        F.when(is_delete, 2).otherwise(1).alias("rank"),
        F.col("half").isNull().alias("is_whole_change"),
        (~is_delete).alias("is_upsert"),
        # bad values are looked for in the image before a delete, wherever its key is
        (is_delete & F.col("before").isNotNull() & ~before_has_key).alias("has_other_image"),
        image.alias("image"),
    )
    columns = list(enumerate(layout.columns))
    texts = spread.select(
        *_OF_CHANGE,
        "has_other_image",
        _has(F.col("image"), layout.keys).alias("has_key"),
        *(F.try_element_at("image", F.lit(column.name)).alias(f"t{i}") for i, column in columns),
    )
    at = {column.name: i for i, column in columns}
    keys = [at[name] for name in layout.keys]
    cells = texts.select(
        "*",
        *(
            (typed_key if i in keys else typed)(F.col(f"t{i}"), column.type).alias(f"c{i}")
            for i, column in columns
        ),
    )
    is_bad = reduce(lambda one, other: one | other, (_is_lost(i) for i in keys), ~F.col("has_key"))
    tests = [_is_lost(i) for i, column in columns if column.type != "string"]
    tests += [
        F.coalesce(may_be_imprecise(F.col(f"t{i}"), column.type), F.lit(False))
        for i, column in columns
        if column.type in IMPRECISE and i not in keys
    ]
    return cells.select(
        *_OF_CHANGE,
        *(F.col(f"c{i}").alias(name) for i, name in zip(keys, key_names(len(keys)), strict=True)),
        *(f"c{i}" for i, _ in columns),
        reduce(lambda one, other: one | other, tests, is_bad | F.col("has_other_image")).alias("is_faulty"),
        is_bad.alias("is_bad"),
    )


def _has(image: Column, names: tuple[str, ...]) -> Column:
    """Whether an image has all these columns; never null."""
    return F.coalesce(
        reduce(lambda one, other: one & other, (F.map_contains_key(image, F.lit(name)) for name in names)),
        F.lit(False),
    )


def _is_lost(number: int) -> Column:
    return F.col(f"t{number}").isNotNull() & F.col(f"c{number}").isNull()


def plain_rows(cells: DataFrame, layout: Layout, policy: MergePolicy) -> DataFrame:
    """The newest row of each key, for `merge_latest` or `replace_table`.

    Args:
        cells: What `plain_cells` returns.
        layout: The columns of the table.
        policy: How deletes and truncates are treated.

    Returns:
        k0…, c0…, the system columns, `is_upsert` and `is_forced`.
    """
    keys = key_names(len(layout.keys))
    effective = cells.where(~F.col("is_bad"))
    if policy.truncated_at is not None:
        effective = effective.where(F.col("sequence") >= policy.truncated_at)
    if policy.deletes is Deletes.IGNORE:
        effective = effective.where("is_upsert")
    newest_first = Window.partitionBy(*keys).orderBy(*(F.col(name).desc() for name in ORDER))
    newest = effective.withColumn("_place", F.row_number().over(newest_first)).where("_place = 1")
    own = {**{name: F.col(column) for name, column in _SYSTEM.items()}, "_cdc_deleted": F.lit(False)}
    return newest.select(
        *keys,
        "is_upsert",
        F.lit(False).alias("is_forced"),
        *layout.cells,
        *(own[name].alias(name) for name in layout.system),
    )


class Facts:
    """What Spark sees of changes on their way to a table: no job of its own looks for it."""

    def __init__(self, cells: DataFrame, layout: Layout) -> None:
        """Prepares the look.

        Args:
            cells: What `plain_cells` returns.
            layout: The columns of the table.
        """
        measures = [F.count(F.lit(1)).alias("changes"), F.max("is_faulty").alias("is_faulty")]
        measures += key_measures(layout.key_columns, ~F.col("is_bad"))
        self._name = f"facts {uuid.uuid4().hex}"
        self.cells = cells if is_connect(cells.sparkSession) else cells.observe(self._name, *measures)

    def seen(self, rows: DataFrame) -> Mapping[str, Any] | None:
        """What was seen while these rows, which come from the cells, were computed; None if unknown.

        `changes`, how many there are, `is_faulty`, whether one is, and what `key_measures` measures.
        """
        return seen(rows, self._name)

    def all_fit(self, rows: DataFrame, count: int) -> bool:
        """Whether so many changes were seen then, and each of them surely fits its columns."""
        found = self.seen(rows)
        return found is not None and found["changes"] == count and found["is_faulty"] is False


def watched_rows(
    rows: DataFrame, plan: Plan, policy: MergePolicy, *, is_watched: bool
) -> tuple[DataFrame, Facts | None]:
    """What `plain_rows` makes of plain changes, and what is seen of them on their way.

    Args:
        rows: Row changes with current column names.
        plan: The plan of their table.
        policy: How its changes are merged.
        is_watched: Whether anybody wants to know what is seen; else there is nothing.
    """
    cells = plain_cells(rows, plan.layout)
    facts = Facts(cells, plan.layout) if is_watched else None
    return plain_rows(cells if facts is None else facts.cells, plan.layout, policy), facts
