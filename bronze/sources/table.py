"""Messages of a Delta table, which another job writes: one row for each message, with its coordinates.

    column      needed   type                           meaning
    value       yes      binary or string               the message; null with a key is a tombstone
    topic       yes      string                         topic, partition and offset identify the message
    partition   yes      int
    offset      yes      bigint
    key         no       binary or string
    timestamp   no       timestamp
    headers     no       array of (key, value)

A row without a topic, a partition or an offset keeps its bytes, but nothing identifies it: it lands under
coordinates that follow from what it holds, and ends in quarantine.

`columns:` of the source maps these to other column names, for example `columns: {value: payload, offset:
seq}`. `table:` is a path where it contains a slash, otherwise a catalog name.

The source reads the rows that are appended to the table. Compaction is harmless. So are commits that only
remove whole files, as a DELETE by partition or a TRUNCATE does: what has landed stays, and Delta's stream
reads rows that were appended and removed meanwhile from files that are out of the table. Commits that change
rows, or delete some rows of a file, stop the source (TABLE_REWRITTEN), because they may append rows as well;
so do removed files that VACUUM has deleted before they were read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import or_
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from bronze.checkpoint import source_changed
from bronze.headers import escape_reserved_headers, readable_text
from bronze.offset_ranges import ranges_of
from bronze.record_times import representable_time
from bronze.restarts import without_landed
from bronze.source import Discovery, Feed, Part, SourceKind
from framework.contracts.messages import BAD_COORDINATES
from framework.contracts.table_schemas import HEADERS, MESSAGES
from framework.errors import MainstemError, nearest
from framework.lakehouse.expired_logs import log_expired

NEEDED = ("value", "topic", "partition", "offset")
OPTIONAL = ("key", "timestamp", "headers")
_OTHER_TABLE = "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE"
_REWRITTEN = "DELTA_SOURCE_TABLE_IGNORE_CHANGES"
_FILE_GONE = re.compile(r"FAILED_READ_FILE\.\w*FILE_NOT_EXIST\][^\n]*? reading file (\S+\.parquet)")
_AT_VERSION = re.compile(r"at version (\d+)")
_COORDINATES = ("topic", "partition", "offset")
_DIGEST_DIGITS = 15  # hexadecimal: the largest such number is a bigint, and so is the next one


def discover(spark: SparkSession, feed: Feed, state: str) -> Discovery:
    """Never idle: the stream itself asks the table what is new, and starts no batch where nothing is."""
    return Discovery(is_idle=False)


def read_stream(spark: SparkSession, feed: Feed, is_reset: bool) -> DataFrame:
    """The table as a stream; raises MainstemError where it lacks a column."""
    table = feed.source.table or ""
    reader = spark.readStream.format("delta").option("ignoreDeletes", "true")
    records = reader.load(table) if "/" in table else reader.table(table)
    check_columns(records.columns, _column_names(feed), table, feed.name)
    return records


def check_columns(existing: Sequence[str], column_names: Mapping[str, str], table: str, source: str) -> None:
    """Raises TABLE_COLUMN_MISSING unless the table has the needed columns and those of the configuration."""
    for column in (*NEEDED, *(name for name in OPTIONAL if name in column_names)):
        name = column_names.get(column, column)
        if name not in existing:
            guess = nearest(name, existing)
            raise MainstemError(
                "TABLE_COLUMN_MISSING",
                found=f"no column {name!r} for the messages' {column}",
                where=f"source {source}, table {table}",
                action="name it under `columns:` of the source,"
                f" for instance `columns: {{{column}: {guess or existing[0]}}}`",
            )


def parts(batch: DataFrame, feed: Feed, is_reset: bool) -> Iterator[Part]:
    """The batch as one commit; with `is_reset` without the messages of earlier checkpoints."""
    rows = as_messages(batch, _column_names(feed), feed.name, feed.source.table or "")
    if is_reset:
        rows = without_landed(rows, ranges_of(rows), feed)
    yield Part(batch.sparkSession, 0, 0, lambda: rows)


def as_messages(records: DataFrame, column_names: Mapping[str, str], source: str, table: str) -> DataFrame:
    """Rows of the table as rows of MESSAGES.

    Headers that begin with Mainstem's prefix are renamed; a time outside the years 1 to 9999 is null.
    """
    existing = set(records.columns)

    def column_or_null(column: str) -> Column:
        name = column_names.get(column, column)
        return F.col(f"`{name}`") if name in existing else F.lit(None)

    values = {
        "source": F.lit(source),
        "ingested_at": F.current_timestamp(),
        **{name: column_or_null(name) for name in (*NEEDED, *OPTIONAL)},
    }
    values["timestamp"] = representable_time(values["timestamp"].cast("timestamp"))
    values["topic"] = readable_text(values["topic"].cast("string"))
    values["headers"] = escape_reserved_headers(values["headers"].cast(HEADERS))
    rows = records.select(
        *(values.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in MESSAGES.fields)
    )
    return _with_coordinates(rows, table)


def _with_coordinates(rows: DataFrame, table: str) -> DataFrame:
    """The messages; those that lack a coordinate get the table's name and a digest of what they hold.

    They land as a line of a file that is no message: silver knows it by these coordinates and the header.
    """
    given = [
        F.concat(F.lit(f"{name} "), F.coalesce(F.col(f"`{name}`").cast("string"), F.lit("null")))
        for name in _COORDINATES
    ]
    content = F.to_json(F.struct(*_COORDINATES, "timestamp", "key", "value", "headers"))
    digits = F.substring(F.sha2(content, 256), 1, _DIGEST_DIGITS)
    number = F.conv(digits, 16, 10).cast("bigint")
    reason = F.struct(
        F.lit(BAD_COORDINATES).alias("key"), F.concat_ws(", ", *given).cast("binary").alias("value")
    )
    headers = F.concat(F.array(reason), F.coalesce("headers", F.array().cast(HEADERS)))
    instead = {
        **{"topic": F.lit(table), "partition": F.lit(0), "offset": number},
        **{"headers": headers.cast(HEADERS), "file": F.lit(table), "line": number},
    }
    lacks = reduce(or_, (F.col(f"`{name}`").isNull() for name in _COORDINATES))
    return rows.withColumns(
        {name: F.when(lacks, new).otherwise(F.col(f"`{name}`")) for name, new in instead.items()}
    )


def _column_names(feed: Feed) -> dict[str, str]:
    return {str(column): name for column, name in feed.source.columns.items()}


def explain(error: Exception, feed: Feed) -> MainstemError | None:
    """The error where it is another table, or one that cannot be read on because of what was done to it."""
    if _OTHER_TABLE in str(error):
        found = f"{feed.source.table} is not the table that the checkpoint of source '{feed.name}' belongs to"
        return source_changed(feed, found)
    if _REWRITTEN in str(error):
        version = _AT_VERSION.search(str(error))
        commit = "a commit" if version is None else f"version {version[1]}"
        return _rewritten(feed, f"{commit} of {feed.source.table} changed rows, or deleted some of a file")
    gone = _FILE_GONE.search(str(error))
    if gone is not None and _is_below(unquote(gone[1]), str(feed.source.table)):
        return _rewritten(feed, f"{gone[1]} is gone before its rows were read")
    return log_expired(error, str(feed.source.table), feed.checkpoint, "messages that have landed")


def _is_below(file: str, table: str) -> bool:
    """Whether a file is one of the table; False where that has a name in the catalog. Schemes differ."""
    return "/" in table and f"/{table.rpartition(':')[2].strip('/')}/" in file


def _rewritten(feed: Feed, found: str) -> MainstemError:
    return MainstemError(
        "TABLE_REWRITTEN",
        found=found,
        where=f"source {feed.name}, table {feed.source.table}",
        action=f"delete {feed.checkpoint}, create the empty file {feed.checkpoint}.reset and run again:"
        " the whole table is read again as it is now, and messages that have landed are left out;"
        " the table no longer has rows that were appended after the last run and deleted before this one",
    )


KIND = SourceKind(name="table", discover=discover, read_stream=read_stream, parts=parts, explain=explain)
