"""The value of a cell's text, read in this process as `casting.typed_key` reads it with Spark.

A value has two texts: that of silver, and that of Spark's cast, which reports and results of checks show.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache, partial
from math import isinf, isnan
from struct import error as StructError
from struct import pack, unpack
from typing import Any
from zoneinfo import ZoneInfo

from gold.schema.kept_digits import EXACT_POWERS, FEW_DIGITS, MOST_DIGITS

Read = Callable[[str], Any]
"""Returns the value of a text of silver; None where the text does not fit the type with all its digits."""

_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_WHOLE = re.compile(r"(-?)(\d+)(?:\.0+)?", re.ASCII)
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_FLOAT = re.compile(r"-?(\d+)(?:\.(\d*))?(?:[eE]([+-]?\d+))?", re.ASCII)
_NO_NUMBERS = ("NaN", "Infinity", "-Infinity")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_STAMP = re.compile(r"(\d{4}-\d{2}-\d{2}T(?!24)\d{2}:\d{2}:\d{2})(?:\.(\d{1,6})\d*)?(Z?)", re.ASCII)
_CUT = re.compile(r"\.\d{6}\d*[1-9]", re.ASCII)
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]*(={0,2})", re.ASCII)
_STAMP_OF_SPARK = re.compile(r"(\d{4}-\d{2}-\d{2}) (\d{2}:\d{2}:\d{2}(?:\.\d+)?)", re.ASCII)
_WALL_TIME = re.compile(r"(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2}:\d{2})(\.\d+)?", re.ASCII)
_DECIMAL_OF_SPARK = re.compile(r"-?\d+(\.\d+)?E[+-]?\d{1,3}", re.ASCII)


def comparable(text: str | None, kind: str) -> Any:
    """What a cell is compared by: its value, or its text where that does not fit the type; None is null."""
    if text is None:
        return None
    value = reader(kind)(text)
    return text if value is None else "NaN" if isinstance(value, float) and isnan(value) else value


def as_written_by_silver(text: str, kind: str) -> str:
    """The text of silver for the text that Spark's cast gives a value; other texts stay."""
    if kind in ("timestamp", "timestamp_ntz"):
        found = _STAMP_OF_SPARK.fullmatch(text)
        return text if found is None else f"{found[1]}T{found[2]}{'Z' if kind == 'timestamp' else ''}"
    if kind == "binary":
        try:
            return b64encode(text.encode("utf-8", "surrogateescape")).decode()
        except UnicodeEncodeError:
            return text
    if kind.startswith("decimal") and _DECIMAL_OF_SPARK.fullmatch(text):
        return format(Decimal(text), "f")
    return text


def as_written_by_either(text: str, kind: str) -> str:
    """The text of silver for one that silver or Spark wrote: a text that silver may have written stays."""
    if reader(kind)(text) is not None:
        return text
    found = as_written_by_silver(text, kind)
    return text if reader(kind)(found) is None else found


READINGS: tuple[Callable[[str, str], str], ...] = (
    as_written_by_either,
    as_written_by_silver,
    lambda text, kind: text,
)
"""What a text that a person gives may mean, the likeliest first.

That of bytes may be one of silver and one of Spark. One that does not fit its type is in silver as it is.
"""


def readings(zone: str) -> Sequence[Callable[[str, str], str]]:
    """READINGS, and last the one of wall times in the zone of the source for instants."""
    return (*READINGS, partial(_as_wall_time, zone=zone)) if zone != "UTC" else READINGS


def _as_wall_time(text: str, kind: str, *, zone: str) -> str:
    found = _WALL_TIME.fullmatch(text) if kind == "timestamp" else None
    if found is None:
        return as_written_by_either(text, kind)
    try:
        moment = datetime.fromisoformat(f"{found[1]}T{found[2]}").replace(tzinfo=ZoneInfo(zone))
        return f"{moment.astimezone(UTC).replace(tzinfo=None).isoformat()}{found[3] or ''}Z"
    except (ValueError, OverflowError):
        return text


def read_all(
    read: Callable[[str, str], str], key: Mapping[str, str | None], kinds: Mapping[str, str]
) -> dict[str, str | None]:
    """The texts of a key, read as one of the `readings` does."""
    return {name: None if text is None else read(text, kinds[name]) for name, text in key.items()}


@lru_cache(maxsize=256)
def reader(kind: str) -> Read:
    """Returns what reads the texts of a type."""
    if kind == "string":
        return lambda text: text
    if kind == "boolean":
        return {"true": True, "false": False}.get
    if kind in _BITS:
        return _whole(1 << (_BITS[kind] - 1))
    if kind in FEW_DIGITS:
        return lambda text: _floating(text, kind)
    if kind == "date":
        return _day
    if kind in ("timestamp", "timestamp_ntz"):
        return lambda text: _moment(text, "Z" if kind == "timestamp" else "")
    if kind == "binary":
        return _bytes
    decimal = _DECIMAL.fullmatch(kind)
    if decimal is None:
        raise ValueError(f"no canonical type: {kind}")
    return _decimal(int(decimal[1]), int(decimal[2]))


def _whole(limit: int) -> Read:
    longest = len(str(limit))

    def read(text: str) -> int | None:
        found = _WHOLE.fullmatch(text)
        digits = found[2].lstrip("0") if found is not None else ""
        if found is None or len(digits) > longest:
            return None
        value = int(f"{found[1]}{digits or 0}")
        return value if -limit <= value < limit else None

    return read


def _decimal(precision: int, scale: int) -> Read:
    fits = re.compile(rf"-?0*\d{{0,{precision - scale}}}(\.\d{{0,{scale}}}0*)?", re.ASCII)
    digit = re.compile(r"\d", re.ASCII)
    return lambda text: Decimal(text) if fits.fullmatch(text) and digit.search(text) else None


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if _DATE.fullmatch(text) else None
    except ValueError:
        return None


def _moment(text: str, zone: str) -> datetime | None:
    found = _STAMP.fullmatch(text)
    if found is None or found[3] != zone or _CUT.search(text):
        return None
    try:
        return datetime.fromisoformat(f"{found[1]}.{(found[2] or '').ljust(6, '0')}")
    except ValueError:
        return None


def _bytes(text: str) -> bytes | None:
    found = _BASE64.fullmatch(text)
    if found is None:
        return None
    plain = "".join(text.split())
    return None if len(plain) % 4 else b64decode(plain)


def _floating(text: str, kind: str) -> float | None:
    if text in _NO_NUMBERS:
        return float(text)
    found = _FLOAT.fullmatch(text)
    if found is None:
        return None
    value = sent = float(text)
    if kind == "float":
        try:
            (value,) = unpack("f", pack("f", sent))
        except (OverflowError, StructError):
            return None
    whole, fraction, exponent = found[1], found[2] or "", found[3] or "0"
    digits = (whole + fraction).strip("0")
    if isinf(value) or (value == 0 and digits):
        return None
    if len(digits) <= FEW_DIGITS[kind] or (kind == "float" and value == sent):
        return value
    zeros = len(whole + fraction) - len((whole + fraction).rstrip("0"))
    power = int(exponent) - len(fraction) + zeros
    return value if _keeps(value, digits, power, is_of_java="E" in text) else None


def _keeps(value: float, digits: str, power: int, *, is_of_java: bool) -> bool:
    """Whether a value keeps the digits of the number digits * 10^power (`kept_digits.is_rounded`).

    The last digit of a text that Java writes need not be the nearest one.
    """
    if len(digits) > MOST_DIGITS:
        return False
    if abs(power) > EXACT_POWERS:
        return len(digits) < MOST_DIGITS
    off = abs(int(digits) - Fraction(abs(value)) / Fraction(10) ** power)
    half = Fraction(1, 2)
    return off < (1 if is_of_java else half) or (off == half and int(digits) % 2 == 0)
