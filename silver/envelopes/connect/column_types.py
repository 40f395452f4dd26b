"""The types of Kafka Connect schemas: the canonical types of columns, the canonical text of values.

    {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": [
        {"field": "id", "type": "int32"},
        {"field": "day", "type": "int32", "name": "io.debezium.time.Date"}]}]}

    type                                     canonical       written as
    int8 int16 int32 int64                   tinyint to bigint
    float double boolean string              the same
    bytes                                    binary          base64
    struct array map                         string          JSON text; elements of an array by their own type
    dates and times                          see `silver/envelopes/connect/temporal.py`
    Decimal                                  decimal(p,s)    base64 of the unscaled value, or a JSON number
    VariableScaleDecimal                     undeclared      {"scale": 2, "value": base64}
    TEXT_DECIMAL, HEX_BYTES, BASE64URL_BYTES decimal, binary the same without a schema block, see
                                                             `silver/envelopes/debezium/encoding_modes.py`
    Bits                                     decimal(20,0)   base64, little-endian; binary beyond 64 bits
    Year, MicroDuration, NanoDuration        int, bigint
    int64 that was BIGINT UNSIGNED           decimal(20,0)   negative from 2^63 on, or base64; known by the
                                                             type of the source, if the connector sends it
    Enum                                     string          the label, without the backslash before a comma
    EnumSet, Json, Xml, Uuid, Interval, ZonedTime, geometry, and names unknown here: by their `type`

The names are those of `org.apache.kafka.connect.data` and `io.debezium`. A value that its type cannot read
stays the text that came.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import msgspec

from framework.contracts.events import Column, Token
from framework.contracts.quarantine_reasons import Malformed
from silver.decoding.cells import integer_text, read_non_null_cell
from silver.decoding.interning import Shared
from silver.decoding.json_reader import read_json, scalar
from silver.envelopes.connect.byte_encodings import base64_of, bytes_of
from silver.envelopes.connect.temporal import (
    CONNECT,
    DEBEZIUM_TIME,
    INFINITIES,
    INSTANT,
    TEMPORAL_TYPES,
    instant,
    temporal_conversion,
)
from silver.values.canonical import (
    AS_SENT,
    INTEGERS,
    MAX_DIGITS,
    UNSIGNED_BIGINT,
    declared_text,
    undeclared_text,
)

_DATA = "io.debezium.data."
DECIMAL = CONNECT + "Decimal"
_VARIABLE_DECIMAL, _BITS = _DATA + "VariableScaleDecimal", _DATA + "Bits"
_PLAIN = {
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float": "float",
    "float32": "float",
    "double": "double",
    "float64": "double",
    "boolean": "boolean",
    "string": "string",
    "bytes": "binary",
}
_ENUM, _YEAR = _DATA + "Enum", DEBEZIUM_TIME + "Year"
_YEAR_ZERO = "1900"
"""What the connectors make of MariaDB's and MySQL's year 0000; a YEAR column cannot hold 1900."""
_UNSIGNED_SCALE = 1 << 11
"""PostgreSQL keeps a scale in eleven bits with a sign.

The connector drops the sign; the greatest scale is 1,000.
"""
TEXT_DECIMAL, HEX_BYTES, BASE64URL_BYTES = (
    "decimal as text",
    "bytes as hexadecimal digits",
    "bytes as base64url",
)
"""Names that no connector writes, for fields of messages without a schema block."""
MAY_BE_BOOLEAN = "number that may be a boolean"
"""A parameter that no connector writes: the column is one that a converter may write as a boolean."""
_ENCODINGS = {HEX_BYTES: "hex", BASE64URL_BYTES: "base64url"}
_WRITTEN = {TEXT_DECIMAL: DECIMAL, HEX_BYTES: "bytes", BASE64URL_BYTES: "bytes"}
_PARAMETER_DIGITS = 4
_MOST_BYTES, _MOST_SCALE = 65_536, 16_383
"""Of a number of open scale: those of PostgreSQL, with up to 131,072 digits before the point."""
_BITS_AT_ONCE = 8_192
"""Python refuses to write a number of more than 4,300 digits."""


class Field(msgspec.Struct):
    """One schema: of a whole message, of an image, or of a column."""

    type: str | None = None
    name: str | None = None
    field: str | None = None
    fields: list[Field] | None = None
    parameters: dict[str, str] | None = None
    items: Field | None = None


class Fields(Shared[str, Field]):
    """The fields of a table's columns by name."""


class _Scaled(msgspec.Struct):
    scale: int
    value: str


_SCALED = msgspec.json.Decoder(_Scaled)
_ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")


def column_of(field: Field) -> Column:
    """A declared column. Where the declaration leaves the digits open, it has a token and no type."""
    declared = _source_type(field) or _WRITTEN.get(field.name or "", field.name) or field.type
    if field.name == _VARIABLE_DECIMAL or (field.name in (DECIMAL, TEXT_DECIMAL) and _digits(field) is None):
        return Column(declared=declared, token=Token.NUMBER)
    return Column(type=_type_of(field), declared=declared)


def value_of(field: Field, token: Token, text: str | None, numbers_as_text: bool = False) -> str | None:
    """The canonical text of one value.

    `numbers_as_text`: the feed writes every value as text, decimals too.
    """
    if text is None:
        return None
    name = field.name or ""
    if token is Token.BOOLEAN and MAY_BE_BOOLEAN in (field.parameters or {}):
        return "1" if text == "true" else "0"
    if name == DECIMAL:
        return _decimal(field, token, text, numbers_as_text)
    if name == TEXT_DECIMAL:
        return declared_text("decimal", token, text)
    if name == _VARIABLE_DECIMAL:
        return _variable_decimal(token, text)
    if name in _ENCODINGS:
        return base64_of(text, _ENCODINGS[name])
    if name == _BITS:
        return _bits(field, text)
    if name == _ENUM:
        return _enum(field, text)
    if name == _YEAR:
        return "0" if text == _YEAR_ZERO else declared_text("int", token, text)
    if field.type == "array" and field.items is not None and field.items.name and token is Token.JSON:
        return _array(field.items, text)
    convert = temporal_conversion(name)
    if convert is not None:
        return INFINITIES.get(text) or convert(text)
    kind = _type_of(field)
    plain = declared_text(kind, token, text)
    return _unsigned(token, plain) if kind == UNSIGNED_BIGINT else plain


def conversion_of(field: Field, kind: type, numbers_as_text: bool) -> Callable[[Any], str | None] | None:
    """The function that does for a cell of this kind what `value_of` does.

    None where the cell is canonical text.
    """
    name, is_list = field.name, field.type == "array"
    if kind is type(None):
        return None
    if not name and not is_list:
        canonical = _type_of(field)
        if kind is str and canonical in AS_SENT:
            return None
        if kind is int and (canonical in INTEGERS or canonical in AS_SENT):
            return integer_text
    if kind is str and name == INSTANT:
        return lambda text: INFINITIES.get(text) or instant(text)
    convert = temporal_conversion(name or "") if name and not is_list else None
    if (
        convert is not None
        and kind in (str, int)
        and name not in (DECIMAL, _VARIABLE_DECIMAL, _BITS, _ENUM, _YEAR)
    ):
        known = convert
        return lambda cell: INFINITIES.get(text := str(read_non_null_cell(cell)[1])) or known(text)
    return lambda cell: value_of(field, *read_non_null_cell(cell), numbers_as_text)


def decimal_text(unscaled: int, scale: int) -> str:
    """`-9.90` of -990 and scale 2."""
    digits = _digits_of(abs(unscaled))
    if scale > 0:
        digits = digits.rjust(scale + 1, "0")
        digits = f"{digits[:-scale]}.{digits[-scale:]}"
    elif unscaled:
        digits += "0" * -scale
    return "-" + digits if unscaled < 0 else digits


def _digits_of(number: int) -> str:
    bits = number.bit_length()
    if bits <= _BITS_AT_ONCE:
        return str(number)
    half = bits * 3 // 20
    high, low = divmod(number, 10**half)
    return _digits_of(high) + _digits_of(low).rjust(half, "0")


def _type_of(field: Field) -> str:
    name = field.name or ""
    if name in TEMPORAL_TYPES:
        return TEMPORAL_TYPES[name]
    if name == _BITS:
        return "binary" if _is_wide(field) else UNSIGNED_BIGINT
    if name in (DECIMAL, TEXT_DECIMAL):
        precision, scale = _digits(field) or (MAX_DIGITS + 1, 0)
        return f"decimal({precision},{scale})" if precision <= MAX_DIGITS else "string"
    if (
        field.type == "int64"
        and not name
        and (_source_type(field) or "").upper().startswith("BIGINT UNSIGNED")
    ):
        return UNSIGNED_BIGINT
    return _PLAIN.get(field.type or "", "string")


def _source_type(field: Field) -> str | None:
    """The source's own type, where the connector sends it (its setting `column.propagate.source.type`)."""
    return (field.parameters or {}).get("__debezium.source.column.type")


def _unsigned(token: Token, text: str | None) -> str | None:
    """An unsigned number of 64 bits, which the connector writes as if it had a sign, or as base64."""
    if token is Token.TEXT and text is not None and not text.isdigit():
        whole = _unscaled(text, 0)
        return text if whole is None or whole.startswith("-") else whole
    return str(int(text) + (1 << 64)) if text is not None and re.fullmatch(r"-[0-9]{1,19}", text) else text


def _digits(field: Field) -> tuple[int, int] | None:
    """Precision and scale of a Decimal, None where the precision is open."""
    precision, scale = _parameter(field, "connect.decimal.precision", 0), _parameter(field, "scale", 0)
    if precision <= 0:
        return None
    if scale >= _UNSIGNED_SCALE // 2:
        scale -= _UNSIGNED_SCALE
    return (precision - scale, 0) if scale < 0 else (max(precision, scale), scale)


def _parameter(field: Field, name: str, missing: int) -> int:
    text = (field.parameters or {}).get(name, "")
    if text.isdigit() and text.isascii() and len(text) <= _PARAMETER_DIGITS:
        return int(text)
    if not re.fullmatch(r"-?[0-9]{1,4}", text):
        return missing
    return int(text)


def _is_wide(field: Field) -> bool:
    """Whether there are more bits than a number holds. PostgreSQL's `bit varying` has 2147483647."""
    length = (field.parameters or {}).get("length", "")
    return length.isdigit() and (len(length) > _PARAMETER_DIGITS or _parameter(field, "length", 0) > 64)


def _decimal(field: Field, token: Token, text: str, numbers_as_text: bool) -> str:
    if token is Token.TEXT and not numbers_as_text:
        return _scaled_text(field, text)
    if token is Token.JSON:
        return _variable_decimal(token, text)
    plain = declared_text("decimal", token, text) or text
    if token in (Token.NUMBER, Token.BOOLEAN) or (
        numbers_as_text and re.fullmatch(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?", text.strip())
    ):
        return plain
    return _scaled_text(field, text)


def _scaled_text(field: Field, text: str) -> str:
    scale = _parameter(field, "scale", 0)
    exact = _unscaled(text, scale) or text
    return (
        exact.rstrip("0").removesuffix(".") or exact
        if scale >= _UNSIGNED_SCALE // 2 and "." in exact
        else exact
    )


def _variable_decimal(token: Token, text: str) -> str:
    if token is not Token.JSON:
        return undeclared_text(token, text) or text
    try:
        scaled = read_json(_SCALED, text.encode())
    except Malformed:
        return text
    return _unscaled(scaled.value, scaled.scale) or text


def _unscaled(text: str, scale: int) -> str | None:
    data = bytes_of(text)
    if not data or len(data) > _MOST_BYTES or abs(scale) > _MOST_SCALE:
        return None
    return decimal_text(int.from_bytes(data, "big", signed=True), scale)


def _bits(field: Field, text: str) -> str:
    data = bytes_of(text)
    if data is None or _type_of(field) == "binary":
        return text
    return _digits_of(int.from_bytes(data[:_MOST_BYTES], "little"))


def _enum(field: Field, text: str) -> str:
    """The label without the backslash before a comma, which the connectors write only while streaming."""
    allowed = (field.parameters or {}).get("allowed", "")
    return text.replace("\\,", ",") if "\\," in text and text in re.split(r"(?<!\\),", allowed) else text


def _array(items: Field, text: str) -> str:
    """The JSON text of an array with its elements as canonical texts; numbers stay numbers."""
    try:
        elements = read_json(_ELEMENTS, text.encode())
    except Malformed:
        return text
    return "[" + ",".join(_element(items, bytes(raw)) for raw in elements) + "]"


def _element(items: Field, data: bytes) -> str:
    token, text = scalar(data)
    found = None if text is None else value_of(items, token, text)
    if found is None or found == text:
        return data.decode()
    is_number = items.name in (DECIMAL, _VARIABLE_DECIMAL) and _JSON_NUMBER.fullmatch(found)
    return found if is_number else json.dumps(found, ensure_ascii=False)
