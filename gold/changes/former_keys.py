"""Completes the images of changes that were sent when the table had another key.

A feed need not send more of the row before a change than its key. Once the table has another key, an image
with the former key alone no longer says which row is meant, nor that an update changed the key. The changes
before it say that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from framework.naming import quoted
from framework.spark.local_frame import arrow_frame
from framework.spark.session import is_connect
from gold.changes.effects import effects_of_all, key_names, lookup, naming_index, overlay
from gold.changes.key_changes import MOST_IN_PROCESS, fill_partial_key_changes, row_before
from gold.changes.latest import is_completed
from gold.changes.profile import Profile
from gold.schema.columns import ColumnNaming, TableColumn
from gold.schema.layout import Layout
from gold.schema.lineage import Lineage

NamedKey = tuple[int, tuple[str, ...]]
"""The naming of a row, and the names of its key columns at that time."""


@dataclass(frozen=True, slots=True)
class FormerKeys:
    """The keys that a table had before the current one, and which rows came with each.

    Attributes:
        lineage: The table's lineage.
        keys: The columns of each former key, in the order in which the keys came.
        indexes: Which of the former keys a key of a row is.
        current: The columns of the current key.
    """

    lineage: Lineage
    keys: tuple[tuple[TableColumn, ...], ...]
    indexes: Mapping[NamedKey, int]
    current: frozenset[str]

    def missing_columns(self, index: int) -> frozenset[str]:
        """The columns of the keys after a former key that are not its own."""
        later = {column.name for key in self.keys[index + 1 :] for column in key} | self.current
        return frozenset(later - {column.name for column in self.keys[index]})

    def index(self) -> Column:
        """The former key of a row, as an index, from its `sequence` and `keys`; null for the current key."""
        return lookup(self.indexes, naming_index(self.lineage), F.col("keys"))


def other_keys(
    profile: Profile, namings: Sequence[ColumnNaming], keys: Sequence[str]
) -> dict[tuple[str, ...], str]:
    """The keys of rows, by current names, that are not `keys`, each with its lowest position."""
    others: dict[tuple[str, ...], str] = {}
    for named_key, low in profile.seen_keys.items():
        names = _current_names(named_key, namings)
        if names is not None and set(names) != set(keys):
            others[names] = min(low, others.get(names, low))
    return others


def former_keys(
    profile: Profile, lineage: Lineage, namings: Sequence[ColumnNaming], layout: Layout
) -> FormerKeys | None:
    """The keys before the current one; None where there are none. `lineage` has names as rows spell them."""
    others = other_keys(profile, namings, layout.keys)
    columns = {column.name: column for column in layout.columns}
    order = [
        names
        for names in sorted(others, key=lambda n: (others[n], n))
        if all(name in columns for name in names)
    ]
    if not order:
        return None
    indexes = {
        named_key: order.index(names)
        for named_key in profile.seen_keys
        if (names := _current_names(named_key, namings)) in order
    }
    keys = tuple(tuple(columns[name] for name in names) for names in order)
    return FormerKeys(lineage, keys, indexes, frozenset(layout.keys))


def _current_names(named_key: NamedKey, namings: Sequence[ColumnNaming]) -> tuple[str, ...] | None:
    naming, names = named_key
    current = [namings[naming].current_name(name) for name in names]
    return tuple(name for name in current if name is not None) if None not in current else None


def with_current_key(
    rows: DataFrame, former: FormerKeys | None, truncated_at: str | None, *, has_partial_key_changes: bool
) -> DataFrame:
    """Completes images with the columns of the current key, wherever the changes before them have them.

    Args:
        rows: All row changes of the table, with current column names.
        former: The keys before the current one; None leaves the rows unchanged.
        truncated_at: The position of the newest truncate.
        has_partial_key_changes: Whether some changes of a key leave columns out.

    Returns:
        The rows with the same columns.
    """
    if former is None:
        return rows
    spark, in_process = rows.sparkSession, False
    if is_connect(spark) and len(former.keys) > 1:
        in_process = rows.limit(MOST_IN_PROCESS + 1).count() <= MOST_IN_PROCESS
    for index, columns in enumerate(former.keys):
        missing = former.missing_columns(index)
        if not missing:
            continue
        is_mine = F.coalesce(former.index() <= index, F.lit(False))
        if has_partial_key_changes:
            rows = fill_partial_key_changes(rows, columns, truncated_at, among=is_mine)
        rows = _fill_images(rows, is_mine, columns, missing, truncated_at)
        if index + 1 == len(former.keys):
            break
        if in_process:
            rows = arrow_frame(spark, rows.toArrow(), rows.schema)
        elif not is_connect(spark):
            rows = rows.localCheckpoint()  # the plan would be as deep as there are former keys
    return rows


def _fill_images(
    rows: DataFrame,
    is_mine: Column,
    key: Sequence[TableColumn],
    missing: frozenset[str],
    truncated_at: str | None,
) -> DataFrame:
    """Completes images of rows that came with `key`: its columns and `missing` come from the row before.

    One pass over the rows: the plan has `rows` once, however many keys the table has had. Rows with other
    keys, or without a key that fits, have a window of their own, and so has a half that is completed.
    """
    own = {name: f"_row{place}" for place, name in enumerate(rows.columns)}
    carried = rows.withColumn("_is_mine", is_mine).withColumns(
        {alias: F.col(quoted(name)) for name, alias in own.items()}
    )
    keys = [*key_names(len(key)), "_apart"]
    is_apart = ~F.col("_is_mine") | F.col("is_bad")
    all_effects = effects_of_all(carried, key, ["_is_mine", *own.values()]).withColumn(
        "_apart", F.when(is_apart, F.col("change_id"))
    )
    all_effects = all_effects.withColumn(
        "_apart", F.when(is_completed(keys), F.col("change_id")).otherwise(F.col("_apart"))
    )
    found = row_before(all_effects, keys, truncated_at).where(~(F.col("is_upsert") & F.col("is_key_change")))
    names = F.array(*(F.lit(name) for name in sorted(missing | {column.name for column in key})))
    is_on_a_row = F.col("op").isin("update", "delete") & F.col("_apart").isNull()
    base = F.when(
        is_on_a_row, F.map_filter(F.col("_row.image"), lambda name, _: F.array_contains(names, name))
    )
    # a half has the row of the update that completes it
    same = Window.partitionBy(own["change_id"])
    found = found.select("_is_mine", base.alias("_base"), *own.values()).withColumn(
        "_base", F.when(F.col("_is_mine"), F.first("_base", ignorenulls=True).over(same))
    )
    before, after, partial = (F.col(own[name]) for name in ("before", "after", "partial"))
    empty = F.create_map().cast("map<string,string>")
    is_partial = after.isNotNull() & F.coalesce(partial, F.lit(False))
    has_base = F.col("_base").isNotNull()
    completed = {
        "before": F.when(has_base, overlay(F.col("_base"), F.coalesce(before, empty))).otherwise(before),
        "after": F.when(has_base & is_partial, overlay(F.col("_base"), after)).otherwise(after),
    }
    return found.select(*(completed.get(name, F.col(alias)).alias(name) for name, alias in own.items()))
