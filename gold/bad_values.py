"""Cells that do not fit their column's type: listed, or what parks the table."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from framework.contracts.actions import TableName
from framework.errors import MainstemError
from gold.cast import fault, typed
from gold.columns import TableColumn
from gold.merge import Layout
from gold.wide import with_texts

BAD_VALUES_TABLE = "ops/bad_values"
MAX_LISTED = 100_000


def listed(named: DataFrame, layout: Layout, *, has_other_keys: bool) -> tuple[tuple[Any, ...], ...]:
    """The cells of changes that are null or cut in gold, and changes whose key does not fit.

    Each is change id, sequence, column, text and reason. `has_other_keys`: images may lack key columns, which were no key then.
    """
    kinds = {c.name: c.type for c in layout.columns}
    if not has_other_keys and all(kind == "string" for kind in kinds.values()):
        return ()
    tests = _cells(layout)
    for name in layout.keys:
        text = F.try_element_at("image", F.lit(name))
        does_not_fit = (text.isNotNull() & typed(text, kinds[name]).isNull()) | ~F.map_contains_key("image", F.lit(name))
        tests.append(_cell(name, text, F.when(does_not_fit, F.lit("bad_key"))))
    return tuple(tuple(row) for row in _found(named, layout, tests).limit(MAX_LISTED).collect())


def refuse(named: DataFrame, layout: Layout, table: TableName) -> None:
    """Raise for the first cell of these rows that would be null in gold though it has a text."""
    tests = _cells(layout)
    if not tests:
        return
    first = _found(named, layout, tests).where("reason = 'bad_value'").orderBy("sequence", "column").first()
    if first is not None:
        kind = next(c.type for c in layout.columns if c.name == first["column"])
        raise MainstemError(
            "BAD_VALUE",
            found=f"column {first['column']!r}: a text that is no {kind}",
            where=f"table {table.table}, change {first['change_id']} at {first['sequence']}",
            action="correct it in the source, give the column another type under tables.columns, or set bad_values: null; then run again",
        )


def _image() -> Column:
    return F.when(F.col("op") == "delete", F.coalesce("before", "after")).otherwise(F.col("after"))


def _tested(layout: Layout) -> list[TableColumn]:
    return [c for c in layout.columns if c.name not in layout.keys and c.type != "string"]


def _cells(layout: Layout) -> list[Column]:
    return [_cell(c.name, F.col(f"t{i}"), fault(F.col(f"t{i}"), c.type)) for i, c in enumerate(_tested(layout))]


def _found(named: DataFrame, layout: Layout, tests: list[Column]) -> DataFrame:
    images = named.select("change_id", "sequence", _image().alias("image"))
    each = F.explode(F.filter(F.array(*tests), lambda e: e["reason"].isNotNull())).alias("e")
    texts = with_texts(images, "image", [c.name for c in _tested(layout)])
    return texts.select("change_id", "sequence", each).select("change_id", "sequence", "e.*")


def _cell(name: str, text: Column, reason: Column) -> Column:
    return F.struct(F.lit(name).alias("column"), text.alias("text"), reason.alias("reason"))
