"""Moments as numbers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def micros_of(moment: datetime) -> int:
    """The microseconds from the beginning of 1970 to a moment; one without a zone is in this machine's."""
    return (moment.astimezone(UTC) - EPOCH) // _MICROSECOND
