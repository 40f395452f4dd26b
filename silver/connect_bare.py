"""Columns of Debezium messages without a schema block: what the configuration says of them, as the schema that is missing.

    columns: {price: {type: "decimal(12,2)", encoding: base64}, born: {type: date}, seen: {type: "decimal(20,0)", unsigned: true}}

    configured                         wire without schema                              read as
    decimal(p,s), encoding base64      base64 of the unscaled value                     decimal
    decimal(p,s)                       {"scale": 2, "value": base64}, numbers           decimal of open scale
    decimal(20,0) or bigint, unsigned  a number that is negative from 2^63 on           decimal(20,0)
    date                               days since the epoch                             date
    timestamp_ntz                      milli-, micro- or nanoseconds since the epoch    wall time; the unit is told by the number of digits
    timestamp                          ISO 8601 with an offset                          instant
    binary, encoding hex               hexadecimal digits                               binary

The unit of a wall time is told by its digits: up to 14 are milliseconds, beyond that microseconds up to the year 9999, then
nanoseconds. Microseconds within three years of 1970 are taken for milliseconds; 9999-12-31 in milliseconds is told. Any
other column is what the JSON shows.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Any

from msgspec import Raw

from silver.connect_types import ANY_TIMESTAMP, Field
from silver.format import Given

_DECIMAL = re.compile(r"decimal\(([0-9]+),([0-9]+)\)")
_HEX_TEXT = re.compile(rb'"((?:[0-9A-Fa-f]{2})*)"')


def fields_of(given: Mapping[str, Given], cells: Mapping[str, Raw]) -> dict[str, Field]:
    """The fields of the columns that are there and that the configuration describes."""
    return {name: field for name in cells if name in given and (field := _field(given[name], bytes(cells[name]))) is not None}


def in_base64(given: Mapping[str, Given], cells: dict[str, Any]) -> dict[str, Any]:
    """The cells with hexadecimal bytes as base64."""
    names = [name for name in cells if name in given and given[name].encoding == "hex"]
    return {**cells, **{name: _from_hex(cells[name]) for name in names}} if names else cells


def _field(given: Given, data: bytes) -> Field | None:
    kind = given.type or ""
    found = _DECIMAL.fullmatch(kind)
    if given.unsigned and (found is not None or kind in ("", "bigint")) and given.encoding is None:
        return Field(type="int64", parameters={"__debezium.source.column.type": "BIGINT UNSIGNED"})
    if found is not None:
        if data[:1] == b"{":
            return Field(type="struct", name="io.debezium.data.VariableScaleDecimal")
        parameters = {"connect.decimal.precision": found[1], "scale": found[2]}
        is_bytes = given.encoding == "base64" or data[:1] != b'"'
        return Field(type="bytes", name="org.apache.kafka.connect.data.Decimal", parameters=parameters) if is_bytes else None
    if kind == "binary" and given.encoding is not None:
        return Field(type="bytes")
    names = {"date": "io.debezium.time.Date", "timestamp_ntz": ANY_TIMESTAMP, "timestamp": "io.debezium.time.ZonedTimestamp"}
    return Field(name=names[kind]) if kind in names else None


def _from_hex(raw: Raw) -> Raw:
    found = _HEX_TEXT.fullmatch(bytes(raw))
    return raw if found is None else Raw(json.dumps(base64.b64encode(bytes.fromhex(found[1].decode())).decode()).encode())
