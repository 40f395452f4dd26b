"""Columns of Debezium messages without a schema block: the configuration takes the place of the schema.

    columns: {price: {type: "decimal(12,2)", encoding: base64}, born: {type: date},
              seen: {type: "decimal(20,0)", unsigned: true}}

    configured                         wire without schema                              read as
    decimal(p,s), encoding base64      base64 of the unscaled value                     decimal
    decimal(p,s), encoding text        digits as text                                   decimal
    decimal(p,s)                       text, in the mode of `decimals`; numbers         decimal
    decimal(p,s)                       {"scale": 2, "value": base64}                    decimal of open scale
    decimal(20,0) or bigint, unsigned  negative from 2^63 on, or base64                 decimal(20,0)
    date                               days since the epoch, or `2024-02-29[Z]`         date
    timestamp_ntz, encoding milliseconds, microseconds, nanoseconds                     wall time
    timestamp_ntz                      a number or text, in the mode of `times`         wall time
    string, encoding milliseconds, microseconds, nanoseconds                            time of day
    timestamp                          ISO 8601 with an offset                          instant
    timestamp, boolean, other values   see `silver/envelopes/configured_columns.py`
    binary, encoding base64, base64url, hex                                             binary
    binary                             text, in the mode of `binary`                    binary

For modes see `silver/envelopes/debezium/encoding_modes.py`. Where the mode leaves it open, the number of
digits gives the unit of a wall time: up to 14 digits are milliseconds, more are microseconds up to the year
9999, then nanoseconds. Microseconds within three years of 1970 are therefore read as milliseconds; 9999-12-31
in milliseconds is recognized. A number with its scale, {"scale": 2, "value": base64} (Oracle's NUMBER,
PostgreSQL's NUMERIC without digits), needs no configuration. Any other column has the type that its JSON
values show.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from typing import Any

import msgspec
from msgspec import Raw

from framework.contracts.events import Token
from silver.decoding.format import ColumnHint
from silver.decoding.json_reader import MAX_DIGITS, scalar
from silver.envelopes.connect.column_types import BASE64URL_BYTES, HEX_BYTES, TEXT_DECIMAL, Field, value_of
from silver.envelopes.connect.temporal import INFINITIES, instant
from silver.envelopes.debezium.encoding_modes import OPEN_BYTES, OPEN_DECIMAL, OPEN_WALL

_DECIMAL = re.compile(r"decimal\(([0-9]+),([0-9]+)\)")
_DECIMALS = {"base64": "org.apache.kafka.connect.data.Decimal", "text": TEXT_DECIMAL}
_BYTES = {"base64": None, "base64url": BASE64URL_BYTES, "hex": HEX_BYTES}
_TIME = "io.debezium.time."
_UNITS = {"milliseconds": "", "microseconds": "Micro", "nanoseconds": "Nano"}
_NAMES = {
    "date": "io.debezium.time.Date",
    "timestamp_ntz": OPEN_WALL,
    "timestamp": "io.debezium.time.ZonedTimestamp",
}
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}Z?")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_VARIABLE = Field(type="struct", name="io.debezium.data.VariableScaleDecimal")


class _Scaled(msgspec.Struct, forbid_unknown_fields=True):
    scale: int
    value: str


_SCALED = msgspec.json.Decoder(_Scaled)


def fields_of(given: Mapping[str, ColumnHint], *images: Mapping[str, Raw] | None) -> dict[str, Field]:
    """The fields of the columns in the images that the configuration describes."""
    cells: dict[str, bytes] = {}
    for image in images:
        for name, raw in (image or {}).items():
            if name in given and cells.get(name, b"null") == b"null":
                cells[name] = bytes(raw)
    return {name: field for name, data in cells.items() if (field := _field(given[name], data)) is not None}


def _is_other_text(kind: str, data: bytes) -> bool:
    """Whether a date or an instant is a text that no connector writes, but a transform may."""
    text = scalar(Raw(data))[1] if data[:1] == b'"' else None
    if text is None or kind == "timestamp_ntz":
        return False
    return (
        _DAY.fullmatch(text) is None if kind == "date" else text not in INFINITIES and instant(text) is text
    )


def with_numbers(cells: dict[str, Any], declared: Container[str]) -> dict[str, Any]:
    """The cells with numbers that name their scale as plain numbers, except in declared columns.

    A number with more digits than JSON numbers may have is text.
    """
    if type(next(iter(cells.values()), None)) is not Raw:
        return cells
    found = {
        name: number
        for name, cell in cells.items()
        if name not in declared and (number := _scaled(cell)) is not None
    }
    return {**cells, **found} if found else cells


def _scaled(cell: Any) -> Raw | None:
    if type(cell) is not Raw or not bytes(cell).startswith(b"{") or b'"scale"' not in bytes(cell):
        return None
    try:
        _SCALED.decode(cell)
    except msgspec.MsgspecError:
        return None
    text = value_of(_VARIABLE, Token.JSON, bytes(cell).decode())
    if text is None or _NUMBER.fullmatch(text) is None:
        return None
    return Raw(text.encode() if len(text) <= MAX_DIGITS else f'"{text}"'.encode())


def _field(given: ColumnHint, data: bytes) -> Field | None:
    """The field of a configured column; None where the connectors write no such value."""
    kind = given.type or ""
    found = _DECIMAL.fullmatch(kind)
    if given.unsigned and (found is not None or kind in ("", "bigint")) and given.encoding is None:
        return Field(type="int64", parameters={"__debezium.source.column.type": "BIGINT UNSIGNED"})
    if found is not None:
        if data[:1] == b"{":
            return _VARIABLE
        parameters = {"connect.decimal.precision": found[1], "scale": found[2]}
        return Field(
            type="bytes", name=_DECIMALS.get(given.encoding or "", OPEN_DECIMAL), parameters=parameters
        )
    if kind == "binary":
        return Field(type="bytes", name=_BYTES.get(given.encoding or "", OPEN_BYTES))
    if given.encoding in _UNITS and kind in ("timestamp_ntz", "string"):
        return Field(
            type="int64", name=f"{_TIME}{_UNITS[given.encoding]}{'Time' if kind == 'string' else 'Timestamp'}"
        )
    is_known = kind in _NAMES and given.encoding is None and not _is_other_text(kind, data)
    return Field(name=_NAMES[kind]) if is_known else None
