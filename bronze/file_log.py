"""The log of the files that a source has taken up: `ops/files/<source>`, append-only, in the order of landing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from bronze.listing import FoundFile
from bronze.source import MESSAGES_TABLE, Feed

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LOG = T.StructType(
    [
        T.StructField("source", T.StringType()),
        T.StructField("file", T.StringType()),
        T.StructField("path", T.StringType()),
        T.StructField("size", T.LongType()),
        T.StructField("modified_at", T.LongType()),
        T.StructField("discovered_at", T.TimestampType()),
        T.StructField("sequence", T.LongType()),
        T.StructField("run_id", T.StringType()),
    ]
)


_PROPERTIES = {"delta.appendOnly": "true", "delta.dataSkippingStatsColumns": "sequence"}


@dataclass(frozen=True, slots=True)
class LoggedFile:
    """A file that was taken up: as it was then, when that was (microseconds), and its place in the order of landing."""

    found: FoundFile
    discovered_at: int
    sequence: int


def log_name(source: str) -> str:
    """The table that holds the log of one source.

    One table a source, so that its stream is never behind commits of others: those could be compacted and vacuumed
    before an idle source comes to them.
    """
    return f"ops/files/{source}"


def read_log(spark: SparkSession, feed: Feed) -> dict[str, LoggedFile]:
    """The newest entry of each file."""
    entries = logged_files(feed.lake.read(spark, log_name(feed.name)))
    return {entry.found.file: entry for entry in entries}


def logged_files(rows: DataFrame) -> list[LoggedFile]:
    """Rows of the log as records, in the order of landing."""
    discovered_at = F.unix_micros("discovered_at").alias("discovered_at")
    columns = rows.select("file", "path", "size", "modified_at", discovered_at, "sequence")
    return sorted((_logged(row) for row in columns.collect()), key=lambda entry: entry.sequence)


def append_log(spark: SparkSession, feed: Feed, entries: Sequence[LoggedFile]) -> None:
    """Record these files in one commit."""
    rows = [_row(feed, entry) for entry in entries]
    feed.lake.append(spark.createDataFrame(rows, LOG).coalesce(1), log_name(feed.name), properties=_PROPERTIES)


def superseded(spark: SparkSession, feed: Feed, entries: Sequence[LoggedFile]) -> frozenset[int]:
    """The sequences of those entries whose file has a newer entry: the file was replaced before it had landed."""
    if feed.lake.local_root is not None and feed.lake.version(spark, log_name(feed.name)) == 0:
        return frozenset()  # one commit, one look at the folder: each file is there once
    later = feed.lake.read(spark, log_name(feed.name)).where(F.col("sequence") > min(entry.sequence for entry in entries))
    newest: dict[str, int] = {}
    for file, sequence in later.select("file", "sequence").collect():
        newest[file] = max(sequence, newest.get(file, 0))
    return frozenset(entry.sequence for entry in entries if newest.get(entry.found.file, 0) > entry.sequence)


def landed_files(spark: SparkSession, feed: Feed, files: Sequence[str]) -> frozenset[str]:
    """Those of the files of which `bronze/messages` holds a message."""
    if not files or not feed.lake.exists(spark, MESSAGES_TABLE):
        return frozenset()
    wanted = spark.createDataFrame([(file,) for file in files], "file string")
    messages = feed.lake.read(spark, MESSAGES_TABLE).where(F.col("source") == feed.name)
    return frozenset(row["file"] for row in messages.join(F.broadcast(wanted), "file", "left_semi").select("file").distinct().collect())


def _row(feed: Feed, entry: LoggedFile) -> tuple[object, ...]:
    found = entry.found
    discovered_at = EPOCH + timedelta(microseconds=entry.discovered_at)
    return feed.name, found.file, found.path, found.size, found.modified_at, discovered_at, entry.sequence, feed.run_id


def _logged(row: Row) -> LoggedFile:
    return LoggedFile(FoundFile(row["file"], row["path"], row["size"], row["modified_at"]), row["discovered_at"], row["sequence"])
