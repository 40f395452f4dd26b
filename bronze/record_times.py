"""Times of records as they land: only those that every reader of the lakehouse can show."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

_FIRST, _LAST = -62_135_510_400_000_000, 253_402_300_799_999_999
"""The first microsecond of 2 January of the year 1 (Python reads no earlier one), and the last of 9999."""


def representable_time(time: Column) -> Column:
    """The time; null outside the years 1 to 9999, which Python, and so a command that prints it, lacks."""
    return F.when(F.unix_micros(time).between(_FIRST, _LAST), time)
