"""Canonical text: one exact spelling for each value of a type, before any cast.

A decoder passes what the message shows (a token and its text) and the column's canonical type; these
functions return the text that `silver/changes` keeps. They never round and never guess: a text that does not
fit its type stays as it was sent, and gold lists the cell as a bad value.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from framework.contracts.events import Token

AS_SENT = frozenset({"string", "binary", "float", "double"})
"""Types whose texts and numbers are canonical as they were sent."""
INTEGERS = ("tinyint", "smallint", "int", "bigint")
MAX_DIGITS = 38
UNSIGNED_BIGINT = "decimal(20,0)"

_NUMBER = re.compile(r"([+-]?)(\d+)(?:\.(\d*))?(?:[eE]([+-]?\d{1,5}))?", re.ASCII)
_WALL = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})(?:[T ](\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d+))?)?)?", re.ASCII
)
_EPOCH = re.compile(r"(-?)(\d{1,20})(?:\.(\d+))?", re.ASCII)
_MOST_EPOCH_DIGITS = 20
_ORIGIN = datetime(1970, 1, 1, tzinfo=UTC)
_ZONED = re.compile(
    r"([0-9]{4}-[0-9]{1,2}-[0-9]{1,2}[T ][0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?) ?(Z|[+-][0-9:]+)"
    r"|(.+) ([A-Za-z][A-Za-z0-9_/+:-]*)"
)
_OFFSET = re.compile(r"(?:GMT|UTC?)?([+-])([0-9]{1,2})(?::?([0-9]{2}))?(?::?([0-9]{2}))?")
_GREENWICH = frozenset({"Z", "UTC", "UT", "GMT"})
_NO_ZONES = ("posix/", "right/", "localtime", "posixrules", "Factory")
"""Files of a time zone database that name no zone, or that of the machine."""
_POINTS = frozenset(("-- ::", "--T::"))
_TO_SECONDS, _LAST_HOUR = 19, "23"
_PER_SECOND = {"s": 0, "ms": 3, "us": 6, "ns": 9}
FIRST_SECOND, LAST_SECOND = -62_135_424_000, 253_402_128_000
"""The years 1 to 9999 without two days at both ends, so that a time is valid in every zone."""


def number_text(text: str) -> str:
    """A number in plain digits with its scale: `1.50E2` gives `150`, `9.90` stays.

    A text that is not a number, or has more than 38 digits, stays as it was sent.
    """
    if text.isdigit() and (text[0] != "0" or len(text) == 1):
        return text
    whole, _, fraction = text.partition(".")
    if whole.isdigit() and fraction.isdigit() and (whole[0] != "0" or len(whole) == 1) and text.isascii():
        return text
    found = _NUMBER.fullmatch(text)
    if found is None:
        return text
    sign, whole, fraction, exponent = found.groups()
    fraction = fraction or ""
    shift = int(exponent) if exponent else 0
    if len(whole.lstrip("0")) + len(fraction) + abs(shift) > 4 * MAX_DIGITS:
        return text
    plain = _shift_point(whole, fraction, shift)
    if sum(c.isdigit() for c in plain.lstrip("0.")) > MAX_DIGITS:
        return text
    return "-" + plain if sign == "-" and plain.strip("0.") else plain


def _shift_point(whole: str, fraction: str, shift: int) -> str:
    digits, point = whole + fraction, len(whole) + shift
    if point <= 0:
        digits, point = "0" * (1 - point) + digits, 1
    elif point > len(digits):
        digits += "0" * (point - len(digits))
    left, right = digits[:point].lstrip("0") or "0", digits[point:]
    return f"{left}.{right}" if right else left


def declared_text(type_name: str, token: Token, text: str | None) -> str | None:
    """The canonical text of a value of a declared type, from its token and text in the message.

    The format itself first converts times, dates and encodings that it writes in its own way.
    """
    if text is None:
        return None
    if type_name == "string" or type_name == "binary":
        return text
    if type_name in INTEGERS or type_name.startswith("decimal"):
        plain = number_text(text.strip()) if token is not Token.NUMBER else number_text(text)
        if type_name in INTEGERS and "." in plain and not plain.partition(".")[2].strip("0"):
            return plain.partition(".")[0]
        return plain
    if type_name == "boolean":
        return {"true": "true", "false": "false", "1": "true", "0": "false"}.get(text.lower(), text)
    return text


def undeclared_text(token: Token, text: str | None) -> str | None:
    """The canonical text of a value whose column the feed does not declare."""
    if text is None or token is not Token.NUMBER:
        return text
    return number_text(text)


def epoch_parts(text: str, unit: str) -> tuple[int, str] | None:
    """A count of `unit` since the epoch as whole seconds and the digits of the fraction.

    `unit` is s, ms, us or ns, and the count may have a fraction. All digits of the source are kept. None when
    the text is not such a number.
    """
    if text.isdigit() and text.isascii() and len(text) <= _MOST_EPOCH_DIGITS:
        sign, whole, fraction = "", text, ""
    else:
        found = _EPOCH.fullmatch(text)
        if found is None:
            return None
        sign, whole, fraction = found.group(1), found.group(2), found.group(3) or ""
    places = _PER_SECOND[unit]
    if places:
        whole = whole.rjust(places + 1, "0")
        whole, fraction = whole[:-places], whole[-places:] + fraction
    seconds = int(whole)
    if sign:
        seconds = -seconds
        if fraction.strip("0"):
            borrowed = 10 ** len(fraction) - int(fraction)
            return seconds - 1, str(borrowed).rjust(len(fraction), "0")
    return seconds, fraction


def instant_text(seconds: int, fraction: str = "") -> str | None:
    """Seconds since the epoch as `2024-02-29T10:00:00.123Z`; None outside the years 1 to 9999."""
    wall = wall_text(seconds, fraction)
    return None if wall is None else wall + "Z"


def wall_text(seconds: int, fraction: str = "") -> str | None:
    """Seconds since 1970-01-01 on a local clock as `2024-02-29T10:00:00.123`.

    None outside the years 1 to 9999.
    """
    try:
        moment = _ORIGIN + timedelta(seconds=seconds)
    except OverflowError:
        return None
    return _iso_seconds(moment) + (f".{fraction}" if fraction else "")


def _iso_seconds(moment: datetime) -> str:
    """The moment to the second, `2024-02-29T10:00:00`."""
    return moment.isoformat()[:_TO_SECONDS]


def date_text(days: int) -> str | None:
    """Days since the epoch as `2024-02-29`; None outside the years 1 to 9999."""
    wall = wall_text(days * 86400)
    return None if wall is None else wall[:10]


def instant_of_epoch(text: str, unit: str) -> str:
    """The instant of a count of units since 1970; a text that is no such count is returned unchanged."""
    parts = epoch_parts(text, unit)
    return text if parts is None else instant_text(*parts) or text


def wall_of_epoch(text: str, unit: str) -> str:
    """The wall time that is this count of units after 1970-01-01 00:00 on the same clock.

    A text that is no such count is returned unchanged.
    """
    parts = epoch_parts(text, unit)
    return text if parts is None else wall_text(*parts) or text


def wall_of_text(text: str) -> str:
    """`YYYY-MM-DD[ T]HH:mm[:ss[.f]]` as a canonical wall time with all digits.

    Any other text is returned unchanged.
    """
    wall = wall_as_written(text)
    if wall is not None:
        return wall
    found = _WALL.fullmatch(text.strip())
    if found is None:
        return text
    year, month, day, hour, minute, second, fraction = found.groups()
    try:
        moment = datetime(int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0))
    except ValueError:
        return text
    return _iso_seconds(moment) + (f".{fraction}" if fraction else "")


def wall_as_written(text: str) -> str | None:
    """The wall time of a text in the usual spelling, `YYYY-MM-DD[ T]HH:mm:ss[.f]`.

    None for any other text, which may still be a wall time in another spelling.
    """
    points = text[4:5] + text[7:8] + text[10:11] + text[13:14] + text[16:17]
    if (
        points not in _POINTS
        or text[11:13] > _LAST_HOUR
        or (len(text) > _TO_SECONDS and not _is_fraction(text[_TO_SECONDS:]))
    ):
        return None
    try:
        datetime.fromisoformat(text[:_TO_SECONDS])
    except ValueError:
        return None
    return text if text[10] == "T" else f"{text[:10]}T{text[11:]}"


def _is_fraction(text: str) -> bool:
    return text[0] == "." and text[1:].isdigit() and text.isascii()


def instant_of_wall(text: str, zone: str) -> str:
    """A wall time of a zone as an instant; the text as it was sent when it is not a wall time.

    Where clocks go back, the earlier of the two instants.
    """
    wall = wall_as_written(text)
    if wall is None:
        wall = wall_of_text(text)
        if wall is text and not _WALL.fullmatch(text.strip()):
            return text
    elif zone == "UTC":
        return f"{wall}Z"
    body, _, fraction = wall.partition(".")
    try:
        moment = datetime.fromisoformat(body).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    except (ValueError, OverflowError):
        return text
    return _iso_seconds(moment) + (f".{fraction}" if fraction else "") + "Z"


def instant_of_zoned_wall(text: str) -> str:
    """A wall time that names its own zone, `2020-11-25 00:01:02.5 Asia/Shanghai`, as an instant.

    Any other text is returned unchanged, also one whose zone is not known.
    """
    found = _ZONED.fullmatch(text)
    zone = None if found is None else _zone(found[2] or found[4])
    if found is None or zone is None:
        return text
    wall = wall_as_written(wall_of_text(found[1] or found[3]))
    if wall is None:
        return text
    body, _, fraction = wall.partition(".")
    try:
        moment = datetime.fromisoformat(body).replace(tzinfo=zone).astimezone(UTC)
    except (ValueError, OverflowError):
        return text
    return _iso_seconds(moment) + (f".{fraction}" if fraction else "") + "Z"


@lru_cache(maxsize=1024)
def _zone(name: str) -> tzinfo | None:
    """The zone of a name or an offset; None where it is not known."""
    if name in _GREENWICH:
        return UTC
    found = _OFFSET.fullmatch(name)
    try:
        if found is None:
            return None if name.startswith(_NO_ZONES) else ZoneInfo(name)
        sign, *parts = found.groups()
        hours, minutes, seconds = (int(part or 0) for part in parts)
        offset = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        return timezone(-offset if sign == "-" else offset)
    except (ValueError, LookupError, OSError):
        return None


def micros_of_epoch(text: str, unit: str) -> int | None:
    """Microseconds since the epoch, for event times; further digits are cut.

    None when the text is not a count.
    """
    parts = epoch_parts(text, unit)
    if parts is None:
        return None
    return parts[0] * 1_000_000 + int((parts[1] + "000000")[:6])


def micros_of_instant(text: str) -> int | None:
    """Microseconds since the epoch of a canonical instant (`…Z`); None when the text is not an event time."""
    if not text.endswith("Z"):
        return None
    body, _, fraction = text[:-1].partition(".")
    try:
        moment = datetime.fromisoformat(body).replace(tzinfo=UTC)
    except ValueError:
        return None
    return event_time_or_none(
        int((moment - _ORIGIN).total_seconds()) * 1_000_000 + int((fraction + "000000")[:6])
    )


def event_time_or_none(micros: int | None) -> int | None:
    """The microseconds since the epoch; None outside FIRST_SECOND to LAST_SECOND, which no event time is."""
    is_one = micros is not None and FIRST_SECOND <= micros // 1_000_000 <= LAST_SECOND
    return micros if is_one else None
