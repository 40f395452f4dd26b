"""What MySQL stores for loose defaults: `'99'` in a YEAR is 1999, `'2020/1/2'` a date, `'8:5'` a time.

A text that fits no rule stays as it is written. MariaDB cuts digits that do not fit a column's fraction,
MySQL rounds them: only the server knows the value of such a default.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation

StoredDefault = tuple[str | None, bool]
"""The text, and whether only the server knows it."""

_COMPUTED: StoredDefault = (None, True)
_MEMBER = re.compile(r"'((?:[^'\\]|\\.|'')*)'", re.DOTALL)
_DIGITS = re.compile(r"([0-9]+)(?:\.([0-9]*))?")
_SPLIT = re.compile(
    r"([0-9]{1,4})[^0-9A-Za-z]([0-9]{1,2})[^0-9A-Za-z]([0-9]{1,2})(?:[T\s]+([0-9:]+)(?:\.([0-9]*))?)?"
)
_CLOCK = re.compile(r"(-?)(?:([0-9]{1,2}) )?([0-9]{1,3})(?::([0-9]{1,2}))?(?::([0-9]{1,2}))?(?:\.([0-9]*))?")
_RUN = re.compile(r"(-?)([0-9]{1,7})(?:\.([0-9]*))?")
_PLACES = re.compile(r"\(\s*([0-9])\s*\)")
_SCALE = re.compile(r"\(\s*[0-9]{1,3}\s*,\s*([0-9]{1,2})\s*\)")
_RUNS = {14: (4, 2, 2, 2, 2, 2), 12: (2, 2, 2, 2, 2, 2), 8: (4, 2, 2), 6: (2, 2, 2)}
_FIXED = ("char", "nchar", "national char", "character")


def stored_default(text: str, declared: str, *, is_number: bool) -> StoredDefault | None:
    """What a column of the declared type stores for a default; None where it stores the text as it is."""
    lowered = declared.lower()
    reader = next((read for start, read in _READERS if lowered.startswith(start)), None)
    if reader is not None:
        return reader(text.strip(), lowered, is_number)
    if lowered.startswith(_FIXED) and "var" not in lowered:
        return text.rstrip(" "), False
    if lowered.startswith(("enum", "set")):
        return _declared_members(text, declared), False
    return None


def _year(text: str, declared: str, is_number: bool) -> StoredDefault:
    if not text.isascii() or not text.isdigit() or len(text) > 4:
        return text, False
    year = int(text)
    if year == 0:
        return ("0" if is_number or len(text) == 4 else "2000"), False
    return (_full_year(text) if len(text) < 3 or year < 100 else str(year)), False


def _full_year(text: str) -> str:
    year = int(text)
    return str(year if year > 99 else 2000 + year if year < 70 else 1900 + year)


def _date(text: str, declared: str, is_number: bool) -> StoredDefault | None:
    parts = _wall(text)
    return None if parts is None else ("-".join(parts[0]), False)


def _datetime(text: str, declared: str, is_number: bool) -> StoredDefault | None:
    parts = _wall(text)
    if parts is None:
        return None
    date, clock, fraction = parts
    if date == ("0000", "00", "00"):
        return "0000-00-00 00:00:00", False
    if declared.startswith("timestamp"):
        return _COMPUTED  # a wall time of the session's zone
    return _with_fraction(f"{'-'.join(date)}T{':'.join(clock)}", fraction, declared, is_padded=False)


def _wall(text: str) -> tuple[tuple[str, ...], tuple[str, ...], str] | None:
    """The date, time and fraction of a second in a text or a number."""
    if text.strip("0") == "" and text:
        return ("0000", "00", "00"), ("00", "00", "00"), ""
    found = _DIGITS.fullmatch(text)
    if found is not None:
        pieces, at = list[str](), 0
        for width in _RUNS.get(len(found[1]), ()):
            pieces.append(found[1][at : at + width])
            at += width
        clock, fraction = pieces[3:], found[2] or ""
    elif (split := _SPLIT.fullmatch(text)) is not None:
        pieces, clock, fraction = [*split.groups()[:3]], (split[4] or "0").split(":"), split[5] or ""
    else:
        return None
    if not pieces or len(clock) > 3:
        return None
    year = _full_year(pieces[0]) if len(pieces[0]) <= 2 else pieces[0]
    padded = [piece.zfill(2) for piece in (*clock, "0", "0", "0")][:3]
    return (year.zfill(4), pieces[1].zfill(2), pieces[2].zfill(2)), tuple(padded), fraction


def _time(text: str, declared: str, is_number: bool) -> StoredDefault | None:
    if declared.startswith("timestamp"):
        return _datetime(text, declared, is_number)
    run = _RUN.fullmatch(text)
    if run is not None:
        digits = run[2].zfill(6)
        hours, minutes, seconds, sign, fraction = (
            digits[:-4],
            digits[-4:-2],
            digits[-2:],
            run[1],
            run[3] or "",
        )
        hours = hours.lstrip("0")
    elif (found := _CLOCK.fullmatch(text)) is not None:
        sign, days, hours, minutes, seconds, fraction = (part or "" for part in found.groups())
        hours = str(int(hours) + 24 * int(days or 0))
    else:
        return text, False
    return _with_fraction(
        f"{sign}{hours.zfill(2)}:{minutes.zfill(2)}:{seconds.zfill(2)}", fraction, declared, is_padded=True
    )


def _with_fraction(text: str, fraction: str, declared: str, *, is_padded: bool) -> StoredDefault:
    found = _PLACES.search(declared)
    places = int(found[1]) if found is not None else 0
    if fraction[places:].strip("0"):
        return _COMPUTED
    kept = fraction[:places].ljust(places, "0") if is_padded else fraction[:places].rstrip("0")
    return (f"{text}.{kept}" if kept else text), False


def _scaled(text: str, declared: str, is_number: bool) -> StoredDefault | None:
    """The value of a FLOAT(5,2), which is rounded to its scale."""
    found = _SCALE.search(declared)
    if found is None:
        return None
    try:
        return str(Decimal(text).quantize(Decimal(1).scaleb(-int(found[1])), ROUND_HALF_UP)), False
    except InvalidOperation:
        return text, False


def _json(text: str, declared: str, is_number: bool) -> StoredDefault:
    """The server sorts the members and sets the spaces; a default is an expression there."""
    return (text, False) if text in ("{}", "[]") else _COMPUTED


def members(declared: str) -> list[str]:
    """The members of an enum or a set, as they are declared."""
    return [re.sub(r"\\(.)", r"\1", member.replace("''", "'")) for member in _MEMBER.findall(declared)]


def _declared_members(text: str, declared: str) -> str:
    """The member of an enum, or the members of a set in order, spelled as they are declared."""
    own = members(declared)
    spelled = {member.rstrip(" ").lower(): member for member in reversed(own)}
    if declared[:4].lower() == "enum":
        return text if text in own else spelled.get(text.rstrip(" ").lower(), text)
    chosen = {
        part if part in own else spelled.get(part.rstrip(" ").lower(), part) for part in text.split(",")
    }
    return ",".join(member for member in own if member in chosen) if chosen <= set(own) else text


_READERS: tuple[tuple[str, Callable[[str, str, bool], StoredDefault | None]], ...] = (
    ("json", _json),
    ("year", _year),
    ("datetime", _datetime),
    ("date", _date),
    ("time", _time),
    ("float", _scaled),
    ("double", _scaled),
    ("real", _scaled),
)
