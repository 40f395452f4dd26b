"""Cells: the values of an image as Python values, where these say exactly what the bytes said.

    JSON               cell
    "Ann"              str
    7                  int
    1.50, 1e400        NumberText, the number's text; Raw from `written_parts`
    true, null         bool, None
    {"a": 1}           none: the image is read again for its bytes, as `dict[str, Raw]`

A function here that gets a cell which says less than its bytes did, or a number beyond what is read at all,
raises `NeedsExactDecoding`. `silver/decoding/dual_decoder.py` then reads the whole message again for its
bytes.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from framework.contracts.events import Token
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.decoding.json_reader import (
    MAX_DIGITS,
    MAX_POSITION_DIGITS,
    MILLISECONDS_DIGITS,
    number_of,
    optional_text,
    scalar,
    time_of,
)

C = TypeVar("C")
"""The type of a message's cells: `Any` (Python values) or `Raw` (bytes)."""
S = TypeVar("S")
"""The type of a message's schema block: `Raw` (bytes) or the struct that it is read into."""

Cells = Mapping[str, Any]
Texts = dict[str, str | None]
Kinds = tuple[type, ...]

_MOST, _LAST_MILLISECOND = 2**63, 10**MILLISECONDS_DIGITS - 1
BOOLEAN_TEXT = {True: "true", False: "false"}


class NeedsExactDecoding(Exception):
    """A cell does not say what its bytes said: the message has to be decoded from its bytes."""


class NumberText(str):
    """The text of a number that has a point or an exponent."""

    __slots__ = ()


TOKENS = {
    str: Token.TEXT,
    int: Token.NUMBER,
    NumberText: Token.NUMBER,
    bool: Token.BOOLEAN,
    type(None): Token.NULL,
    Raw: Token.NUMBER,
}
"""The token of each kind of cell, where images are plain (`is_plain`)."""


def plain_cells(part: Any) -> dict[str, Any] | None:
    """An image that was read as a cell, None where it is null.

    Raises `NeedsExactDecoding` for anything else.
    """
    if part is not None and type(part) is not dict:
        raise NeedsExactDecoding
    return part


def named_cells(pairs: Iterable[tuple[str, C]]) -> dict[str, C]:
    """The cells of an image that a message writes as a list of columns, by name and in order.

    Raises `Malformed` where a name has two different values.
    """
    cells: dict[str, C] = {}
    for name, cell in pairs:
        if name in cells and not _are_equal(cells[name], cell):
            raise Malformed(Reason.DUPLICATE_NAME, f"column {name[:100]!r} has two values")
        cells[name] = cell
    return cells


def _are_equal(cell: object, other: object) -> bool:
    """Whether two cells say the same: 1, true and 1.0 are three things."""
    if type(cell) is Raw and type(other) is Raw:
        return bytes(cell) == bytes(other)
    return type(cell) is type(other) and cell == other


def read_cell(cell: Any) -> tuple[Token, str | None]:
    """The token and the exact text of one cell."""
    kind = type(cell)
    if kind is str:
        return Token.TEXT, cell
    if kind is Raw:
        return scalar(cell)
    if cell is None:
        return Token.NULL, None
    if kind is bool:
        return Token.BOOLEAN, BOOLEAN_TEXT[cell]
    if kind is int:
        return Token.NUMBER, integer_text(cell)
    if kind is NumberText:
        return Token.NUMBER, number_as_sent(cell)
    raise NeedsExactDecoding


def read_non_null_cell(cell: Any) -> tuple[Token, str]:
    """The token and the exact text of one cell that is not null."""
    token, text = read_cell(cell)
    assert text is not None
    return token, text


def integer_text(cell: int) -> str:
    """The digits of a whole number, which are also its canonical text."""
    text = str(cell)
    if len(text) > MAX_DIGITS:
        raise NeedsExactDecoding
    return text


def number_as_sent(cell: NumberText | Raw) -> str:
    """The text of a number as it was sent."""
    text = bytes(cell).decode("ascii") if type(cell) is Raw else str(cell)
    if len(text) > MAX_DIGITS:
        raise NeedsExactDecoding
    return text


def raw_of(cell: Any) -> Raw | None:
    """A cell as bytes that mean the same, None where there is none.

    Raises `NeedsExactDecoding` for objects and arrays.
    """
    if cell is None or type(cell) is Raw:
        return cell
    if type(cell) is dict or type(cell) is list:
        raise NeedsExactDecoding
    return Raw(str(cell)) if type(cell) is NumberText else Raw(msgspec.json.encode(cell))


def text_in(cell: Any) -> str | None:
    """The text of a cell that may be missing, null, a text or a number.

    Raises `Malformed` for anything else.
    """
    if type(cell) is str or cell is None:
        return cell
    return integer_text(cell) if type(cell) is int else optional_text(raw_of(cell))


def number_in(cell: Any, name: str) -> int | None:
    """The whole number in a cell; see `number_of`."""
    if type(cell) is int and 0 <= cell <= _MOST:
        return cell
    if cell is None:
        return None
    if type(cell) is str and cell.isdigit() and cell.isascii() and len(cell) <= MAX_POSITION_DIGITS:
        return int(cell)
    return number_of(raw_of(cell), name)


def time_in(cell: Any, name: str, unit: str = "ms") -> int | None:
    """The time in a cell that counts milliseconds, or another unit, in microseconds; see `time_of`."""
    if unit == "ms":
        if type(cell) is int and 0 <= cell <= _LAST_MILLISECOND:
            return cell * 1000
        if type(cell) is str and cell.isdigit() and cell.isascii() and len(cell) <= MILLISECONDS_DIGITS:
            return int(cell) * 1000
    return None if cell is None else time_of(raw_of(cell), name, unit)


def is_plain(kinds: Kinds) -> bool:
    """Whether cells of these kinds are Python values; then bytes among them are numbers with a point.

    Raises `NeedsExactDecoding` where one is an object or an array.
    """
    if dict in kinds or list in kinds:
        raise NeedsExactDecoding
    return any(kind is not Raw for kind in kinds)


def coded_text(name: str, text: str, codec: str) -> str:
    """The text in the base64 value of a column that has a configured codec."""
    try:
        return base64.b64decode(text, validate=True).decode(codec)
    except (ValueError, LookupError):
        raise Malformed(Reason.ENCODING, f"column {name[:100]!r} is not base64 of {codec} text") from None
