"""Messages that are decoded again, in portions: each batch of them is bounded in bytes."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F

PORTION_BYTES = 256 * 1024 * 1024
_EACH = 200
"""The bytes that a message takes beside its own."""
_ORDER = ("ingested_at", "topic", "partition", "offset")


def portions(messages: DataFrame, room: int) -> list[Column]:
    """Conditions that split messages into portions, in the order in which they landed.

    There are at most `room` portions: if more would be needed, each is larger.
    """
    size = F.coalesce(F.length("key"), F.lit(0)) + F.coalesce(F.length("value"), F.lit(0)) + F.lit(_EACH)
    total = _first(messages.agg(F.coalesce(F.sum(size.cast("long")), F.lit(0))))[0]
    if total <= PORTION_BYTES or room < 2:
        return [F.lit(True)]
    sized = messages.select(*_ORDER, size.cast("long").alias("size"))
    before = F.sum("size").over(
        Window.orderBy(*_ORDER).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    ) - F.col("size")
    number = F.floor(before / F.lit(max(PORTION_BYTES, -(-total // room))))
    starts = (
        sized.select(number.alias("n"), F.struct(*_ORDER).alias("at"))
        .groupBy("n")
        .agg(F.min("at").alias("at"))
    )
    return _between([row["at"] for row in starts.orderBy("n").collect()])


def _between(starts: list[Row]) -> list[Column]:
    """A condition for each portion: from its first message to that of the next.

    The first and last are open.
    """
    kinds: dict[str, Callable[[Column], Column]] = {"ingested_at": lambda value: value.cast("timestamp")}
    at = F.struct(*_ORDER)
    values = [
        F.struct(*(kinds.get(name, _as_is)(F.lit(row[name])).alias(name) for name in _ORDER))
        for row in starts
    ]
    lower = [F.lit(True), *(at >= value for value in values[1:])]
    upper = [*(at < value for value in values[1:]), F.lit(True)]
    return [low & high for low, high in zip(lower, upper, strict=True)]


def _as_is(value: Column) -> Column:
    return value


def _first(frame: DataFrame) -> Row:
    return frame.collect()[0]
