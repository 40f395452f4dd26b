"""The images of OceanBase OMS's formats: values by declared type.

    canonical       how it is written, and how it is read
    timestamp       `1606233662.012345` or `1606233662`, seconds since the epoch, as text or number; 12
                    digits or more are milliseconds. A wall time is in the zone that it names (`2020-11-25
                    00:01:02 Asia/Shanghai`), without one in the source's `timezone`.
    timestamp_ntz   `2020-11-25 00:01:02[.n] [zone]`, before OMS 3.3.0 `2020-11-25T00:01[:02]`: the wall time,
                    the zone is ignored; a number is milliseconds since the epoch, as wall time in `timezone`
    date            `2020-11-25`, before OMS 3.3.0 also with the time 00:00; a number is milliseconds
    decimal(20,0)   BIT: base64, before OMS 3.3.0 a number; read as unsigned integer. No bytes are 0, because
                    zero bytes at the beginning can be left out.
    binary          base64
    string          as it is: also TIME, ZONED_DATETIME, INTERVAL

`1590315269000.123456789` is milliseconds since the epoch and the nanoseconds of the second. An invalid date
or time comes as its own text or as `0000-00-00 00:00:00`, and stays that text. A decimal without digits is
undeclared. A configured codec turns a base64 column into text.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from framework.contracts.events import Column, Token
from silver.decoding.cells import (
    TOKENS,
    Kinds,
    Texts,
    coded_text,
    integer_text,
    is_plain,
    read_non_null_cell,
)
from silver.decoding.format import ColumnHint
from silver.decoding.row_plans import (
    ColumnSet,
    RowPlan,
    Step,
    cell_signature,
    image_cell_by_cell,
    is_narrow,
    undeclared_steps,
)
from silver.envelopes.configured_columns import UNITS, bytes_text, configured_text, is_bits
from silver.values.canonical import (
    AS_SENT,
    INTEGERS,
    declared_text,
    epoch_parts,
    instant_of_wall,
    instant_of_zoned_wall,
    instant_text,
    undeclared_text,
    wall_as_written,
    wall_of_text,
    wall_text,
)
from silver.values.declared_types import is_open_decimal, type_of_declaration, undeclared_token

Types = tuple[tuple[str, str | None], ...]
"""Names of columns with their type texts."""

SEPARATOR = re.compile(r"\x01|[/\\]u0001")
"""The separator in a packed key: U+0001, or the form in which the vendor's documentation prints it."""

_ORIGIN = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_BIT = 8
_SHORTEST_MILLISECONDS = 12
_BIT = re.compile(r"bit\s*(\(.*)?", re.IGNORECASE)
_MOMENT = re.compile(r"(-?[0-9]{1,20})(?:\.([0-9]+))?")
_IS_WALL = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?")
_ENDS_WITH_FRACTION = re.compile(r"\.[0-9]+$")
_DAY_LENGTH = len("2020-11-25")
_MIDNIGHT = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]00:00(?::00(?:\.0+)?)?")
_ZONE = re.compile(
    r"(?<=[0-9])(?: [A-Za-z][A-Za-z0-9_/+-]*(?:(?<=[+-][0-9]{2})(?::[0-9]{2}){1,2})?"
    r"| ?[+-][0-9]{1,2}(?::?[0-9]{2}){1,2})$"
)


@dataclass(frozen=True, slots=True)
class Reading:
    """How to read the images of one message: declared columns, codecs of columns, the zone of wall times."""

    zone: str
    declared: ColumnSet
    codecs: Mapping[str, str] = field(default_factory=dict)


def dialect_of(db_type: str | None) -> str:
    """The SQL dialect of a `dbType` (`OB_MYSQL`, `ob_oracle`, `DB2_LUW` …); mysql by default."""
    lowered = (db_type or "").lower()
    for word, dialect in (
        ("oracle", "oracle"),
        ("db2", "db2"),
        ("postgres", "postgres"),
        ("sqlserver", "tsql"),
    ):
        if word in lowered:
            return dialect
    return "mysql"


def declared_columns(types: Types, dialect: str) -> ColumnSet:
    """The columns of pairs of name and type text.

    A column without a canonical type has only its type text.
    """
    return _kept_columns(types, dialect) if is_narrow(types) else _columns(types, dialect)


def _columns(types: Types, dialect: str) -> ColumnSet:
    return ColumnSet((name, Column(type_of_declaration(text, dialect), text)) for name, text in types if text)


_kept_columns = lru_cache(maxsize=1024)(_columns)


def read_image(cells: dict[str, Any], reading: Reading) -> tuple[Texts, Mapping[str, Column]]:
    """The image as canonical text and its columns, in the order of the message.

    Raises `Malformed` for a cell that is not a value.
    """
    if not reading.codecs and is_narrow(cells, reading.declared):
        plan = _row_plan(*cell_signature(cells), reading.declared, reading.zone)
        if plan is not None:
            return plan.texts(cells), plan.columns
    return image_cell_by_cell(cells, lambda name, token, text: read_value(name, token, text, reading))


@lru_cache(maxsize=1024)
def _row_plan(names: tuple[str, ...], kinds: Kinds, declared: ColumnSet, zone: str) -> RowPlan | None:
    """The plan of an image; None where cells are bytes, or where a column depends on its value."""
    if not is_plain(kinds):
        return None
    steps: list[Step] = []
    columns = ColumnSet()
    for name, kind in zip(names, kinds, strict=True):
        column = declared.get(name)
        if column is None or column.type is None:
            if kind is str and column is not None and is_open_decimal(column.declared or ""):
                return None
            columns[name] = Column(declared=None if column is None else column.declared, token=TOKENS[kind])
            steps += undeclared_steps(name, kind)
            continue
        columns[name] = column
        convert = declared_conversion(column, kind, zone)
        if convert is not None:
            steps.append((name, convert))
    return RowPlan(tuple(steps), columns)


def declared_conversion(column: Column, kind: type, zone: str) -> Callable[[Any], str] | None:
    """The function from a cell of this kind to canonical text; None where the cell is canonical text."""
    if kind is type(None):
        return None
    if kind is int and (column.type in INTEGERS or column.type in AS_SENT):
        return integer_text
    if kind is str and column.type in AS_SENT and not _BIT.fullmatch(column.declared or ""):
        return None
    return lambda cell: declared_value(column, *read_non_null_cell(cell), zone)


def read_value(name: str, token: Token, text: str | None, reading: Reading) -> tuple[str | None, Column]:
    """One value as canonical text, and its column."""
    column, codec = reading.declared.get(name), reading.codecs.get(name)
    declared = column.declared if column is not None else None
    if codec is not None:
        return None if text is None else coded_text(name, text, codec), Column(
            type="string", declared=declared
        )
    if column is not None and column.type is not None:
        return None if text is None else declared_value(column, token, text, reading.zone), column
    token = undeclared_token(declared, token, text)
    return undeclared_text(token, text), Column(declared=declared, token=token)


def declared_value(column: Column, token: Token, text: str, zone: str) -> str:
    """The canonical text of a value whose column has a canonical type."""
    kind, is_number = column.type or "string", token is Token.NUMBER
    if kind == "timestamp":
        parts = _moment(text, is_milliseconds=False)
        if parts is not None:
            return instant_text(*parts) or text
        instant = instant_of_wall(text, zone)
        return instant_of_zoned_wall(text) if instant is text else instant
    if kind == "timestamp_ntz":
        if not is_number and (usual := wall_as_written(text)) is not None:
            return usual
        return _wall_of_moment(text, is_number, zone) or _wall(text)
    if kind == "date":
        return (_day(_wall_of_moment(text, is_number, zone)) or text) if is_number else _date(text)
    if token is Token.TEXT and _BIT.fullmatch(column.declared or ""):
        return _bit(text)
    return declared_text(kind, token, text) or text


def configured_value(hint: ColumnHint, token: Token, text: str, zone: str) -> str:
    """The canonical text of a value whose type only the configuration says, see `configured_columns`."""
    unit = UNITS.get(hint.encoding or "")
    if hint.type == "binary":
        return bytes_text(hint, token, text)
    if hint.type == "timestamp_ntz" and unit is not None:
        return _wall_at(epoch_parts(text, unit), zone) or _wall(text)
    if unit is not None:
        counted = configured_text(hint, token, text, zone)
        if counted != text:
            return counted
    text = _bit(text) if token is Token.TEXT and is_bits(hint) else text
    return declared_value(Column(hint.type), token, text, zone)


def key_value(name: str, text: str, reading: Reading) -> tuple[str | None, Column]:
    """One value of a packed key, and its column, which is a text unless the message declares it."""
    return read_value(name, Token.TEXT, text, reading)


def in_order_of(declared: ColumnSet, columns: Mapping[str, Column]) -> Mapping[str, Column]:
    """The columns, the declared ones first and in the declared order."""
    return (
        _shape_in_order_of(declared, columns)
        if isinstance(columns, ColumnSet) and is_narrow(declared, columns)
        else _in_order_of(declared, columns)
    )


@lru_cache(maxsize=1024)
def _shape_in_order_of(declared: ColumnSet, columns: ColumnSet) -> ColumnSet:
    return ColumnSet(_in_order_of(declared, columns))


def _in_order_of(declared: Iterable[str], columns: Mapping[str, Column]) -> dict[str, Column]:
    return {name: columns[name] for name in (*(n for n in declared if n in columns), *columns)}


def written_default(text: str, kind: str, declared: str) -> str | None:
    """A default as OMS writes it: a TIME without the zeros at the end of its fraction."""
    return without_zeros(text) if kind == "string" and declared.lower().startswith("time") else text


def without_zeros(time: str) -> str:
    """A time of day or a count of seconds without the zeros at the end of its fraction."""
    return time.rstrip("0").removesuffix(".") if _ENDS_WITH_FRACTION.search(time) else time


def _moment(text: str, is_milliseconds: bool) -> tuple[int, str] | None:
    """Seconds since the epoch and the digits of their fraction; None where the text is not a count."""
    found = _MOMENT.fullmatch(text)
    if found is None:
        return None
    whole, nanoseconds = found.groups()
    if not is_milliseconds and len(whole.lstrip("-")) < _SHORTEST_MILLISECONDS:
        return epoch_parts(text, "s")
    parts = epoch_parts(whole, "ms")
    return (parts[0], nanoseconds) if parts is not None and nanoseconds else parts


def _wall_of_moment(text: str, is_milliseconds: bool, zone: str) -> str | None:
    return _wall_at(_moment(text, is_milliseconds), zone)


def _wall_at(parts: tuple[int, str] | None, zone: str) -> str | None:
    """The wall time of a zone at a moment, given as seconds since the epoch and the digits of their fraction.

    None outside the years 1 to 9999.
    """
    if parts is None:
        return None
    try:
        moment = (_ORIGIN + timedelta(seconds=parts[0])).astimezone(ZoneInfo(zone))
    except (OverflowError, ValueError):
        return None
    return wall_text((moment.replace(tzinfo=UTC) - _ORIGIN) // timedelta(seconds=1), parts[1])


def _day(wall: str | None) -> str | None:
    return None if wall is None else wall[:_DAY_LENGTH]


def _date(text: str) -> str:
    """A day without the midnight that may follow it; any other text as it was sent."""
    found = _MIDNIGHT.fullmatch(text) if len(text) > _DAY_LENGTH else None
    return text if found is None or wall_of_text(found[1]) == found[1] else found[1]


def _wall(text: str) -> str:
    """A wall time without the zone that may follow it; any other text as it was sent."""
    wall = wall_of_text(_ZONE.sub("", text))
    return wall if _IS_WALL.fullmatch(wall) else text


def _bit(text: str) -> str:
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        return text
    return str(int.from_bytes(data, "big")) if len(data) <= _LONGEST_BIT else text
