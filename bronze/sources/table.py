"""Messages of a Delta table: a place where another job lands them, row by row, each with its coordinates.

    column      needed   type                           what it is
    value       yes      binary or string               the message; null is a tombstone where there is a key
    topic       yes      string                         with partition and offset it names the message, once
    partition   yes      int
    offset      yes      bigint
    key         no       binary or string
    timestamp   no       timestamp
    headers     no       array of (key, value)

`columns:` of the source gives the table's own names, for instance `columns: {value: payload, offset: seq}`. The table is read
as it grows; rewritten or deleted rows stop the source, but for compaction. `table:` is a path when it holds a slash, else
a catalog name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from bronze.source import MESSAGES_TABLE, Discovery, Feed, Part, SourceKind
from framework.contracts.tables import MESSAGES
from framework.errors import MainstemError, nearest

NEEDED = ("value", "topic", "partition", "offset")
OPTIONAL = ("key", "timestamp", "headers")


def discover(spark: SparkSession, feed: Feed, memory: str) -> Discovery:
    """The stream itself asks the table what is new, and starts no batch where nothing is."""
    return Discovery(is_idle=False)


def read_stream(spark: SparkSession, feed: Feed) -> DataFrame:
    """The table as a stream; raises MainstemError when it lacks a column."""
    table = feed.source.table or ""
    reader = spark.readStream.format("delta")
    records = reader.load(table) if "/" in table else reader.table(table)
    check_columns(records.columns, _named(feed), table, feed.name)
    return records


def check_columns(there: Sequence[str], named: Mapping[str, str], table: str, source: str) -> None:
    """Raises MainstemError unless the table has each needed column, and each that the configuration names."""
    for column in (*NEEDED, *(name for name in OPTIONAL if name in named)):
        name = named.get(column, column)
        if name not in there:
            guess = nearest(name, there)
            raise MainstemError(
                "TABLE_COLUMN_MISSING",
                found=f"no column {name!r} for the messages' {column}",
                where=f"source {source}, table {table}",
                action=f"name it under `columns:` of the source, for instance `columns: {{{column}: {guess or there[0]}}}`",
            )


def parts(batch: DataFrame, feed: Feed, is_reset: bool) -> Iterator[Part]:
    """The batch as one commit; where the checkpoint has begun anew, without what has landed before."""
    rows = as_messages(batch, _named(feed), feed.name)
    if is_reset:
        coordinates = ["topic", "partition", "offset"]
        landed = feed.lake.read(batch.sparkSession, MESSAGES_TABLE).where(F.col("source") == feed.name).select(*coordinates)
        rows = rows.join(landed, coordinates, "left_anti").select(*(F.col(f"`{n}`") for n in MESSAGES.names))
    yield Part(0, 0, rows)


def as_messages(records: DataFrame, named: Mapping[str, str], source: str) -> DataFrame:
    """Rows of the table as rows of MESSAGES."""
    there = set(records.columns)

    def taken(column: str) -> Column:
        name = named.get(column, column)
        return F.col(f"`{name}`") if name in there else F.lit(None)

    given = {"source": F.lit(source), "ingested_at": F.current_timestamp(), **{name: taken(name) for name in (*NEEDED, *OPTIONAL)}}
    return records.select(*(given.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in MESSAGES.fields))


def _named(feed: Feed) -> dict[str, str]:
    return {str(column): name for column, name in feed.source.columns.items()}


KIND = SourceKind(name="table", discover=discover, read_stream=read_stream, parts=parts)
