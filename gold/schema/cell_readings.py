"""How cells are read whose column had another type when they were sent.

Silver has the text of a cell in the type of its own row. Where the type of the replica's column is another
one, the text is read as the source converts values to that type. Bytes become the text that they are in
UTF-8; other bytes do not fit a column of text.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import reduce
from typing import Protocol

from pyspark.sql import Column
from pyspark.sql import functions as F

from framework.contracts.ddl_actions import AddColumn
from gold.schema.casting import NO_TEXT
from gold.schema.columns import ColumnNaming, TableColumn
from gold.schema.lineage import Lineage
from gold.schema.text_values import reader
from gold.schema.type_inference import ColumnEvidence

_TRUTHS = {"1": "true", "0": "false"}
_DATE = r"^\d{4}-\d{2}-\d{2}\z"
_WALL = r"^(\d{4}-\d{2}-\d{2})T(\d{2}:)"
_IS_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_IS_WALL = re.compile(_WALL, re.ASCII)
_MIDNIGHT = "T00:00:00"
_LONG_TIME = re.compile(r"(?:time|date)[^(]*\(\s*[7-9]\s*\)|nano", re.IGNORECASE)
"""The declared type of times with more digits than Spark keeps: their texts are those of wall times."""


class Reading(StrEnum):
    """How a cell is read."""

    MIDNIGHT = "midnight"
    """A date is the wall time at which it begins."""
    TEXT_OF_TIME = "text of time"
    """A wall time is the text that databases write for it, with a space."""
    TEXT_OF_BYTES = "text of bytes"
    """Bytes are the text that they are in UTF-8; others are marked, and do not fit (`casting.NO_TEXT`)."""
    BYTES_OF_TEXT = "bytes of text"
    """A text is its bytes in UTF-8."""


_OF_SCHEMA = {
    ("timestamp_ntz", "string"): Reading.TEXT_OF_TIME,
    ("binary", "string"): Reading.TEXT_OF_BYTES,
    ("string", "binary"): Reading.BYTES_OF_TEXT,
}
"""The readings for which a text alone does not tell its type, by that type and the type of the column."""


class DeclaredColumn(Protocol):
    """A column of a schema in `silver/schemas`."""

    @property
    def name(self) -> str:
        """The name at that time."""

    @property
    def type(self) -> str | None:
        """The canonical type; None where the feed declares none."""


def with_mixed(
    columns: Iterable[TableColumn], shown: Mapping[str, ColumnEvidence], keys: Collection[str]
) -> tuple[TableColumn, ...]:
    """The columns, with those marked whose cells are read by the type that their own row declares.

    Columns of the key are none of them: `refuse_mixed_key` parks their table.

    Args:
        columns: The columns of a replica.
        shown: What rows show of each column, by current name.
        keys: The columns of its key.
    """
    return tuple(
        replace(column, is_mixed=column.name not in keys and _is_mixed(column.type, shown.get(column.name)))
        for column in columns
    )


def _is_mixed(kind: str, shown: ColumnEvidence | None) -> bool:
    if shown is None or len(shown.types) < 2:
        return False
    if kind == "binary":
        return "string" in shown.types
    is_long = any(_LONG_TIME.search(declared) for declared in shown.declared)
    has_walls = {"timestamp_ntz", "string"} <= shown.types and not is_long
    return kind == "string" and ("binary" in shown.types or has_walls)


def read_otherwise(
    columns: Iterable[TableColumn], applied: Mapping[str, ColumnEvidence], keys: Collection[str]
) -> str | None:
    """A column with applied cells that are read in another way now; None where there is none.

    Args:
        columns: The columns of a replica, as `with_mixed` has marked them.
        applied: What the applied rows show of each column, by current name.
        keys: The columns of the key.
    """
    now = tuple(columns)
    for column, before in zip(now, with_mixed(now, applied, keys), strict=True):
        types = applied[column.name].types if column.name in applied else ()
        has_others = any((kind, column.type) in _OF_SCHEMA for kind in types)
        if column.is_mixed != before.is_mixed and has_others:
            return column.name
    return None


def with_readings(
    namings: Sequence[ColumnNaming],
    columns: Iterable[TableColumn],
    evidence: Mapping[tuple[int, str], ColumnEvidence],
    schemas: Mapping[str, Sequence[DeclaredColumn]],
    lineage: Lineage,
) -> tuple[ColumnNaming, ...]:
    """The namings with how the cells of their rows are read in the types of the replica.

    Defaults are texts of these types then: statements also write 1 and 0 for booleans.

    Args:
        namings: The namings of a table's rows.
        columns: The columns of its replica.
        evidence: What the rows show of each column, by naming and name.
        schemas: The columns of each schema that rows name; not read unless a column is mixed.
        lineage: The lineage of the namings.
    """
    known = {column.name: column for column in columns}
    days: dict[int, set[str]] = {}
    mixed: dict[int, dict[str, TableColumn]] = {}
    for (naming, name), shown in evidence.items():
        column = known.get(namings[naming].current_name(name) or "")
        if column is not None and column.type == "timestamp_ntz" and "date" in shown.types:
            days.setdefault(naming, set()).add(column.name)
        if column is not None and column.is_mixed:
            mixed.setdefault(naming, {})[name] = column
    added = {
        namings[at + 1].current_name(action.name): action.type
        for at, (_, action) in enumerate(lineage.column_changes)
        if isinstance(action, AddColumn)
    }
    defaults = [
        {name: _default(text, known.get(name), added.get(name)) for name, text in naming.defaults.items()}
        for naming in namings
    ]
    return tuple(
        replace(
            naming,
            defaults=defaults[number],
            readings=dict.fromkeys(days.get(number, ()), Reading.MIDNIGHT),
            schema_readings=_by_schema(mixed[number], schemas) if number in mixed else {},
        )
        for number, naming in enumerate(namings)
    )


def _by_schema(
    mixed: Mapping[str, TableColumn], schemas: Mapping[str, Sequence[DeclaredColumn]]
) -> dict[str, dict[str, str]]:
    """How the cells of mixed columns are read in rows of each schema, by current name."""
    found: dict[str, dict[str, str]] = {}
    for schema_id, columns in schemas.items():
        for own in columns:
            column = mixed.get(own.name)
            if column is not None and (own.type or "", column.type) in _OF_SCHEMA:
                reading = _OF_SCHEMA[own.type or "", column.type]
                found.setdefault(schema_id, {})[column.name] = str(reading)
    return found


def _default(text: str, column: TableColumn | None, added_as: str | None) -> str:
    kind = None if column is None else column.type
    if kind == "boolean":
        return _TRUTHS.get(text, text)
    if kind == "timestamp_ntz":
        return read_text(text, Reading.MIDNIGHT)
    is_mixed = column is not None and column.is_mixed
    return read_text(text, _OF_SCHEMA.get((added_as or "", kind or ""))) if is_mixed else text


def read_text(text: str, reading: str | None) -> str:
    """The text of a cell as its column is read; unchanged without a reading, and where it does not fit it."""
    if reading == Reading.MIDNIGHT:
        return text + _MIDNIGHT if _IS_DATE.fullmatch(text) else text
    if reading == Reading.TEXT_OF_TIME:
        return _IS_WALL.sub(r"\1 \2", text)
    if reading == Reading.BYTES_OF_TEXT:
        return b64encode(text.encode()).decode()
    if reading == Reading.TEXT_OF_BYTES:
        content = reader("binary")(text)
        try:
            return NO_TEXT + text if content is None else str(content, "utf-8")
        except UnicodeDecodeError:
            return NO_TEXT + text
    return text


def read_column(text: Column, reading: Column) -> Column:
    """The same with Spark."""
    decoded = F.try_validate_utf8(F.try_to_binary(text, F.lit("base64")).cast("string"))
    read = {
        Reading.MIDNIGHT: F.when(text.rlike(_DATE), F.concat(text, F.lit(_MIDNIGHT))).otherwise(text),
        Reading.TEXT_OF_TIME: F.regexp_replace(text, _WALL, "$1 $2"),
        Reading.BYTES_OF_TEXT: F.base64(text.cast("binary")),
        Reading.TEXT_OF_BYTES: F.coalesce(decoded, F.concat(F.lit(NO_TEXT), text)),
    }
    unread = F.when(reading.isNull(), text)
    return reduce(lambda one, other: one.when(reading == other, read[other]), read, unread).otherwise(text)


def readings_of(
    namings: Mapping[int, ColumnNaming], by_naming: Column, number: Column, schema_id: Column | None
) -> Column:
    """How the cells of a row are read, by current name, as a map.

    Args:
        namings: The namings of the rows, by number.
        by_naming: The readings that the naming of the row gives.
        number: The number of that naming.
        schema_id: The schema of the row; None where the rows have none.
    """
    own = {
        f"{at},{of}": readings
        for at, naming in namings.items()
        for of, readings in naming.schema_readings.items()
    }
    if not own or schema_id is None:
        return by_naming
    known = F.from_json(F.lit(json.dumps(own)), "map<string,map<string,string>>")
    mine = F.try_element_at(known, F.concat(number.cast("string"), F.lit(","), schema_id))
    return F.coalesce(F.map_concat(by_naming, mine), by_naming)


def read_image(image: Column, readings: Column) -> Column:
    """The image with its cells as they are read."""
    return F.transform_values(image, lambda name, text: read_column(text, F.try_element_at(readings, name)))
