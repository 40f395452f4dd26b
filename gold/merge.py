"""The only place where gold's MERGE statements and table definitions are written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.config_rules import Deletes
from framework.merge import Merge
from framework.names import gold_columns, quoted, text_literal
from framework.tables import is_table, sql_name, table_properties
from gold.cast import typed
from gold.columns import TableColumn
from gold.wide import with_texts

OWN = {"_cdc_sequence": "string", "_cdc_event_time": "timestamp", "_cdc_change_id": "string"}
_NEEDS_MAPPING = re.compile(r"[ ,;{}()\n\t=]")
_OUR_DROPPED = re.compile(r"_cdc_dropped_\d+_")


@dataclass(frozen=True, slots=True)
class Layout:
    """A gold table's columns: the source's under their gold names, then our own."""

    columns: tuple[TableColumn, ...]
    keys: tuple[str, ...]
    own: Mapping[str, str]

    @property
    def gold_names(self) -> dict[str, str]:
        """Source column to gold column. Columns that a drop moved aside keep the name that we gave them."""
        names = [c.name for c in self.columns if not _OUR_DROPPED.match(c.name)]
        renamed = gold_columns(names)
        return {c.name: renamed.get(c.name, c.name) for c in self.columns}

    @property
    def key_columns(self) -> list[TableColumn]:
        """The key's columns, in the key's order."""
        by_name = {c.name: c for c in self.columns}
        return [by_name[name] for name in self.keys]

    def with_cells(self, frame: DataFrame, image: str = "after", *, marked: str | None = None) -> DataFrame:
        """The frame with typed columns c0… out of an image, and with h0…, whether the image `marked` has them."""
        spread = with_texts(frame, image, [c.name for c in self.columns], marked=marked)
        cells = [typed(F.col(f"t{i}"), c.type).alias(f"c{i}") for i, c in enumerate(self.columns)]
        return spread.select(*frame.columns, *cells, *(f"h{i}" for i in range(len(self.columns)) if marked))

    @property
    def cells(self) -> list[str]:
        """The names c0… of the typed columns."""
        return [f"c{i}" for i in range(len(self.columns))]


def replace_table(rows: DataFrame, path: str, layout: Layout) -> None:
    """Make the table at `path` hold exactly `rows` (c0…, own columns) in one commit; readers see the old or the new one."""
    names = layout.gold_names
    selected = [F.col(f"c{i}").alias(names[c.name], metadata=_comment(c)) for i, c in enumerate(layout.columns)]
    frame = rows.select(*selected, *(F.col(name).cast(kind).alias(name) for name, kind in layout.own.items()))
    properties = {
        "comment": _purpose(layout),
        "delta.enableChangeDataFeed": "true",
        "delta.dataSkippingStatsColumns": ",".join(quoted(name) for name in [*_skippable(layout), "_cdc_sequence"]),
    }
    spark = rows.sparkSession
    had_mapping = is_table(spark, path) and "delta.columnMapping.mode" in table_properties(spark, path)
    is_mapped = had_mapping or any(_NEEDS_MAPPING.search(name) for name in names.values())
    if is_mapped or not _has_change_feed(names.values()):
        # Delta refuses to write a whole table with mapped columns while its change feed is on
        properties |= {"delta.enableChangeDataFeed": "false"}
    if is_mapped:
        properties |= {"delta.columnMapping.mode": "name"}
    if had_mapping:
        _set_change_feed(spark, path, "false")
    writer = frame.writeTo(sql_name(path)).using("delta")
    for key, value in properties.items():
        writer = writer.tableProperty(key, value)
    writer.createOrReplace()
    if is_mapped and _has_change_feed(names.values()):
        _set_change_feed(spark, path, "true")


def _purpose(layout: Layout) -> str:
    """The comment that a catalog shows."""
    if "_cdc_valid_from" in layout.own:
        return "A history kept by Mainstem: one row for each version of a key."
    return "A replica kept by Mainstem: " + (
        "one current row for each key." if layout.keys else "one row for each change, since no key is known."
    )


def _skippable(layout: Layout) -> list[str]:
    """The key columns of which Delta keeps lowest and highest values; it refuses to for these two types."""
    return [layout.gold_names[column.name] for column in layout.key_columns if column.type not in ("binary", "boolean")]


def _has_change_feed(names: Iterable[str]) -> bool:
    """Whether the table can have a change feed: Delta's MERGE with one fails on a column whose name has a backtick."""
    return not any("`" in name for name in names)


def _set_change_feed(spark: SparkSession, path: str, value: str) -> None:
    spark.sql(f"ALTER TABLE {sql_name(path)} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = '{value}')")


def _comment(column: TableColumn) -> dict[str, str]:
    return {"comment": f"source type: {column.declared}"} if column.declared else {}


def add_columns(spark: SparkSession, path: str, layout: Layout, new: Sequence[str]) -> None:
    """Add the columns `new` at their places."""
    names = layout.gold_names
    kinds = {c.name: c for c in layout.columns}
    if any(kinds[n].type == "timestamp_ntz" for n in new):
        spark.sql(f"ALTER TABLE {sql_name(path)} SET TBLPROPERTIES ('delta.feature.timestampNtz' = 'supported')")
    if any(_NEEDS_MAPPING.search(names[n]) for n in new):
        spark.sql(f"ALTER TABLE {sql_name(path)} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    if not _has_change_feed(names[n] for n in new):
        _set_change_feed(spark, path, "false")
    order = [c.name for c in layout.columns]
    for name in new:
        at = order.index(name)
        place = "FIRST" if at == 0 else f"AFTER {quoted(names[order[at - 1]])}"
        spark.sql(f"ALTER TABLE {sql_name(path)} ADD COLUMNS ({quoted(names[name])} {kinds[name].type} {place})")


def widen_columns(spark: SparkSession, path: str, layout: Layout, wider: Sequence[str]) -> None:
    """Widen the types of columns in place."""
    spark.sql(f"ALTER TABLE {sql_name(path)} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    for column in layout.columns:
        if column.name in wider:
            spark.sql(f"ALTER TABLE {sql_name(path)} ALTER COLUMN {quoted(layout.gold_names[column.name])} TYPE {column.type}")


@dataclass(frozen=True, slots=True)
class Rules:
    """What deletes do, the newest truncate that counts (null: none), and whether images leave columns out.

    `is_emptied`: the replica holds nothing from before that truncate any more.
    """

    deletes: Deletes
    truncated_at: str | None
    has_partials: bool
    is_emptied: bool = False


def merge_latest(rows: DataFrame, path: str, layout: Layout, rules: Rules) -> None:
    """Merge one row a key into a replica.

    `rows` have c0…, k0…, the own columns, `is_put`, and p0… (is the column in the image) and `is_forced` (a key folded
    again from silver: equal sequences are compared by value) where partial images are about.
    """
    names = layout.gold_names
    gold = [f"t.{quoted(names[c.name])}" for c in layout.columns]
    on = " AND ".join(f"t.{quoted(names[k])} <=> s.k{i}" for i, k in enumerate(layout.keys))
    newer = "s._cdc_sequence > t._cdc_sequence"
    if rules.has_partials:
        values = [_partial_value(i, name, rules) for i, name in enumerate(gold)]
    else:
        values = [f"s.c{i}" for i in range(len(gold))]
    differs = " OR ".join(f"NOT ({name} <=> {value})" for name, value in zip(gold, values, strict=True))
    updates = {quoted(names[c.name]): value for c, value in zip(layout.columns, values, strict=True)}
    own = {name: f"s.{name}" for name in layout.own}
    inserts = {quoted(names[c.name]): f"s.c{i}" for i, c in enumerate(layout.columns)}
    merge = Merge(path, rows, on)
    if rules.deletes is Deletes.SOFT:
        differs += " OR NOT (t._cdc_deleted <=> s._cdc_deleted)"
    else:
        merge = merge.delete(f"NOT s.is_put AND {newer}")
    again = f"s.is_forced AND s._cdc_sequence = t._cdc_sequence AND ({differs})"
    merge = merge.update({**updates, **own}, f"s.is_put AND ({newer} OR ({again}))")
    merge = merge.insert({**inserts, **own}, "s.is_put")
    if rules.truncated_at is not None and not rules.is_emptied:
        gone = f"t._cdc_sequence < {text_literal(rules.truncated_at)}"
        if rules.deletes is Deletes.HARD:
            merge = merge.delete_unmatched(gone)
        else:
            merge = merge.update_unmatched({"_cdc_deleted": "true"}, f"{gone} AND NOT t._cdc_deleted")
    merge.execute()


def _partial_value(place: int, name: str, rules: Rules) -> str:
    kept = f"{name}"
    if rules.truncated_at is not None and rules.deletes is Deletes.HARD:
        kept = f"CASE WHEN t._cdc_sequence < {text_literal(rules.truncated_at)} THEN NULL ELSE {name} END"
    return f"CASE WHEN s.p{place} THEN s.c{place} ELSE {kept} END"


def insert_changes(rows: DataFrame, path: str, layout: Layout) -> None:
    """Add the changes of an append-only table that it does not hold yet, told by `_cdc_change_id`."""
    names = layout.gold_names
    values = {quoted(names[c.name]): f"s.c{i}" for i, c in enumerate(layout.columns)}
    own = {name: f"s.{name}" for name in layout.own}
    same = "t._cdc_change_id = s._cdc_change_id AND t._cdc_sequence <=> s._cdc_sequence"
    Merge(path, rows, same).insert({**values, **own}).execute()


def merge_versions(rows: DataFrame, path: str, layout: Layout) -> None:
    """Make the history of the keys in `rows` what `rows` say; rows marked `is_stale` go."""
    names = layout.gold_names
    on = " AND ".join(f"t.{quoted(names[k])} <=> s.k{i}" for i, k in enumerate(layout.keys)) + " AND t._cdc_sequence = s._cdc_sequence"
    values = {quoted(names[c.name]): f"s.c{i}" for i, c in enumerate(layout.columns)}
    own = {name: f"s.{name}" for name in layout.own}
    pairs = [*((f"t.{k}", v) for k, v in values.items()), *((f"t.{k}", v) for k, v in own.items())]
    differs = " OR ".join(f"NOT ({a} <=> {b})" for a, b in pairs)
    merge = Merge(path, rows, on).delete("s.is_stale").update({**values, **own}, f"NOT s.is_stale AND ({differs})")
    merge.insert({**values, **own}, "NOT s.is_stale").execute()
