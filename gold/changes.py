"""A table's changes as gold reads them: under today's column names, and as effects on keys."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from gold.cast import typed
from gold.columns import Stretch, TableColumn
from gold.lineage import Lineage, Piece

CHANGES_TABLE = "silver/changes"
_CARRIED = ("sequence", "event_time", "change_id", "transaction_id", "op", "partial")


def is_of(piece: Piece, source: str) -> Column:
    """Whether a row of the change table belongs to a piece of a source's table."""
    table = piece.table
    found = (
        (F.col("source") == source)
        & F.col("database").eqNullSafe(F.lit(table.database))
        & F.col("schema").eqNullSafe(F.lit(table.schema))
        & (F.col("table") == table.table)
        & (F.col("sequence") >= piece.start)
    )
    return found if piece.end is None else found & (F.col("sequence") < piece.end)


def rows_of(changes: DataFrame, source: str, lineage: Lineage) -> DataFrame:
    """The row changes of a table in all its pieces."""
    mine = reduce(lambda a, b: a | b, (is_of(piece, source) for piece in lineage.pieces))
    return changes.where(mine & (F.col("kind") == "row"))


def stretch_number(lineage: Lineage) -> Column:
    """How many steps on the table's columns stand before a row."""
    if not lineage.steps:
        return F.lit(0)
    counts = _counts(lineage)
    if len(counts) == len(lineage.steps):
        return F.size(F.filter(F.array(*map(F.lit, counts)), lambda sequence: sequence <= F.col("sequence")))
    steps = F.array(*(F.struct(F.lit(sequence).alias("sequence"), F.lit(count).alias("count")) for sequence, count in counts.items()))
    passed = F.filter(steps, lambda step: step["sequence"] <= F.col("sequence"))
    return F.coalesce(F.array_max(F.transform(passed, lambda step: step["count"])), F.lit(0))


def _counts(lineage: Lineage) -> dict[str, int]:
    """How many steps there are up to each statement."""
    return {sequence: count for count, (sequence, _) in enumerate(lineage.steps, 1)}


def under_todays_names(rows: DataFrame, lineage: Lineage, mapped: Sequence[Stretch]) -> DataFrame:
    """The rows with both images under today's column names, with the constant defaults of columns added later.

    An image before a change tells the key that the row had: a column of today's key may be one that was added with a default.
    """
    if not any(stretch.names or stretch.defaults for stretch in mapped):
        return rows
    between = {0: mapped[0], **{count: mapped[count] for count in _counts(lineage).values()}}
    names = {str(i): {n: t or "" for n, t in s.names.items()} for i, s in between.items() if s.names}
    defaults = {str(i): dict(s.defaults) for i, s in between.items() if s.defaults}
    shape = "map<string,map<string,string>>"
    number = stretch_number(lineage).cast("string")
    moved = F.try_element_at(F.from_json(F.lit(json.dumps(names)), shape), number)
    added = F.try_element_at(F.from_json(F.lit(json.dumps(defaults)), shape), number)
    before, after = _renamed(F.col("before"), moved), _renamed(F.col("after"), moved)
    is_whole = ~F.coalesce(F.col("partial"), F.lit(False))
    return rows.withColumns(
        {
            "before": F.when(before.isNotNull() & added.isNotNull(), _laid_under(added, before)).otherwise(before),
            "after": F.when(after.isNotNull() & added.isNotNull() & is_whole, _laid_under(added, after)).otherwise(after),
        }
    )


def _renamed(image: Column, names: Column) -> Column:
    kept = F.map_filter(image, lambda k, v: F.coalesce(F.try_element_at(names, k), k) != "")
    today = F.transform_keys(kept, lambda k, v: F.coalesce(F.try_element_at(names, k), k))
    return F.when(names.isNull() | image.isNull(), image).otherwise(today)


def _laid_under(under: Column, image: Column) -> Column:
    return F.map_concat(F.map_filter(under, lambda k, v: ~F.map_contains_key(image, k)), image)


def laid_over(under: Column, image: Column) -> Column:
    """An image with another one laid over it: the upper one's columns win."""
    return _laid_under(under, image)


def key_names(count: int) -> list[str]:
    """The names of the typed key columns of effects."""
    return [f"k{i}" for i in range(count)]


def effects(rows: DataFrame, keys: Sequence[TableColumn]) -> DataFrame:
    """What the rows do to keys: columns k0…, `rank`, `is_put`, `is_move` and the change's own.

    A delete takes its key away (`rank` 2), a change of the key takes the old key away (0) and puts the new one (1), all
    other changes put their key (1). Key columns are typed; a change whose key does not fit has no effect: it is listed.
    """
    all_effects = _exploded(rows, keys)
    return all_effects.where(~_is_bad(keys)).drop("texts")


def _is_bad(keys: Sequence[TableColumn]) -> Column:
    tests = [(F.col("texts")[i].isNotNull() & F.col(f"k{i}").isNull()) | ~F.col("has_key") for i in range(len(keys))]
    return reduce(lambda a, b: a | b, tests)


def _exploded(rows: DataFrame, keys: Sequence[TableColumn]) -> DataFrame:
    before, after = _texts(F.col("before"), keys), _texts(F.col("after"), keys)
    has_before, has_after = _has_key(F.col("before"), keys), _has_key(F.col("after"), keys)
    is_delete = F.col("op") == "delete"
    is_move = (F.col("op") == "update") & has_before & has_after & ~before.eqNullSafe(after)
    gone = F.when(is_delete, _effect(2, False, False, F.when(has_before, before).otherwise(after), has_before | has_after))
    left = F.when(is_move, _effect(0, False, True, before, F.lit(True)))
    put = F.when(~is_delete, _effect(1, True, is_move, after, has_after))
    exploded = rows.select(
        *_CARRIED,
        F.col("half").isNull().alias("is_whole_change"),
        "before",
        _with_left_columns(is_move).alias("after"),
        F.explode(F.filter(F.array(gone, left, put), lambda e: e.isNotNull())).alias("e"),
    ).select("*", "e.*")
    typed_keys = [typed(F.col("texts")[i], key.type).alias(f"k{i}") for i, key in enumerate(keys)]
    return exploded.drop("e").select("*", *typed_keys)


def _with_left_columns(is_move: Column) -> Column:
    """The image after a change; what a partial one leaves out when the key changes is as it was before."""
    is_partial = F.coalesce(F.col("partial"), F.lit(False))
    return F.when(is_move & is_partial, laid_over(F.col("before"), F.col("after"))).otherwise(F.col("after"))


def _texts(image: Column, keys: Sequence[TableColumn]) -> Column:
    return F.array(*(F.try_element_at(image, F.lit(key.name)) for key in keys))


def _has_key(image: Column, keys: Sequence[TableColumn]) -> Column:
    has = reduce(lambda a, b: a & b, (F.map_contains_key(image, F.lit(key.name)) for key in keys))
    return F.coalesce(has, F.lit(False))


def _effect(rank: int, is_put: bool, is_move: Column | bool, texts: Column, has_key: Column) -> Column:
    moved = is_move if isinstance(is_move, Column) else F.lit(is_move)
    return F.struct(
        F.lit(rank).alias("rank"),
        F.lit(is_put).alias("is_put"),
        moved.alias("is_move"),
        texts.alias("texts"),
        has_key.alias("has_key"),
    )
