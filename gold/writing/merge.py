"""The MERGE statements and table definitions of gold, all in this module."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.config.tables import Deletes
from framework.contracts.canonical_types import sql_type
from framework.lakehouse.deletion_vectors import mark_rows_if_large
from framework.lakehouse.lakehouse import read_table, sql_name, sql_text, table_properties
from framework.lakehouse.merge import Merge, Merged
from framework.naming import quoted, text_literal
from framework.spark.planned_rows import planned
from gold.changes.merge_policy import MergePolicy
from gold.changes.profile import Profile
from gold.schema.columns import TableColumn
from gold.schema.layout import Layout
from gold.writing.administration import SOURCE_TYPE, STATISTICS, administration_of, is_own, set_again

_MANY_CHANGES = 50_000
"""A table that has had fewer changes than this is not large."""
_TIMES_WITHOUT_ZONE = "delta.feature.timestampNtz"
"""What a table must support that has such a column; only a new table supports it by itself."""
_NEEDS_MAPPING = re.compile(r"[ ,;{}()\n\t=]")
_CHANGE_FEED = "delta.enableChangeDataFeed"


def replace_table(rows: DataFrame, path: str, layout: Layout) -> None:
    """Makes the table at `path` contain exactly `rows` (c0…, system columns), in one commit.

    Readers see the old or the new table. What an administrator has set on the table is kept.
    """
    names, spark = layout.gold_names, rows.sparkSession
    kept = administration_of(spark, path)
    selected = [
        F.col(f"c{i}").alias(names[c.name], metadata=_comment(c, kept.column_comments.get(names[c.name])))
        for i, c in enumerate(layout.columns)
    ]
    frame = planned(rows).select(
        *selected,
        *(
            F.col(name).cast(kind).alias(name, metadata=_noted(kept.column_comments.get(name)))
            for name, kind in layout.system.items()
        ),
    )
    statistics = dict.fromkeys(
        [*_skippable(layout), "_cdc_sequence", *_with_statistics(kept.statistics, layout)]
    )
    properties = {
        **kept.properties,
        "comment": kept.comment or _purpose(layout),
        _CHANGE_FEED: "true",
        STATISTICS: ",".join(map(quoted, statistics)),
    }
    is_mapped = kept.has_mapping or any(_NEEDS_MAPPING.search(name) for name in names.values())
    if is_mapped or not has_change_feed(names.values()):
        # Delta refuses to write a whole table with mapped columns while its change feed is on
        properties |= {_CHANGE_FEED: "false"}
    if is_mapped:
        properties |= {"delta.columnMapping.mode": "name"}
    if kept.exists and "timestamp_ntz" in {column.type for column in layout.columns}:
        properties |= {_TIMES_WITHOUT_ZONE: "supported"}
    if kept.has_mapping:
        _set_change_feed(spark, path, "false")
    writer = frame.writeTo(sql_name(path)).using("delta")
    for key, value in properties.items():
        writer = writer.tableProperty(key, value)
    writer.createOrReplace()
    if is_mapped and has_change_feed(names.values()):
        _set_change_feed(spark, path, "true")
    set_again(spark, path, kept, frame.columns)


def _purpose(layout: Layout) -> str:
    """The comment that a catalog shows: what the source says of the table, and what the table is here."""
    return "\n".join(filter(None, (layout.comment, _kind_of_table(layout))))


def _kind_of_table(layout: Layout) -> str:
    if "_cdc_valid_from" in layout.system:
        return "A history kept by Mainstem: one row for each version of a key."
    if not layout.keys:
        return "A replica kept by Mainstem: one row for each change, since no key is known."
    keys = ", ".join(layout.gold_names[key] for key in layout.keys)
    return f"A replica kept by Mainstem: one current row for each key ({keys})."


def _skippable(layout: Layout) -> list[str]:
    """The key columns for which Delta can collect minima and maxima."""
    return [layout.gold_names[column.name] for column in layout.key_columns if _has_extremes(column.type)]


def _with_statistics(chosen: Sequence[str], layout: Layout) -> list[str]:
    """The columns among those chosen before for which Delta can still collect minima and maxima."""
    kinds = {layout.gold_names[c.name]: c.type for c in layout.columns} | dict(layout.system)
    return [name for name in chosen if name in kinds and _has_extremes(kinds[name])]


def _has_extremes(kind: str) -> bool:
    """Whether Delta collects minima and maxima of a type; it refuses to for two."""
    return kind not in ("binary", "boolean")


def has_change_feed(names: Iterable[str]) -> bool:
    """Whether the table can have a change feed: Delta's MERGE then fails on column names with a backtick."""
    return not any("`" in name for name in names)


def is_feed_on(spark: SparkSession, path: str) -> bool:
    """Whether the table at `path` records its change feed now."""
    return table_properties(spark, path).get(_CHANGE_FEED, "").lower() == "true"


def keep_change_feed(spark: SparkSession, paths: Iterable[str | None], layout: Layout) -> None:
    """Switches the change feeds of the tables at `paths` on where they can have one and it is off.

    Somebody has switched it off, or a rebuild was killed before it was on again.
    """
    if not has_change_feed(layout.gold_names.values()):
        return
    for path in paths:
        if path is None or is_feed_on(spark, path):
            continue
        if has_change_feed(read_table(spark, path).columns):
            _set_change_feed(spark, path, "true")


def _set_change_feed(spark: SparkSession, path: str, value: str) -> None:
    spark.sql(f"ALTER TABLE {sql_name(path)} SET TBLPROPERTIES ('{_CHANGE_FEED}' = '{value}')")


def _comment(column: TableColumn, chosen: str | None) -> dict[str, str]:
    return _noted(chosen or _own_comment(column))


def _own_comment(column: TableColumn) -> str:
    """What the source says of a column, and its type there; empty where it says neither."""
    if not column.comment:
        return f"{SOURCE_TYPE}{column.declared}" if column.declared else ""
    return f"{column.comment}\n{SOURCE_TYPE}{column.declared or 'unknown'}"


def _commented(column: TableColumn) -> str:
    """The comment of a column as a part of a statement.

    Empty where the source says nothing of it, or a text with `${`, which some sessions replace in statements.
    """
    text = _own_comment(column)
    return f" COMMENT {sql_text(text)}" if text and "${" not in text else ""


def _noted(text: str | None) -> dict[str, str]:
    return {"comment": text} if text else {}


def begin_marks(spark: SparkSession, paths: Iterable[str | None], layout: Layout, profile: Profile) -> bool:
    """Lets merges into the tables at `paths` mark rows if they are large; returns whether one begins now."""
    if not layout.keys or profile.rows < _MANY_CHANGES:
        return False
    began = [mark_rows_if_large(spark, path) for path in paths if path is not None]
    return any(began)


def add_columns(spark: SparkSession, path: str, layout: Layout, new: Sequence[str]) -> None:
    """Adds the columns `new` at their places, in one commit."""
    names = layout.gold_names
    kinds = {c.name: c for c in layout.columns}
    if any(kinds[n].type == "timestamp_ntz" for n in new):
        spark.sql(f"ALTER TABLE {sql_name(path)} SET TBLPROPERTIES ('{_TIMES_WITHOUT_ZONE}' = 'supported')")
    if any(_NEEDS_MAPPING.search(names[n]) for n in new):
        spark.sql(f"ALTER TABLE {sql_name(path)} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    if not has_change_feed(names[n] for n in new):
        _set_change_feed(spark, path, "false")
    wanted, columns = set(new), list[str]()
    for before, column in zip([None, *layout.columns], layout.columns, strict=False):
        if column.name in wanted:
            place = "FIRST" if before is None else f"AFTER {quoted(names[before.name])}"
            declared = f"{quoted(names[column.name])} {sql_type(column.type)}{_commented(column)}"
            columns.append(f"{declared} {place}")
    spark.sql(f"ALTER TABLE {sql_name(path)} ADD COLUMNS ({', '.join(columns)})")


def order_columns(spark: SparkSession, path: str, layout: Layout) -> None:
    """Moves the source's columns to the layout's order, as few of them as that takes; a commit for each."""
    names = layout.gold_names
    wanted = [names[c.name] for c in layout.columns]
    stored = {name: at for at, name in enumerate(read_table(spark, path).columns)}
    resting = _longest_ascent([stored[name] for name in wanted])
    for before, name in zip([None, *wanted], wanted, strict=False):
        if stored[name] not in resting:
            place = "FIRST" if before is None else f"AFTER {quoted(before)}"
            spark.sql(f"ALTER TABLE {sql_name(path)} ALTER COLUMN {quoted(name)} {place}")


def _longest_ascent(numbers: Sequence[int]) -> set[int]:
    """A longest subsequence of different numbers in which each one is larger than the one before."""
    ends: list[int] = []
    before: dict[int, int | None] = {}
    for number in numbers:
        at = bisect_left(ends, number)
        before[number] = ends[at - 1] if at else None
        ends[at : at + 1] = [number]
    ascent = set[int]()
    last = ends[-1] if ends else None
    while last is not None:
        ascent.add(last)
        last = before[last]
    return ascent


def widen_columns(spark: SparkSession, path: str, layout: Layout, wider: Sequence[str]) -> None:
    """Widens the types of columns in place, with the comments that gold has written; a commit for each.

    The comments come first: a run that ends behind them leaves types that the next one finds too narrow.
    """
    texts = {c.name: str((c.metadata or {}).get("comment", "")) for c in read_table(spark, path).schema}
    columns = {c.name: c for c in layout.columns}
    widened = {layout.gold_names[name]: columns[name] for name in wider}
    types = [f"{quoted(name)} TYPE {sql_type(column.type)}" for name, column in widened.items()]
    own = [name for name in widened if not texts.get(name) or is_own(texts[name], (SOURCE_TYPE,))]
    comments = [f"{quoted(name)}{text}" for name in own if (text := _commented(widened[name]))]
    spark.sql(f"ALTER TABLE {sql_name(path)} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    _alter_columns(spark, path, comments)
    _alter_columns(spark, path, types)


def set_comments(spark: SparkSession, path: str, layout: Layout, changed: Sequence[TableColumn]) -> None:
    """Gives these columns, and the table, the comments of the source; those of administrators stay."""
    kept = administration_of(spark, path)
    names = {layout.gold_names[column.name]: column for column in changed}
    own = [name for name in names if name not in kept.column_comments]
    texts = [quoted(name) + (_commented(names[name]) or " COMMENT ''") for name in own]
    _alter_columns(spark, path, texts)
    purpose = _purpose(layout)
    if kept.comment is None and "${" not in purpose:
        spark.sql(f"COMMENT ON TABLE {sql_name(path)} IS {sql_text(purpose)}")


def _alter_columns(spark: SparkSession, path: str, changes: Sequence[str]) -> None:
    """Changes columns in one commit, in no order; each of the changes is a column's name and what it gets."""
    if changes:
        spark.sql(f"ALTER TABLE {sql_name(path)} ALTER COLUMN {', '.join(changes)}")


def merge_latest(
    rows: DataFrame,
    path: str,
    layout: Layout,
    policy: MergePolicy,
    bounds: Mapping[str, tuple[str, str]] | None = None,
) -> Merged:
    """Merges one row for each key into a replica.

    A stored row without a position, which somebody else has put there, is older than any change.

    Args:
        rows: c0…, k0…, the system columns, `is_upsert`: the key has a row now (without this column, each one
            has), and `is_forced`: the key was folded again from silver (without it, none was). A forced row
            replaces one of equal sequence with other values, and one marked as deleted even if its sequence
            is higher: the key was taken before it was left, in one transaction. Where images may be partial,
            p0…: whether the image has the column. Any row then replaces one of equal sequence: an unfinished
            run merged that one, without the columns of changes that came since.
        path: The replica.
        layout: The replica's columns.
        policy: How deletes, truncates and partial images are treated.
        bounds: Between which values, as SQL, the key columns of the rows are, none of which is null; None
            where that is unknown.
    """
    names, given = layout.gold_names, set(rows.columns)
    gold = [f"t.{quoted(names[c.name])}" for c in layout.columns]
    same = "<=>" if bounds is None else "="
    on = " AND ".join(f"t.{quoted(names[k])} {same} s.k{i}" for i, k in enumerate(layout.keys))
    for key, (low, high) in (bounds or {}).items():
        on += f" AND t.{quoted(names[key])} BETWEEN {low} AND {high}"
    newer = "(t._cdc_sequence IS NULL OR s._cdc_sequence > t._cdc_sequence)"
    if policy.has_partials:
        values = [_partial_value(i, name, policy) for i, name in enumerate(gold)]
    else:
        values = [f"s.c{i}" for i in range(len(gold))]
    differs = " OR ".join(f"NOT ({name} <=> {value})" for name, value in zip(gold, values, strict=True))
    updates = {quoted(names[c.name]): value for c, value in zip(layout.columns, values, strict=True)}
    own = {name: f"s.{name}" for name in layout.system}
    inserts = {quoted(names[c.name]): f"s.c{i}" for i, c in enumerate(layout.columns)}
    merge = Merge(path, rows, on)
    if policy.deletes is Deletes.SOFT:
        differs += " OR NOT (t._cdc_deleted <=> s._cdc_deleted)"
    elif "is_upsert" in given:
        merge = merge.delete(f"NOT s.is_upsert AND {newer}")
    replaces = [newer]
    if policy.has_partials:
        replaces.append(f"s._cdc_sequence = t._cdc_sequence AND ({differs})")
    elif "is_forced" in given:
        replaces.append(f"s.is_forced AND s._cdc_sequence = t._cdc_sequence AND ({differs})")
    if policy.deletes is Deletes.SOFT and "is_forced" in given:
        replaces.append("s.is_forced AND s._cdc_sequence < t._cdc_sequence AND t._cdc_deleted")
    has_row = ["s.is_upsert"] if "is_upsert" in given else []
    merge = merge.update({**updates, **own}, " AND ".join([*has_row, f"({' OR '.join(replaces)})"]))
    merge = merge.insert({**inserts, **own}, *has_row)
    if policy.truncated_at is not None and not policy.is_emptied:
        gone = _is_before(policy.truncated_at)
        if policy.deletes is Deletes.HARD:
            merge = merge.delete_unmatched(gone)
        else:
            merge = merge.update_unmatched(
                {"_cdc_deleted": "true"}, f"{gone} AND NOT coalesce(t._cdc_deleted, false)"
            )
    return merge.execute()


def _is_before(position: str) -> str:
    """Whether a stored row is older than a position; one without a position is older than any."""
    return f"(t._cdc_sequence IS NULL OR t._cdc_sequence < {text_literal(position)})"


def _partial_value(index: int, name: str, policy: MergePolicy) -> str:
    current = name
    if policy.is_newest and policy.deletes is Deletes.HARD:
        current = "NULL"  # a row from after the truncate has them from a batch that is merged again
    elif policy.truncated_at is not None and policy.deletes is Deletes.HARD:
        current = f"CASE WHEN {_is_before(policy.truncated_at)} THEN NULL ELSE {name} END"
    else:  # cells of somebody else are not the row's; a delete leaves them as they are
        is_foreign = "t._cdc_sequence IS NULL"
        is_foreign += " AND NOT s._cdc_deleted" if policy.deletes is Deletes.SOFT else ""
        current = f"CASE WHEN {is_foreign} THEN NULL ELSE {name} END"
    if policy.deletes is Deletes.SOFT:  # a delete says what the row was, where no change has said it
        current = f"coalesce({current}, s.c{index})"
    return f"CASE WHEN s.p{index} THEN s.c{index} ELSE {current} END"


def insert_changes(
    rows: DataFrame, path: str, layout: Layout, between: tuple[str, str] | None = None
) -> None:
    """Adds the changes that an append-only table does not have yet, by `_cdc_change_id` and sequence.

    Args:
        rows: c0… and the system columns; each row has a sequence.
        path: The table.
        layout: Its columns.
        between: The lowest and the highest sequence of the rows: a stored row with another one equals none of
            them, so that only files that may have one between them are read. None where they are unknown.
    """
    names = layout.gold_names
    values = {quoted(names[c.name]): f"s.c{i}" for i, c in enumerate(layout.columns)}
    own = {name: f"s.{name}" for name in layout.system}
    same = "t._cdc_change_id = s._cdc_change_id AND t._cdc_sequence = s._cdc_sequence"
    if between is not None:
        low, high = map(text_literal, between)
        same += f" AND t._cdc_sequence BETWEEN {low} AND {high}"
    Merge(path, rows, same).insert({**values, **own}).execute()


def merge_versions(rows: DataFrame, path: str, layout: Layout) -> None:
    """Writes the versions in `rows`, deletes those marked `is_stale`, and ends those marked `is_ended`.

    Of a version that ends, `rows` have the key, the position, the end and that it is not current any more.
    """
    names = layout.gold_names
    on = (
        " AND ".join(f"t.{quoted(names[k])} <=> s.k{i}" for i, k in enumerate(layout.keys))
        + " AND t._cdc_sequence = s._cdc_sequence"
    )
    values = {quoted(names[c.name]): f"s.c{i}" for i, c in enumerate(layout.columns)}
    own = {name: f"s.{name}" for name in layout.system}
    ends = {name: own[name] for name in ("_cdc_valid_to", "_cdc_is_current")}
    merge = (
        Merge(path, rows, on)
        .delete("s.is_stale")
        .update(ends, f"s.is_ended AND ({_differ(ends)})")
        .update({**values, **own}, f"NOT s.is_ended AND ({_differ({**values, **own})})")
    )
    merge.insert({**values, **own}, "NOT s.is_stale AND NOT s.is_ended").execute()


def _differ(values: Mapping[str, str]) -> str:
    return " OR ".join(f"NOT (t.{name} <=> {value})" for name, value in values.items())
