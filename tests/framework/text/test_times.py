"""Moments as numbers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from framework.text.times import micros_of

EAST = timezone(timedelta(hours=8))


@pytest.mark.parametrize(
    ("moment", "micros"),
    [
        (datetime(1970, 1, 1, tzinfo=UTC), 0),
        (datetime(1970, 1, 1, 8, tzinfo=EAST), 0),
        (datetime(2024, 3, 1, 9, 30, 0, 1, tzinfo=UTC), 1_709_285_400_000_001),
        (datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), -1),
        (datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), 253_402_300_799_999_999),
    ],
)
def test_a_moment_is_a_number_of_microseconds(moment: datetime, micros: int) -> None:
    assert micros_of(moment) == micros
