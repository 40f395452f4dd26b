"""The clock of a source is its newest event time; impossible times do not move it.

The clock decides how long halves wait. One event time far in the future would make every half overdue and
hide later resets. So an event time that is more than a day after its batch landed does not count. No wrong
time zone makes a difference of more than a day.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

AHEAD = timedelta(days=1)


def believable(event_time: Column, landed_at: datetime | Column | None) -> Column:
    """The event time, or null where it is impossible. `landed_at` may be a column."""
    if landed_at is None:
        return event_time
    if isinstance(landed_at, Column):
        return F.when(landed_at.isNull() | (event_time <= landed_at + F.lit(AHEAD)), event_time)
    return F.when(event_time <= F.lit(landed_at + AHEAD), event_time)


def newest_believable(landed_at: datetime | None) -> int | None:
    """The newest event time that is possible, in microseconds since the Unix epoch; None if all are."""
    return None if landed_at is None else TimestampType().toInternal(landed_at + AHEAD)


def with_believable_times(rows: DataFrame, landed_at: datetime | None) -> DataFrame:
    """The rows with impossible values of `event_time` set to null."""
    return rows.withColumn("event_time", believable(F.col("event_time"), landed_at))
