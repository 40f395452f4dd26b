"""Finds the messages of a restarted stream that have landed before."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from bronze.source import Feed
from framework.contracts.erasure import FORGOTTEN
from framework.contracts.table_names import MESSAGES_TABLE
from framework.contracts.table_schemas import MESSAGES

_COORDINATES = ["topic", "partition", "offset"]
_CONTENT = ("key", "value", "headers")


def messages_of(spark: SparkSession, feed: Feed) -> DataFrame:
    """The messages of a source that have landed; none before a run has created the table."""
    return feed.lake.rows(spark, MESSAGES_TABLE, MESSAGES).where(F.col("source") == feed.name)


def drop_landed(rows: DataFrame, landed: DataFrame) -> DataFrame:
    """Drops the rows that have landed before; both frames have the columns of MESSAGES, for one source.

    Coordinates are not enough: a topic that was deleted and created again counts its offsets from 0. Two
    messages are the same if their coordinates, timestamps and bytes are equal. For a message that `forget`
    has emptied, coordinates and timestamp decide.
    """
    hashed = rows.withColumn("content", _content())
    conditions = [*_have_same_coordinates(), _are_same_message()]
    return hashed.join(_comparable(landed), conditions, "left_anti").select(
        *(F.col(f"`{name}`") for name in MESSAGES.names)
    )


def offsets_with_other_messages(rows: DataFrame, landed: DataFrame) -> DataFrame:
    """Coordinates of `rows` at which only other messages have landed.

    Both frames have the columns of MESSAGES.
    """
    hashed = rows.withColumn("content", _content())
    known = F.broadcast(_comparable(landed))
    others = (
        hashed.join(known, _have_same_coordinates())
        .groupBy(*_COORDINATES)
        .agg(F.max(_are_same_message()).alias("is_known"))
    )
    return others.where("NOT is_known")


def _comparable(landed: DataFrame) -> DataFrame:
    is_erased = F.coalesce(F.exists("headers", lambda header: header["key"] == FORGOTTEN), F.lit(False))
    columns = [F.col(f"`{name}`").alias(f"landed_{name}") for name in (*_COORDINATES, "timestamp")]
    return landed.select(*columns, _content().alias("landed_content"), is_erased.alias("is_erased"))


def _have_same_coordinates() -> list[Column]:
    return [F.col(f"`{name}`") == F.col(f"landed_{name}") for name in _COORDINATES]


def _are_same_message() -> Column:
    is_same_content = (F.col("content") == F.col("landed_content")) | F.col("is_erased")
    return F.col("timestamp").eqNullSafe(F.col("landed_timestamp")) & is_same_content


def _content() -> Column:
    return F.sha2(F.to_json(F.struct(*_CONTENT)), 256)
