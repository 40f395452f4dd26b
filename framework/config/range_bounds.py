"""What a bound of a range is: a number, a date or time, or a text. YAML reads `1e6` as a text."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)
_MOMENT = re.compile(
    r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})"
    r"(?:[T ](\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d+))?)?(Z|[+-]\d{2}:\d{2})?)?)?)?",
    re.ASCII,
)
_MICROS = 6


def number_of(bound: float | str) -> Decimal | None:
    """The number that a bound is or says, with all its digits; None for other texts."""
    text = str(bound).strip()
    return Decimal(text) if not isinstance(bound, str) or _NUMBER.fullmatch(text) else None


def moment_of(bound: float | str) -> datetime | None:
    """The moment that a text says; None for what is no date or time.

    A date is its midnight, a month or a year its first midnight, and a time without a zone is one of UTC.
    Digits beyond microseconds are cut, as those of a replica's cells.
    """
    found = _MOMENT.fullmatch(bound.strip()) if isinstance(bound, str) else None
    if found is None:
        return None
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    micros = int((fraction or "").ljust(_MICROS, "0")[:_MICROS])
    try:
        wall = datetime(
            int(year),
            int(month or 1),
            int(day or 1),
            int(hour or 0),
            int(minute or 0),
            int(second or 0),
            micros,
        )
        return wall.replace(tzinfo=_zone(zone)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _zone(text: str | None) -> timezone:
    if text is None or text == "Z":
        return UTC
    hours, minutes = text[1:].split(":")
    offset = timedelta(hours=int(hours), minutes=int(minutes))
    return timezone(-offset if text[0] == "-" else offset)
