"""The time of a source: its newest event time, which decides how long halves wait, kept from times that cannot be.

A single event time far in the future would make every half overdue at once, and later resets invisible. So times that
lie more than a day behind the moment at which their batch landed are none: a day is more than any wrong zone makes.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

AHEAD = timedelta(days=1)
_WAITS = "event_time="
"""A waiting half whose own time says nothing waits from the source's time at its arrival; its own is noted like this."""


def believable(event_time: Column, landed_at: datetime | None) -> Column:
    """The event time, null where the feed cannot know it yet."""
    return event_time if landed_at is None else F.when(event_time <= F.lit(landed_at + AHEAD), event_time)


def waiting_since(event_time: Column, landed_at: datetime | None, now: Column) -> Column:
    """From when a half waits: its event time, or the source's time `now` where it has none to believe."""
    return F.coalesce(believable(event_time, landed_at), now)


def waiting_note(event_time: Column, landed_at: datetime | None) -> Column:
    """The half's own event time, for the day that it is released; null where it is the one from which it waits."""
    own = F.concat(F.lit(_WAITS), F.coalesce(F.unix_micros(event_time).cast("string"), F.lit("")))
    return F.when(believable(event_time, landed_at).isNull(), own)


def own_time(note: str | None, event_time: int | None) -> int | None:
    """The event time of a half that has waited, in microseconds."""
    if note is None or not note.startswith(_WAITS):
        return event_time
    return int(note.removeprefix(_WAITS)) if note != _WAITS else None


def with_believable_times(rows: DataFrame, landed_at: datetime | None) -> DataFrame:
    """The rows, for judging what their times mean: those that cannot be are null."""
    return rows.withColumn("event_time", believable(F.col("event_time"), landed_at))
