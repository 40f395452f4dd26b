"""The types of Kafka Connect schemas: which canonical type a column has, and the canonical text of its values.

    {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": [
        {"field": "id", "type": "int32"}, {"field": "day", "type": "int32", "name": "io.debezium.time.Date"}]}]}

    type                                     canonical       wire
    int8 int16 int32 int64                   tinyint to bigint
    float double boolean string              the same
    bytes                                    binary          base64
    struct array map                         string          JSON text; elements of an array by their own type
    Date, IsoDate                            date            days since the epoch, or text
    Time, MicroTime, NanoTime, IsoTime       string          a count since midnight as HH:MM:SS[.f], or text
    Timestamp, MicroTimestamp, NanoTimestamp, IsoTimestamp   timestamp_ntz, the wall time of the source
    ZonedTimestamp                           timestamp       ISO 8601 with an offset
    Decimal                                  decimal(p,s)    base64 of the unscaled value, or a JSON number
    VariableScaleDecimal                     undeclared      {"scale": 2, "value": base64}
    Bits                                     decimal(20,0)   base64, little-endian; binary beyond 64 bits
    Year, MicroDuration, NanoDuration        int, bigint
    int64 that was BIGINT UNSIGNED           decimal(20,0)   negative from 2^63 on; told by the source's type, where it is sent
    Enum                                     string          the label, without the backslash before a comma
    EnumSet, Json, Xml, Uuid, Interval, ZonedTime, geometry and names unknown here   by their type

The names are those of `org.apache.kafka.connect.data` and `io.debezium`. Connect calls its `Timestamp` an instant; the
databases' connectors write wall times into it, so it is read as one. PostgreSQL's infinite timestamps have the text
`infinity`, which no timestamp holds. A value that its type cannot read stays the text
that came.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from framework.contracts.events import Column, Token
from framework.contracts.reasons import Malformed
from silver.cells import present, whole_text
from silver.shared import Shared
from silver.types import (
    AS_SENT,
    INTEGERS,
    MAX_DIGITS,
    UNSIGNED_BIGINT,
    date_text,
    declared_text,
    epoch_parts,
    undeclared_text,
    wall_of_epoch,
    wall_of_text,
)
from silver.wire import read_json, scalar

_CONNECT, _TIME, _DATA = "org.apache.kafka.connect.data.", "io.debezium.time.", "io.debezium.data."
_DECIMAL, _VARIABLE_DECIMAL, _BITS = _CONNECT + "Decimal", _DATA + "VariableScaleDecimal", _DATA + "Bits"
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
_ENUM, _YEAR = _DATA + "Enum", _TIME + "Year"
_YEAR_ZERO = "1900"
"""What the connectors make of MariaDB's and MySQL's year 0000; a YEAR column cannot hold 1900."""
_UNSIGNED_SCALE = 1 << 11
"""PostgreSQL keeps a scale in eleven bits with a sign, which the connector leaves out; its greatest scale is 1,000."""
_DATES = frozenset({_CONNECT + "Date", _TIME + "Date", _TIME + "IsoDate"})
_TIMES = {_CONNECT + "Time": "ms", _TIME + "Time": "ms", _TIME + "MicroTime": "us", _TIME + "NanoTime": "ns", _TIME + "IsoTime": "us"}
_WALLS = {
    _CONNECT + "Timestamp": "ms",
    _TIME + "Timestamp": "ms",
    _TIME + "MicroTimestamp": "us",
    _TIME + "NanoTimestamp": "ns",
    _TIME + "IsoTimestamp": "us",
}
_INSTANT = _TIME + "ZonedTimestamp"
ANY_TIMESTAMP = "wall time in a unit told by its digits"
"""The name of a field that no connector writes, for messages without a schema."""
_LAST_DAY, _LAST_MOMENT = 253_402_214_400_000, 253_402_300_799_999
"""9999-12-31 in milliseconds: as microseconds it would be a minute of 1978."""
_OFFSET = re.compile(r"(\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2})?)(?:\.(\d+))?(Z|[+-]\d{2}(?::?\d{2})?)")
_INFINITIES = {
    "9223372036825200000": "infinity",
    "-9223372036832400000": "-infinity",
    "+292278994-08-16T23:00:00Z": "infinity",
    "-292269055-12-02T23:00:00Z": "-infinity",
}
"""What PostgreSQL's connector writes for timestamps without an end, as a count or as text."""
_PARAMETER_DIGITS = 4
_MOST_BYTES, _MOST_SCALE = 1_024, _UNSIGNED_SCALE


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
    """A declared column; its token is set, and its type is not, where the declaration leaves the digits open."""
    declared = _source_type(field) or field.name or field.type
    if field.name == _VARIABLE_DECIMAL or (field.name == _DECIMAL and _digits(field) is None):
        return Column(declared=declared, token=Token.NUMBER)
    return Column(type=_type_of(field), declared=declared)


def value_of(field: Field, token: Token, text: str | None, numbers_as_text: bool = False) -> str | None:
    """The canonical text of one value. `numbers_as_text`: the feed writes every value as text, decimals too."""
    if text is None:
        return None
    name = field.name or ""
    if name == _DECIMAL:
        return _decimal(field, token, text, numbers_as_text)
    if name == _VARIABLE_DECIMAL:
        return _variable_decimal(token, text)
    if name == _BITS:
        return _bits(field, text)
    if name == _ENUM:
        return _enum(field, text)
    if name == _YEAR:
        return "0" if text == _YEAR_ZERO else declared_text("int", token, text)
    if field.type == "array" and field.items is not None and field.items.name and token is Token.JSON:
        return _array(field.items, text)
    convert = _conversion(name)
    if convert is not None:
        return _INFINITIES.get(text) or convert(text)
    kind = _type_of(field)
    plain = declared_text(kind, token, text)
    return _unsigned(plain) if kind == UNSIGNED_BIGINT else plain


def conversion_of(field: Field, kind: type, numbers_as_text: bool) -> Callable[[Any], str | None] | None:
    """What `value_of` makes of a cell of this kind; None where a cell of that kind is its canonical text."""
    name, is_list = field.name, field.type == "array"
    if kind is type(None):
        return None
    if not name and not is_list:
        canonical = _type_of(field)
        if kind is str and canonical in AS_SENT:
            return None
        if kind is int and (canonical in INTEGERS or canonical in AS_SENT):
            return whole_text
    if kind is str and name == _INSTANT:
        return lambda text: _INFINITIES.get(text) or _instant(text)
    convert = _conversion(name or "") if name and not is_list else None
    if convert is not None and kind in (str, int) and name not in (_DECIMAL, _VARIABLE_DECIMAL, _BITS, _ENUM, _YEAR):
        known = convert
        return lambda cell: _INFINITIES.get(text := str(present(cell)[1])) or known(text)
    return lambda cell: value_of(field, *present(cell), numbers_as_text)


def decimal_text(unscaled: int, scale: int) -> str:
    """`-9.90` of -990 and scale 2."""
    digits = str(abs(unscaled))
    if scale > 0:
        digits = digits.rjust(scale + 1, "0")
        digits = f"{digits[:-scale]}.{digits[-scale:]}"
    elif unscaled:
        digits += "0" * -scale
    return "-" + digits if unscaled < 0 else digits


def bytes_of(text: str) -> bytes | None:
    """The bytes of a base64 text; None when it is none."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return None


def _type_of(field: Field) -> str:
    name = field.name or ""
    if name in _DATES:
        return "date"
    if name in _TIMES:
        return "string"
    if name in _WALLS or name == ANY_TIMESTAMP:
        return "timestamp_ntz"
    if name == _INSTANT:
        return "timestamp"
    if name == _BITS:
        return "binary" if _is_wide(field) else UNSIGNED_BIGINT
    if name == _DECIMAL:
        precision, scale = _digits(field) or (MAX_DIGITS + 1, 0)
        return f"decimal({precision},{scale})" if precision <= MAX_DIGITS else "string"
    if field.type == "int64" and not name and (_source_type(field) or "").upper().startswith("BIGINT UNSIGNED"):
        return UNSIGNED_BIGINT
    return _PLAIN.get(field.type or "", "string")


def _source_type(field: Field) -> str | None:
    """The source's own type, where the connector is told to send it (`column.propagate.source.type`)."""
    return (field.parameters or {}).get("__debezium.source.column.type")


def _unsigned(text: str | None) -> str | None:
    """A number of 64 bits that the connector wrote as if it had a sign."""
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
    """Whether bits are more than a number holds. PostgreSQL's `bit varying` has 2147483647."""
    length = (field.parameters or {}).get("length", "")
    return length.isdigit() and (len(length) > _PARAMETER_DIGITS or _parameter(field, "length", 0) > 64)


def _conversion(name: str) -> Callable[[str], str] | None:
    if name in _DATES:
        return _date
    if name in _TIMES:
        return lambda text: _time_of_day(text, _TIMES[name])
    if name in _WALLS:
        return lambda text: _wall(text, _WALLS[name])
    if name == ANY_TIMESTAMP:
        return lambda text: _wall(text, _unit_of(text))
    return _instant if name == _INSTANT else None


def _unit_of(text: str) -> str:
    if not re.fullmatch(r"-?[0-9]{1,19}", text):
        return "ns"
    count = abs(int(text))
    if count < 10**14 or _LAST_DAY <= count <= _LAST_MOMENT:
        return "ms"
    return "us" if count <= _LAST_MOMENT * 1_000 + 999 else "ns"


def _date(text: str) -> str:
    if re.fullmatch(r"-?[0-9]{1,9}", text):
        return date_text(int(text)) or text
    return text.removesuffix("Z")


def _time_of_day(text: str, unit: str) -> str:
    negative = text.startswith("-")
    parts = epoch_parts(text.removeprefix("-"), unit)
    if parts is None:
        return text.removesuffix("Z")
    minutes, seconds = divmod(parts[0], 60)
    fraction = f".{parts[1]}" if parts[1].strip("0") else ""
    return f"{'-' if negative else ''}{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}{fraction}"


def _wall(text: str, unit: str) -> str:
    wall = wall_of_epoch(text, unit)
    return wall if wall is not text else wall_of_text(text.removesuffix("Z"))


def _instant(text: str) -> str:
    found = _OFFSET.fullmatch(text)
    if found is None:
        return text
    wall, fraction, offset = found.groups()
    try:
        moment = datetime.fromisoformat(wall + offset).astimezone(UTC)
    except (ValueError, OverflowError):
        return text
    return f"{moment.year:04d}-{moment:%m-%dT%H:%M:%S}" + (f".{fraction}" if fraction else "") + "Z"


def _decimal(field: Field, token: Token, text: str, numbers_as_text: bool) -> str:
    if token is Token.TEXT and not numbers_as_text:
        return _scaled_text(field, text)
    plain = declared_text("decimal", token, text) or text
    if token is Token.NUMBER or (numbers_as_text and re.fullmatch(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?", text.strip())):
        return plain
    return _scaled_text(field, text)


def _scaled_text(field: Field, text: str) -> str:
    scale = _parameter(field, "scale", 0)
    exact = _unscaled(text, scale) or text
    return exact.rstrip("0").removesuffix(".") or exact if scale >= _UNSIGNED_SCALE // 2 and "." in exact else exact


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
    return str(int.from_bytes(data[:_MOST_BYTES], "little"))


def _enum(field: Field, text: str) -> str:
    """The value without the backslash that the connectors of MariaDB and MySQL put before a comma, in the stream alone."""
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
    is_number = items.name in (_DECIMAL, _VARIABLE_DECIMAL) and _JSON_NUMBER.fullmatch(found)
    return found if is_number else json.dumps(found, ensure_ascii=False)
