"""Dates and times of Kafka Connect schemas: their canonical types, and the canonical text of their values.

    type                                                     canonical       written as
    Date, IsoDate                                            date            days since the epoch, or text
    Time, MicroTime, NanoTime, IsoTime                       string          a count since midnight, or text
    Timestamp, MicroTimestamp, NanoTimestamp, IsoTimestamp   timestamp_ntz   a count since the epoch, or text
    ZonedTimestamp                                           timestamp       ISO 8601 with an offset

A time of day becomes `HH:MM:SS[.f]`. Connect calls its `Timestamp` an instant; the connectors of databases
write wall times into it, so it is read as a wall time of the source. Nanoseconds end with the year 2262: a
count at their end is no time and stays as it was sent. PostgreSQL's infinite timestamps become the text
`infinity`, which no timestamp holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

from silver.values.canonical import date_text, epoch_parts, wall_of_epoch, wall_of_text

CONNECT, DEBEZIUM_TIME = "org.apache.kafka.connect.data.", "io.debezium.time."
"""How the names of Kafka Connect's types, and of Debezium's dates and times, begin."""
INSTANT = DEBEZIUM_TIME + "ZonedTimestamp"
ANY_TIMESTAMP = "wall time in a unit told by its digits"
"""The name of a field that no connector writes, for messages without a schema."""
INFINITIES = {
    "9223372036825200000": "infinity",
    "-9223372036832400000": "-infinity",
    "+292278994-08-16T23:00:00Z": "infinity",
    "-292269055-12-02T23:00:00Z": "-infinity",
}
"""What PostgreSQL's connector writes for timestamps without an end, as a count or as text."""

TIME_OF_DAY = {
    "ms": DEBEZIUM_TIME + "Time",
    "us": DEBEZIUM_TIME + "MicroTime",
    "ns": DEBEZIUM_TIME + "NanoTime",
}
"""The names of times of day by their unit."""

_DATES = frozenset({CONNECT + "Date", DEBEZIUM_TIME + "Date", DEBEZIUM_TIME + "IsoDate"})
_TIMES = {
    CONNECT + "Time": "ms",
    **{name: unit for unit, name in TIME_OF_DAY.items()},
    DEBEZIUM_TIME + "IsoTime": "us",
}
_WALLS = {
    CONNECT + "Timestamp": "ms",
    DEBEZIUM_TIME + "Timestamp": "ms",
    DEBEZIUM_TIME + "MicroTimestamp": "us",
    DEBEZIUM_TIME + "NanoTimestamp": "ns",
    DEBEZIUM_TIME + "IsoTimestamp": "us",
}
TEMPORAL_TYPES = {
    **dict.fromkeys(_DATES, "date"),
    **dict.fromkeys(_TIMES, "string"),
    **dict.fromkeys((*_WALLS, ANY_TIMESTAMP), "timestamp_ntz"),
    INSTANT: "timestamp",
}
"""The canonical types of dates and times by the names of their schemas."""
_LAST_DAY, _LAST_MOMENT = 253_402_214_400_000, 253_402_300_799_999
"""9999-12-31 in milliseconds: as microseconds it would be a minute of 1978."""
_OFFSET = re.compile(
    r"(\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2})?)(?:\.(\d+))?(Z|[+-]\d{2}(?::?\d{2}){0,2})"
)
_LONGEST, _NANOSECONDS_OF_DAY = 1 << 63, 86_400_000_000_000


def temporal_conversion(name: str) -> Callable[[str], str] | None:
    """The function that gives the canonical text of a date or time; None for the names of other types."""
    if name in _DATES:
        return _date
    if name in _TIMES:
        return lambda text: _time_of_day(text, _TIMES[name])
    if name in _WALLS:
        return lambda text: _wall(text, _WALLS[name])
    if name == ANY_TIMESTAMP:
        return lambda text: _wall(text, _unit_of(text))
    return instant if name == INSTANT else None


def instant(text: str) -> str:
    """A time with an offset as `2024-02-29T10:00:00.123Z`; the text as it came when it is none."""
    found = _OFFSET.fullmatch(text)
    if found is None:
        return text
    wall, fraction, offset = found.groups()
    try:
        moment = datetime.fromisoformat(wall + offset).astimezone(UTC)
    except (ValueError, OverflowError):
        return text
    return f"{moment.year:04d}-{moment:%m-%dT%H:%M:%S}" + (f".{fraction}" if fraction else "") + "Z"


def is_beyond_nanoseconds(count: int) -> bool:
    """Whether a count of nanoseconds has overflowed.

    The connector then writes the limit plus the time of that day.
    """
    return count == _LONGEST - 1 or count < -_LONGEST + _NANOSECONDS_OF_DAY


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
    if unit == "ns" and re.fullmatch(r"-?[0-9]{19}", text) and is_beyond_nanoseconds(int(text)):
        return text
    wall = wall_of_epoch(text, unit)
    return wall if wall is not text else wall_of_text(text.removesuffix("Z"))
