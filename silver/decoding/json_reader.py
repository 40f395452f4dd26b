"""Reading JSON bytes with exact number text, and the reasons why bytes are not a message.

All formats share this module. A decoder describes its envelope as `msgspec.Struct`s whose images are
`dict[str, Raw]`, calls `read_json`, and then `scalar` for each value; `silver/decoding/cells.py` does the
same with plain Python values where these are exact. No value is ever rounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec
from msgspec import Raw

from framework.contracts.events import Image, Token
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.decoding.duplicate_keys import refuse_repeated_names
from silver.values.canonical import FIRST_SECOND, LAST_SECOND, epoch_parts

MAX_COLUMNS = 10_000
MAX_DIGITS = 1_000
MAX_POSITION_DIGITS, MILLISECONDS_DIGITS = 99, 13
_USUAL_DIGITS = {"s": 10, "ms": MILLISECONDS_DIGITS}
"""Counts of so many digits are in the years 1 to 9999."""
_MICROSECONDS = {"s": 1_000_000, "ms": 1_000}
BY_PARTITION = (
    "`order: partition` of the source reads messages without a position in the order of their partition"
)
"""The advice for a feed whose messages have no position."""
LONGEST_NUMBER = 1_100
"""The most characters of a number.

The smallest double, written in full, has 1,074 digits after its point, 751 of them significant.
"""

_T = TypeVar("_T")
_TEXT = msgspec.json.Decoder(str)
_RAW = msgspec.json.Decoder(Raw)
_BOM = b"\xef\xbb\xbf"
_GZIP = b"\x1f\x8b"
_TOO_DEEP = "nested deeper than this reader follows"
_LONE_SURROGATE = re.compile(
    rb"(?<!\\)\\u[dD][89abAB][0-9a-fA-F]{2}(?=[^\\]|\\[^u]|\\u[^dD]|\\u[dD][^c-fC-F])"
    rb"|(?<!\\)(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)


def read_json(decoder: msgspec.json.Decoder[_T], value: bytes | None) -> _T:
    """One JSON document as the decoder's type.

    Raises `Malformed` for anything else, with the narrowest reason.
    """
    value = None if value is None else without_mark(value)
    if value is not None and value[:1] == b"\x00":
        value = _without_schema_id(value)
    if value is None or not value.strip():
        raise Malformed(Reason.EMPTY, "no bytes" if not value else "spaces alone")
    try:
        document = decoder.decode(value)
    except msgspec.ValidationError as error:
        raise _wrong_shape(value, error) from None
    except UnicodeDecodeError as error:
        raise Malformed(Reason.ENCODING, f"not UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise Malformed(Reason.TOO_DEEP, _TOO_DEEP) from None
    except msgspec.DecodeError as error:
        raise _not_json(value, str(error)) from None
    refuse_repeated_names(value, decoder.type)
    return document


def without_mark(value: bytes) -> bytes:
    """The bytes without one byte order mark in front."""
    return value[3:] if value.startswith(_BOM) else value


def _without_schema_id(value: bytes) -> bytes:
    """The JSON after a schema registry's magic byte and schema id (JSON Schema serializers).

    Other bytes unchanged.
    """
    document = value[5:]
    if document[:1] not in (b"{", b"["):
        return value
    try:
        _RAW.decode(document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return value
    return document


def _wrong_shape(value: bytes, error: msgspec.ValidationError) -> Malformed:
    try:
        _RAW.decode(value)
    except RecursionError:
        return Malformed(Reason.TOO_DEEP, _TOO_DEEP)
    except msgspec.DecodeError as broken:
        return _not_json(value, str(broken))
    if value.lstrip()[:1] == b'"':
        try:
            if _TEXT.decode(value).lstrip()[:1] in ("{", "["):
                return Malformed(Reason.DOUBLE_ENCODED, "a JSON document inside a JSON string")
        except (msgspec.DecodeError, UnicodeDecodeError):
            return Malformed(Reason.NOT_JSON, "a broken string")
    return Malformed(Reason.WRONG_SHAPE, str(error))


def _not_json(value: bytes, message: str) -> Malformed:
    if value.startswith(_GZIP):
        return Malformed(
            Reason.COMPRESSED, "gzip bytes: decompress before landing, or check the producer's settings"
        )
    if value[:1] == b"\x00" and len(value) > 5:
        schema = int.from_bytes(value[1:5], "big")
        advice = "set the producer's converters to JSON or JSON Schema; Avro and Protobuf are not read"
        return Malformed(Reason.SCHEMA_REGISTRY, f"Confluent wire format, schema id {schema}: {advice}")
    try:
        value.decode("utf-8")
    except UnicodeDecodeError as error:
        return Malformed(Reason.ENCODING, f"not UTF-8 at byte {error.start}")
    if _LONE_SURROGATE.search(value):
        return Malformed(Reason.ENCODING, f"a lone surrogate: {message}")
    if "truncated" in message:
        return Malformed(Reason.TRUNCATED, message)
    return Malformed(Reason.NOT_JSON, message)


def scalar(raw: Raw | bytes) -> tuple[Token, str | None]:
    """The token and the exact text of one value; objects and arrays stay their JSON text."""
    data = bytes(raw)
    first = data[0]
    if first == 0x22:
        return Token.TEXT, string_text(data)
    if first in b"-0123456789":
        if len(data) > MAX_DIGITS:
            _check_length(data)
        return Token.NUMBER, data.decode("ascii")
    if first == 0x6E:
        return Token.NULL, None
    if first in b"tf":
        return Token.BOOLEAN, data.decode("ascii")
    try:
        return Token.JSON, data.decode("utf-8")
    except UnicodeDecodeError:
        raise Malformed(Reason.ENCODING, "not UTF-8 inside an object") from None


def _check_length(number: bytes) -> None:
    digits = number.lower().partition(b"e")[0].replace(b".", b"").lstrip(b"-0")
    if len(digits) > MAX_DIGITS or len(number) > LONGEST_NUMBER:
        raise Malformed(Reason.TOO_LARGE, f"a number of {len(digits)} digits and {len(number)} characters")


def string_text(data: bytes) -> str:
    """A JSON string's text. Raises `Malformed` for lone surrogates and for bytes that are not UTF-8."""
    try:
        return _TEXT.decode(data)
    except UnicodeDecodeError:
        raise Malformed(Reason.ENCODING, "a string is not UTF-8") from None
    except msgspec.DecodeError as error:
        reason = Reason.ENCODING if b"\\u" in data else Reason.NOT_JSON
        raise Malformed(reason, f"a string cannot be read: {error}") from None


def optional_text(raw: Raw | None) -> str | None:
    """The text of a member that may be missing, null, a string or a number; for positions and names.

    Raises `Malformed` for anything else.
    """
    data = b"" if raw is None else bytes(raw)
    if data[:1] == b'"':
        return string_text(data)
    if not data:
        return None
    token, text = scalar(data)
    if token in (Token.JSON, Token.BOOLEAN):
        raise Malformed(Reason.WRONG_SHAPE, "a member that is neither text nor a number")
    return text


def number_of(raw: Raw | None, name: str) -> int | None:
    """A whole number that may be written as a number or as text; None where it is missing or null.

    Raises `Malformed` when it is not a whole number of at most 99 digits.
    """
    data = b"" if raw is None else bytes(raw)
    digits = data[1:-1] if data[:1] == b'"' else data
    if digits.isdigit() and len(digits) <= MAX_POSITION_DIGITS:
        return int(digits)
    text = optional_text(raw)
    if text is None:
        return None
    text = text.strip()
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_POSITION_DIGITS):
        raise Malformed(Reason.BAD_POSITION, f"{name} is no whole number")
    return int(text)


def time_of(raw: Raw | None, name: str, unit: str = "ms") -> int | None:
    """Microseconds since the epoch, from a count of `unit` as number or text; None where it is missing.

    Raises `Malformed` when it is not such a count, or outside the years 1 to 9999.
    """
    data = b"" if raw is None else bytes(raw)
    digits = data[1:-1] if data[:1] == b'"' else data
    if digits.isdigit() and len(digits) <= _USUAL_DIGITS.get(unit, 0):
        return int(digits) * _MICROSECONDS[unit]
    text = optional_text(raw)
    if text is None:
        return None
    parts = epoch_parts(text.strip(), unit)
    if parts is None or not FIRST_SECOND <= parts[0] <= LAST_SECOND:
        raise Malformed(Reason.BAD_POSITION, f"{name} is no time")
    return parts[0] * 1_000_000 + int((parts[1] + "000000")[:6])


def required(value: _T | None, reason: Reason, name: str) -> _T:
    """The value; raises `Malformed` where it is missing."""
    if value is None:
        raise Malformed(reason, f"{name} is missing")
    return value


def time_or_place(time: int | None, name: str, *, is_optional: bool) -> int:
    """The time that orders a message; 0 where it is missing and the partition orders (`is_optional`).

    Raises `Malformed` where it is missing otherwise.
    """
    if time is None and not is_optional:
        raise Malformed(Reason.MISSING_POSITION, f"{name} is missing: {BY_PARTITION}")
    return time or 0


def checked_keys(keys: Iterable[str] | None, *images: Image | None) -> tuple[str, ...] | None:
    """The key columns that a feed names, None where it names none.

    Raises `Malformed` for a name that none of the images has. One image is enough, because a before image may
    leave the key out. Without images, as in a statement, nothing is compared.
    """
    if not keys:
        return None
    names = keys if type(keys) is tuple and len(keys) == 1 else tuple(dict.fromkeys(keys))
    there = [image for image in images if image is not None]
    for name in names if there else ():
        for image in there:
            if name in image:
                break
        else:
            raise Malformed(Reason.KEY_NOT_IN_IMAGE, f"key column {name[:100]!r} is in no image")
    return names or None


def checked_width(image: Mapping[str, object]) -> None:
    """Raises `Malformed` when an image has more columns than a table can have."""
    if len(image) > MAX_COLUMNS:
        raise Malformed(Reason.TOO_MANY_COLUMNS, f"{len(image)} columns, at most {MAX_COLUMNS}")
