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
    binary                                          base64
    binary, encoding base64url, hex                 these; hexadecimal digits with or without `0x` before them
    decimal(p,s), integers, encoding base64         the base64 of the unscaled value, the number without its
                                                    point in two's complement; numbers and digits too
    string, encoding milliseconds ...               a time of day, a count since midnight

A feed that writes such values in its own way has its own reader. A value that the type does not read stays as
it was sent, and gold lists it. A value that is not in the encoding of its bytes may look like base64: it gets
the name of the encoding before it (`hex:12`), and gold lists that. All other types need no reading: gold
casts what was sent.

What a message declares stands above the configuration, with one exception: a text in hexadecimal digits or
base64url is bytes where the configuration says so, because no type of a feed says this of a text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType

from framework.contracts.events import Column, Token
from silver.decoding.cells import Texts
from silver.decoding.format import ColumnHint, Context
from silver.envelopes.connect.byte_encodings import base64_of, not_in
from silver.envelopes.connect.column_types import DECIMAL, Field, value_of
from silver.envelopes.connect.messages import decoded_image
from silver.envelopes.connect.temporal import TIME_OF_DAY, temporal_conversion
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

UNITS = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}
"""The units of times by the names of their encodings."""

_READ = frozenset({"timestamp", "timestamp_ntz", "date", "boolean", "binary"})
_OF_TEXTS = frozenset({"hex", "base64url"})
_DECIMAL = re.compile(r"decimal\(([0-9]+),([0-9]+)\)")
_MIDNIGHT = "T00:00:00"


def configured_text(hint: ColumnHint, token: Token, text: str, zone: str) -> str:
    """The canonical text of a value, for feeds that write times as texts."""
    kind, unit = hint.type or "string", UNITS.get(hint.encoding or "")
    if kind == "binary":
        return bytes_text(hint, token, text)
    if is_bits(hint):
        return value_of(_unscaled(kind), token, text) or text
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
    if kind == "string":
        of_day = temporal_conversion(TIME_OF_DAY[unit]) if unit is not None else None
        return text if of_day is None else of_day(text)
    return declared_text(kind, token, text) or text


def bytes_text(hint: ColumnHint, token: Token, text: str) -> str:
    """Bytes as base64. Gold reads base64 itself, and lists a text that is none; a number is no bytes."""
    encoding = hint.encoding or "base64"
    if token is not Token.TEXT:
        return not_in(encoding, text)
    return text if encoding == "base64" else base64_of(text, encoding)


@lru_cache(maxsize=256)
def _unscaled(kind: str) -> Field:
    digits = _DECIMAL.fullmatch(kind)
    precision, scale = (digits[1], digits[2]) if digits is not None else ("38", "0")
    return Field(
        type="bytes", name=DECIMAL, parameters={"connect.decimal.precision": precision, "scale": scale}
    )


@dataclass(frozen=True, slots=True)
class ConfiguredColumns:
    """What the configuration says about the columns of one table.

    `hints` has the columns whose values are not canonical as they were sent.
    """

    hints: Mapping[str, ColumnHint] = field(default_factory=dict)
    zone: str = "UTC"
    read: Reader = configured_text

    def image(
        self,
        texts: Texts | None,
        columns: Mapping[str, Column],
        declared: Mapping[str, Column] = MappingProxyType({}),
    ) -> tuple[Texts | None, Mapping[str, Column]]:
        """An image and its columns; the values of configured columns without a type are read, and typed.

        `declared` are the columns whose types the message declares, if `columns` leaves them out; see
        `declared` for their types.
        """
        if texts is None or not self.hints:
            return texts, columns
        coded = [name for name in self._coded(declared) if texts.get(name) is not None]
        if coded:
            read = {name: self._read(name, Token.TEXT, texts[name] or "") for name in coded}
            texts = {**texts, **read}
        return self.row(texts, columns)

    def declared(self, columns: Mapping[str, Column]) -> Mapping[str, Column]:
        """The declared columns of a message, with the type of the bytes in texts that are read as such."""
        coded = self._coded(columns) if self.hints else ()
        if not coded:
            return columns
        binary = {name: Column(type="binary", declared=columns[name].declared) for name in coded}
        return {**columns, **binary}

    def _coded(self, declared: Mapping[str, Column]) -> list[str]:
        return [
            name for name, hint in self.hints.items() if name in declared and _is_coded(declared[name], hint)
        ]

    def _read(self, name: str, token: Token, text: str) -> str:
        return self.read(self.hints[name], token, text, self.zone)

    def row(self, texts: Texts, columns: Mapping[str, Column]) -> tuple[Texts, Mapping[str, Column]]:
        """The same for an image that is there."""
        if not self.hints:
            return texts, columns
        found = [
            name
            for name, hint in self.hints.items()
            if name in columns and (columns[name].type is None or _is_coded(columns[name], hint))
        ]
        if not found:
            return texts, columns
        texts, columns = dict(texts), dict(columns)
        for name in found:
            text, column = texts.get(name), columns[name]
            columns[name] = Column(type=self.hints[name].type, declared=column.declared)
            if text is not None:
                texts[name] = self._read(name, column.token or Token.TEXT, text)
        return texts, columns


_NOTHING = ConfiguredColumns()


def configured_columns(
    context: Context, table: tuple[str | None, str | None, str], read: Reader = configured_text
) -> ConfiguredColumns:
    """What the configuration says about the columns of a table (database, schema, table)."""
    given = context.hints_for(*table)
    if not given:
        return _NOTHING
    hints = {name: hint for name, hint in given.items() if _is_read(hint)}
    return ConfiguredColumns(hints, context.timezone, read)


def _is_read(hint: ColumnHint) -> bool:
    return hint.type in _READ or is_bits(hint) or (hint.type == "string" and hint.encoding in UNITS)


def is_bits(hint: ColumnHint) -> bool:
    """Whether a column's numbers come as the base64 of their bytes."""
    return hint.encoding == "base64" and hint.type not in (None, "string", *_READ)


def _is_coded(column: Column, hint: ColumnHint) -> bool:
    return column.type == "string" and is_coded_text(hint)


def is_coded_text(hint: ColumnHint) -> bool:
    """Whether a column's texts are bytes in an encoding that no feed declares."""
    return hint.type == "binary" and hint.encoding in _OF_TEXTS


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
