"""Columns of rows without types whose values look encoded: dates as numbers, decimals and bytes as base64.

Rows of Debezium without a schema block say nothing of their types. Until the definition of their table lands,
or the configuration has their types, gold shows such values as the messages have them.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from framework.config.model import Config
from framework.contracts.events import Token
from framework.naming import dotted_name
from framework.text.formatting import quantity
from silver.formats import FORMATS

_MOST_SCHEMAS, _MOST_NOTES = 1_000, 20
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={1,2}")
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_OF_A_DAY = re.compile(r"date|day|birth|dob|_on$", re.IGNORECASE)
_OF_A_TIME = re.compile(r"time|date|_at$|_ts$|^ts$", re.IGNORECASE)
_DAYS = range(3_653, 47_483)
"""1980 to 2099 as days."""
_MILLISECONDS = range(10**12, 41 * 10**11)
"""September 2001 to December 2099."""


def encoded_columns(changes: DataFrame, schemas: DataFrame, config: Config) -> tuple[str, ...]:
    """A note for each table with such columns; at most 20 notes, and one on the others.

    A few rows of each schema are looked at, and none where all rows declare their types.

    Args:
        changes: New rows of `silver/changes`.
        schemas: Rows of `silver/schemas`, those of the changes among them.
        config: The configuration. The columns that it names are left out.
    """
    sources = [name for name, s in config.sources.items() if FORMATS[s.format].has_table_definitions]
    if not sources:
        return ()
    rows = changes.where((F.col("kind") == "row") & F.col("source").isin(*sources))
    open_columns = F.filter("columns", lambda column: column["token"].isNotNull())
    found = schemas.select("schema_id", open_columns.alias("columns")).where("size(columns) > 0")
    of_rows = rows.select("schema_id").distinct()
    known = {
        row[0]: {column["name"]: column["token"] for column in row[1]}
        for row in found.join(of_rows, "schema_id", "left_semi").limit(_MOST_SCHEMAS).collect()
    }
    if not known:
        return ()
    tables: dict[tuple[str, str], dict[str, str]] = {}
    for row in _samples(rows.where(F.col("schema_id").isin(*known))):
        settings = config.settings(*row[:4]).columns
        columns = {name: token for name, token in known[row["schema_id"]].items() if name not in settings}
        images = [image for image in row["images"] if image is not None]
        shown = {
            name: kind
            for name, token in columns.items()
            if name not in (row["keys"] or ())
            if (kind := encoding_of(name, token, [image.get(name) for image in images])) is not None
        }
        if shown:
            tables.setdefault((row["source"], dotted_name(*row[1:4])), {}).update(shown)
    notes = [_note(source, table, columns) for (source, table), columns in sorted(tables.items())]
    if len(notes) > _MOST_NOTES:
        others = quantity(len(notes) - _MOST_NOTES, "other table has", "other tables have")
        notes[_MOST_NOTES:] = [f"{others} columns that look encoded"]
    return tuple(notes)


def encoding_of(name: str, token: str, values: Iterable[str | None]) -> str | None:
    """How the values of a column look encoded, in words; None where they do not, or where all are null.

    `token` is what messages show of the column, as `silver/schemas` has it.
    """
    texts = [text for text in values if text is not None]
    shown = set(token.split(",")) - {Token.NULL}
    if not texts:
        return None
    if shown == {Token.TEXT}:
        return "base64" if all(map(_is_base64, texts)) else None
    if shown != {Token.NUMBER} or not all(map(_INTEGER.fullmatch, texts)):
        return None
    numbers = [int(text) for text in texts]
    if all(number in _MILLISECONDS for number in numbers):
        return "a time in milliseconds"
    if all(number // 1_000 in _MILLISECONDS for number in numbers):
        return "a time in microseconds"
    if _OF_A_TIME.search(name) and all(number // 1_000_000 in _MILLISECONDS for number in numbers):
        return "a time in nanoseconds"
    if _OF_A_DAY.search(name) and all(number in _DAYS for number in numbers):
        return "a date in days"
    return None


def _is_base64(text: str) -> bool:
    """Whether a text is base64 that is padded; other base64 looks like a word."""
    if _BASE64.fullmatch(text) is None or len(text) % 4:
        return False
    return base64.b64encode(base64.b64decode(text)).decode() == text


def _samples(rows: DataFrame) -> Sequence[Row]:
    """Three images of each schema of a table: the first, the last, and one with as many values as any."""
    image = F.coalesce("after", "before")
    width = F.size(F.map_filter(image, lambda _, value: value.isNotNull()))
    chosen: Sequence[Column] = (
        F.max_by(image, width), F.min_by(image, "sequence"), F.max_by(image, "sequence"),
    )  # fmt: skip
    by = ("source", "database", "schema", "table", "schema_id")
    return rows.groupBy(*by).agg(F.first("keys").alias("keys"), F.array(*chosen).alias("images")).collect()


def _note(source: str, table: str, columns: Mapping[str, str]) -> str:
    shown = ", ".join(f"{name} ({kind})" for name, kind in sorted(columns.items()))
    return (
        f"source {source}: the rows of {table} declare no types, and these columns look encoded: {shown};"
        " they stay as they are until the definition of the table lands: add the topic of schema changes to"
        f" the source, or name their types under `tables: columns:` and run `mainstem rebuild {table} --from"
        " bronze`"
    )
