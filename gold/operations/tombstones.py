"""The tombstones of a row: messages without a value, of which silver keeps nothing but the outcome."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from framework.contracts.events import ControlKind
from framework.contracts.table_schemas import MESSAGE_AT
from framework.spark.local_frame import local_frame
from gold.operations.source_messages import Coordinates, epoch_of


def tombstones(
    messages: DataFrame, changes: DataFrame, source: str, landed: Iterable[Row]
) -> set[tuple[Coordinates, int]]:
    """The coordinates and epochs of the tombstones that have the key of one of these messages in its topic.

    Args:
        messages: Rows of `bronze/messages`, from `without_content`.
        changes: Rows of `silver/changes`.
        source: The source.
        landed: Some of `messages`.
    """
    keys = {(row["topic"], row["key"]) for row in landed if row["key"] is not None}
    if not keys:
        return set()
    wanted = F.broadcast(local_frame(messages.sparkSession, sorted(keys), "topic string, key string"))
    without_value = messages.where((F.col("source") == source) & F.col("value").isNull())
    found = without_value.join(wanted, ["topic", "key"], "left_semi").select(*MESSAGE_AT)
    outcomes = changes.where(F.col("kind") == str(ControlKind.TOMBSTONE))
    rows = outcomes.join(found, list(MESSAGE_AT), "left_semi").collect()
    return {((row["topic"], row["partition"], row["offset"]), epoch_of(row)) for row in rows}
