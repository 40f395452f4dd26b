"""Cells that do not fit their column's type: listed, or a reason to park the table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from framework.contracts.ddl_actions import TableName
from framework.errors import MainstemError
from gold.changes.wide_images import WIDE, with_texts
from gold.schema.casting import fault, typed_key
from gold.schema.columns import TableColumn
from gold.schema.layout import Layout

BAD_VALUES_SCHEMA = (
    "run_id string, source string, database string, schema string, `table` string, `column` string, "
    "text string, reason string, change_id string, sequence string"
)
MAX_LISTED = 100_000
NOT_LISTED = "not_listed"
"""The reason of the row whose `text` is the number of cells of a table that are not listed."""
_LONGEST = 1_000

Cell = tuple[str, str | None, str | None, str | None, str]
"""Change id, sequence, column, text and reason."""


@dataclass(frozen=True, slots=True)
class Faults:
    """The cells of a table to list.

    Attributes:
        cells: The cells.
        others: How many more cells there are than can be listed.
        replaces: They are all cells of the table, and replace those that were listed before.
    """

    cells: tuple[Cell, ...] = ()
    others: int = 0
    replaces: bool = False

    @property
    def count(self) -> int:
        """How many cells there are."""
        return len(self.cells) + self.others


def list_faults(changes: DataFrame, layout: Layout, *, has_other_keys: bool) -> Faults:
    """The cells of changes that are null or truncated in gold, and changes whose key does not fit.

    Args:
        changes: Row changes, with current column names.
        layout: The table's columns.
        has_other_keys: Images may lack key columns that were not part of the key then.
    """
    kinds = {c.name: c.type for c in layout.columns}
    if not layout.keys and all(kind == "string" for kind in kinds.values()):
        return Faults()
    tests = _cells(layout)
    for name in layout.keys:
        text = F.try_element_at("image", F.lit(name))
        does_not_fit = (text.isNotNull() & typed_key(text, kinds[name]).isNull()) | ~F.map_contains_key(
            "image", F.lit(name)
        )
        tests.append(_cell(name, text, F.when(does_not_fit, F.lit("bad_key"))))
    is_any = is_faulty(layout)
    if is_any is not None and not has_other_keys and not changes.agg(F.max(is_any)).collect()[0][0]:
        return Faults()
    faulty = _faulty_cells(changes, layout, tests)
    faulty = faulty.withColumn(
        "text",
        F.when(F.length("text") > _LONGEST, F.concat(F.substring("text", 1, _LONGEST), F.lit("…"))).otherwise(
            F.col("text")
        ),
    )
    rows, others = faulty.limit(MAX_LISTED + 1).collect(), 0
    if len(rows) > MAX_LISTED:
        others = faulty.count() - MAX_LISTED
        rows = faulty.orderBy("sequence", "change_id", "column").limit(MAX_LISTED).collect()
    return Faults(tuple((row[0], row[1], row[2], row[3], row[4]) for row in rows), others)


def is_faulty(layout: Layout) -> Column | None:
    """Whether a row change has a cell to list, or a key that does not fit; never null.

    None where the table is so wide that looking each column up costs more than the listing. The change needs
    `op`, `before` and `after`, with current column names and the current key.
    """
    if len(layout.columns) >= WIDE:
        return None
    image = _image()
    tests = [F.coalesce(~F.map_contains_key(image, F.lit(name)), F.lit(True)) for name in layout.keys]
    for column in layout.columns:
        if column.type != "string":
            text = F.try_element_at(image, F.lit(column.name))
            is_key = column.name in layout.keys
            tests.append(
                text.isNotNull() & typed_key(text, column.type).isNull()
                if is_key
                else fault(text, column.type).isNotNull()
            )
    return reduce(lambda a, b: a | b, tests, F.lit(False))


def cells() -> Column:
    """How many cells a row of `ops/bad_values` is for."""
    return F.when(F.col("reason") == NOT_LISTED, F.col("text").try_cast("bigint")).otherwise(F.lit(1))


def refuse(changes: DataFrame, layout: Layout, table: TableName) -> None:
    """Raises for the first cell of these rows that has a text and would be null in gold.

    Raises:
        MainstemError: BAD_VALUE with the column and the change.
    """
    tests = _cells(layout)
    if not tests:
        return
    first = (
        _faulty_cells(changes, layout, tests)
        .where("reason = 'bad_value'")
        .orderBy("sequence", "column")
        .first()
    )
    if first is not None:
        kind = next(c.type for c in layout.columns if c.name == first["column"])
        raise MainstemError(
            "BAD_VALUE",
            found=f"column {first['column']!r}: a text that is no {kind}",
            where=f"table {table.table}, change {first['change_id']} at {first['sequence']}",
            action="correct it in the source, give the column another type under tables.columns, "
            "or set bad_values: null; then run again",
        )


def _image() -> Column:
    return F.when(F.col("op") == "delete", F.coalesce("before", "after")).otherwise(F.col("after"))


def _tested_columns(layout: Layout) -> list[TableColumn]:
    return [c for c in layout.columns if c.name not in layout.keys and c.type != "string"]


def _cells(layout: Layout) -> list[Column]:
    return [
        _cell(c.name, F.col(f"t{i}"), fault(F.col(f"t{i}"), c.type))
        for i, c in enumerate(_tested_columns(layout))
    ]


def _faulty_cells(changes: DataFrame, layout: Layout, tests: list[Column]) -> DataFrame:
    images = changes.select("change_id", "sequence", _image().alias("image"))
    each = F.explode(F.filter(F.array(*tests), lambda e: e["reason"].isNotNull())).alias("e")
    texts = with_texts(images, "image", [c.name for c in _tested_columns(layout)])
    return texts.select("change_id", "sequence", each).select("change_id", "sequence", "e.*")


def _cell(name: str, text: Column, reason: Column) -> Column:
    return F.struct(F.lit(name).alias("column"), text.alias("text"), reason.alias("reason"))
