"""Moments in UTC, and as numbers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_INSIDE = (datetime(1, 1, 3), datetime(9999, 12, 29))
"""Between these, each moment has a day on both sides, where Python looks for the offset of a local zone."""


def instant(moment: datetime) -> datetime:
    """A moment in UTC; one without a zone is in this machine's, also on the first and the last day."""
    if moment.tzinfo is not None:
        return moment.astimezone(UTC)
    near = min(max(moment, _INSIDE[0]), _INSIDE[1])
    return near.astimezone(UTC) + (moment - near)


def micros_of(moment: datetime) -> int:
    """The microseconds from the beginning of 1970 to a moment; one without a zone is in this machine's."""
    return (instant(moment) - EPOCH) // _MICROSECOND
