"""Rows that were told under another key than today's: what their images leave out of today's key, the row that stood there tells.

A feed need not send more of the row before a change than its key. Once the table has another key, an image with the old
one alone no longer says which row is meant, nor that an update moved it. The changes before it say that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from gold.changes import effects, key_names, laid_over, stretch_number
from gold.columns import Stretch, TableColumn
from gold.lineage import Lineage
from gold.merge import Layout
from gold.moves import completed, stood
from gold.profile import Profile

Told = tuple[int, tuple[str, ...]]
"""The stretch of a row, and the names that its key had then."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys that a table had before today's, in the order in which they came, and which rows were told under each."""

    lineage: Lineage
    older: tuple[tuple[TableColumn, ...], ...]
    places: Mapping[Told, int]
    today: frozenset[str]

    def wanted(self, number: int) -> frozenset[str]:
        """The columns of the keys that came after one of the older keys, and are not its own."""
        later = {column.name for key in self.older[number + 1 :] for column in key} | self.today
        return frozenset(later - {column.name for column in self.older[number]})

    def place(self) -> Column:
        """Which of the older keys a row was told under; null for today's."""
        number, found = stretch_number(self.lineage), F.lit(None).cast("int")
        for (stretch, names), place in self.places.items():
            is_told = (number == stretch) & (F.col("keys") == F.array(*(F.lit(name) for name in names)))
            found = F.when(is_told, F.lit(place)).otherwise(found)
        return found


def others(profile: Profile, mapped: Sequence[Stretch], keys: Sequence[str]) -> dict[tuple[str, ...], str]:
    """The keys by today's names that rows were told under and that are not `keys`, with the lowest position of each."""
    found: dict[tuple[str, ...], str] = {}
    for told, low in profile.told_keys.items():
        names = _today(told, mapped)
        if names is not None and set(names) != set(keys):
            found[names] = min(low, found.get(names, low))
    return found


def older_keys(profile: Profile, lineage: Lineage, mapped: Sequence[Stretch], layout: Layout) -> Keys | None:
    """The keys before today's; None where there are none. `lineage` is fitted to the profile."""
    found = others(profile, mapped, layout.keys)
    columns = {column.name: column for column in layout.columns}
    order = [names for names in sorted(found, key=lambda n: (found[n], n)) if all(name in columns for name in names)]
    if not order:
        return None
    places = {told: order.index(names) for told in profile.told_keys if (names := _today(told, mapped)) in order}
    older = tuple(tuple(columns[name] for name in names) for names in order)
    return Keys(lineage, older, places, frozenset(layout.keys))


def _today(told: Told, mapped: Sequence[Stretch]) -> tuple[str, ...] | None:
    stretch, names = told
    today = [mapped[stretch].column(name) for name in names]
    return tuple(name for name in today if name is not None) if None not in today else None


def under_todays_key(rows: DataFrame, keys: Keys | None, truncated_at: str | None, *, has_partial_moves: bool) -> DataFrame:
    """The rows under today's names, all of the table's, with images that tell today's key wherever the changes before them do."""
    if keys is None:
        return rows
    for number, columns in enumerate(keys.older):
        if not keys.wanted(number):
            continue
        is_mine = F.coalesce(keys.place() <= number, F.lit(False))
        mine = rows.where(is_mine)
        if has_partial_moves:
            mine = completed(mine, columns, truncated_at)
        rows = _filled(mine, columns, keys.wanted(number), truncated_at).unionByName(rows.where(~is_mine))
    return rows


def _filled(rows: DataFrame, key: Sequence[TableColumn], wanted: frozenset[str], truncated_at: str | None) -> DataFrame:
    found = stood(effects(rows, key), key_names(len(key)), truncated_at)
    one = found.where(~(F.col("is_put") & F.col("is_move")) & F.col("op").isin("update", "delete") & F.col("_row").isNotNull())
    names = F.array(*(F.lit(name) for name in sorted(wanted | {column.name for column in key})))
    told = F.map_filter(F.col("_row.image"), lambda name, text: F.array_contains(names, name))
    joined = rows.join(one.select("change_id", told.alias("_told")).dropDuplicates(["change_id"]), "change_id", "left")
    empty = F.create_map().cast("map<string,string>")
    is_partial = F.col("after").isNotNull() & F.coalesce("partial", F.lit(False))
    before = F.when(F.col("_told").isNotNull(), laid_over(F.col("_told"), F.coalesce("before", empty))).otherwise(F.col("before"))
    after = F.when(F.col("_told").isNotNull() & is_partial, laid_over(F.col("_told"), F.col("after"))).otherwise(F.col("after"))
    return joined.withColumns({"before": before, "after": after}).select(*rows.columns)
