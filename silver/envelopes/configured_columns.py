"""Columns whose type a message does not declare, read as the configuration says.

    columns: {paid: {type: timestamp}, made: {type: timestamp_ntz, encoding: milliseconds}}

    configured                                      read
    timestamp                                       a wall time, in the zone that it names, else in the
                                                    source's `timezone`
    timestamp_ntz                                   a wall time
    the same, encoding milliseconds, microseconds,  a count since 1970
    nanoseconds
    date                                            a day, with or without midnight behind it
    boolean                                         1 and 0 too

A feed that writes such values in its own way has its own reader. A value that the type does not read stays as
it was sent, and gold lists it. All other types need no reading: gold casts what was sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from framework.contracts.events import Column, Token
from silver.decoding.cells import Texts
from silver.decoding.format import ColumnHint, Context
from silver.envelopes.connect.messages import decoded_image
from silver.values.canonical import (
    declared_text,
    instant_of_epoch,
    instant_of_wall,
    instant_of_zoned_wall,
    wall_of_epoch,
    wall_of_text,
)

Reader = Callable[[ColumnHint, Token, str, str], str]
"""Gives the canonical text of a value for (hint, token, text, zone)."""

Rows = tuple[Texts | None, Texts | None]
"""The images of a change, before and after."""

_READ = frozenset({"timestamp", "timestamp_ntz", "date", "boolean"})
_UNITS = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}
_MIDNIGHT = "T00:00:00"


def configured_text(hint: ColumnHint, token: Token, text: str, zone: str) -> str:
    """The canonical text of a value, for feeds that write times as texts."""
    kind, unit = hint.type, _UNITS.get(hint.encoding or "")
    if kind == "timestamp":
        if unit is not None:
            return instant_of_epoch(text, unit)
        instant = instant_of_wall(text, zone)
        return instant_of_zoned_wall(text) if instant is text else instant
    if kind == "timestamp_ntz":
        return wall_of_text(text) if unit is None else wall_of_epoch(text, unit)
    if kind == "date":
        day, midnight, rest = wall_of_text(text).partition(_MIDNIGHT)
        return day if midnight and not rest.strip(".0") else text
    return declared_text(kind or "string", token, text) or text


@dataclass(frozen=True, slots=True)
class ConfiguredColumns:
    """What the configuration says about the columns of one table.

    `hints` has the columns whose values are not canonical as they were sent.
    """

    hints: Mapping[str, ColumnHint] = field(default_factory=dict)
    zone: str = "UTC"
    read: Reader = configured_text

    def image(
        self, texts: Texts | None, columns: Mapping[str, Column]
    ) -> tuple[Texts | None, Mapping[str, Column]]:
        """An image and its columns; the values of configured columns without a type are read, and typed."""
        return self.row(texts, columns) if texts is not None and self.hints else (texts, columns)

    def row(self, texts: Texts, columns: Mapping[str, Column]) -> tuple[Texts, Mapping[str, Column]]:
        """The same for an image that is there."""
        if not self.hints:
            return texts, columns
        found = [name for name in self.hints if name in columns and columns[name].type is None]
        if not found:
            return texts, columns
        texts, columns = dict(texts), dict(columns)
        for name in found:
            text, column, hint = texts.get(name), columns[name], self.hints[name]
            columns[name] = Column(type=hint.type, declared=column.declared)
            if text is not None:
                texts[name] = self.read(hint, column.token or Token.TEXT, text, self.zone)
        return texts, columns


_NOTHING = ConfiguredColumns()


def configured_columns(
    context: Context, table: tuple[str | None, str | None, str], read: Reader = configured_text
) -> ConfiguredColumns:
    """What the configuration says about the columns of a table (database, schema, table)."""
    given = context.hints_for(*table)
    if not given:
        return _NOTHING
    hints = {name: hint for name, hint in given.items() if hint.type in _READ or is_bits(hint)}
    return ConfiguredColumns(hints, context.timezone, read)


def is_bits(hint: ColumnHint) -> bool:
    """Whether a column's numbers come as the base64 of their bytes."""
    return hint.encoding == "base64" and hint.type not in (None, "string", "binary", *_READ)


def decoded_rows(
    images: Rows, columns: Mapping[str, Column], codecs: Mapping[str, str]
) -> tuple[Rows, Mapping[str, Column]]:
    """The images before and after with decoded text in the columns of bytes that have a codec.

    Columns that the feed declares as something else, and undeclared ones that are no texts, stay. Raises
    `Malformed` when a value is not in its codec.
    """
    coded = {name: codec for name, codec in codecs.items() if name in columns and _is_bytes(columns[name])}
    if not coded:
        return images, columns
    before, after = images
    texts = {name: Column(type="string", declared=columns[name].declared) for name in coded}
    return (decoded_image(before, coded), decoded_image(after, coded)), {**columns, **texts}


def _is_bytes(column: Column) -> bool:
    return column.type == "binary" or column.token in (Token.TEXT, Token.NULL)
