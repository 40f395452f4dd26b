"""Row filters, column masks and tags of a table in Unity Catalog, as the statements that set them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.lakehouse.lakehouse import sql_text
from framework.naming import quoted

_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy as the statement that sets it; `column` is the one that it is of, None for the table's own."""

    statement: str
    column: str | None = None


def policies_of(spark: SparkSession, table: str) -> Iterator[Policy]:
    """The policies of a table, named `catalog.schema.table` as SQL writes it.

    Nothing where the catalog has no information about policies: then it is no catalog of Unity Catalog.
    """
    catalog, schema, name = _parts(table)
    information = f"{quoted(catalog)}.information_schema"
    if not spark.catalog.tableExists(f"{information}.row_filters"):
        return

    def rows(relation: str) -> DataFrame:
        every = spark.read.table(f"{information}.{relation}")
        # the catalog keeps names in small letters, whatever they were created with
        is_of_schema = F.lower("schema_name") == schema.lower()
        return every.where(is_of_schema & (F.lower("table_name") == name.lower()))

    for row in rows("row_filters").select(*_FILTER).collect():
        function = ".".join(quoted(part) for part in row[:3])
        yield Policy(f"ALTER TABLE {table} SET ROW FILTER {function} ON ({_columns(row[3])})")
    for row in rows("column_masks").select(*_MASK).orderBy("column_name").collect():
        function = ".".join(quoted(part) for part in row[1:4])
        others = _columns(row[4])
        using = f" USING COLUMNS ({others})" if others else ""
        mask = f"ALTER TABLE {table} ALTER COLUMN {quoted(row[0])} SET MASK {function}{using}"
        yield Policy(mask, row[0])
    for row in rows("table_tags").select(*_TAG).orderBy("tag_name").collect():
        yield Policy(f"ALTER TABLE {table} SET TAGS ({sql_text(row[0])} = {sql_text(row[1] or '')})")
    for row in rows("column_tags").select("column_name", *_TAG).orderBy("column_name", "tag_name").collect():
        tag = f"{sql_text(row[1])} = {sql_text(row[2] or '')}"
        yield Policy(f"ALTER TABLE {table} ALTER COLUMN {quoted(row[0])} SET TAGS ({tag})", row[0])


_FILTER = ("filter_catalog", "filter_schema", "filter_name", "filter_col_usage")
_MASK = ("column_name", "mask_catalog", "mask_schema", "mask_name", "mask_col_usage")
_TAG = ("tag_name", "tag_value")


def _parts(table: str) -> tuple[str, str, str]:
    catalog, schema, name = (found[0].replace("``", "`") or found[1] for found in _PART.findall(table))
    return catalog, schema, name


def _columns(text: str | None) -> str:
    """The columns of a list with commas, as SQL writes them."""
    return ", ".join(quoted(name.strip().strip("`")) for name in (text or "").split(",") if name.strip())
