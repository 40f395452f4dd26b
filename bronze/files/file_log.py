"""The log of the files of a source, `ops/files/<source>`: append-only, in the order of landing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from bronze.files.listing import ListedFile
from bronze.source import Feed
from framework.contracts.table_names import MESSAGES_TABLE
from framework.lakehouse.kept_rows import Log, keep_rows, kept_rows
from framework.lakehouse.log_rows import RowCommit, append_rows
from framework.lakehouse.newest_tables import newest_tables
from framework.lakehouse.table_reader import Query
from framework.spark.local_frame import local_frame
from framework.text.times import EPOCH, micros_of

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


_ENTRY = ("file", "path", "size", "modified_at", "discovered_at", "sequence")
_PROPERTIES = {"delta.appendOnly": "true", "delta.dataSkippingStatsColumns": "sequence"}


@dataclass(frozen=True, slots=True)
class LoggedFile:
    """An entry of the log.

    Attributes:
        listed: The file as it was listed.
        discovered_at: When it was listed, in microseconds since the epoch.
        sequence: Its position in the order of landing.
    """

    listed: ListedFile
    discovered_at: int
    sequence: int


def log_table(source: str) -> str:
    """The name of the table that holds the log of one source.

    Each source has its own table, so that its stream never has to read the commits of other sources:
    `maintain` could compact and vacuum those before an idle source reaches them.
    """
    return f"ops/files/{source}"


def _entries(source: str) -> Query:
    """The entries of a source's log from a sequence on."""
    return Query(
        log_table(source),
        f"SELECT {', '.join(f'`{name}`' for name in _ENTRY)} FROM {{rows}} WHERE `sequence` >= {{least}}",  # noqa: S608 - names of ours
    )


def newest_entries(source: str) -> Log:
    """The newest entry of each file of a source, as a run keeps it."""
    return Log(log_table(source), _ENTRY, _newest)


def _newest(rows: Iterable[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        if row["file"] not in found or row["sequence"] > found[row["file"]]["sequence"]:
            found[row["file"]] = row
    return list(found.values())


def _rows(spark: SparkSession, feed: Feed, least: int) -> Iterable[Mapping[str, Any]]:
    """Entries from a sequence on, the newest one of each file among them."""
    kept = kept_rows(feed.lake, newest_entries(feed.name))
    if kept is None:
        return newest_tables(spark, feed.lake).rows(_entries(feed.name), least=least)
    return (row for row in kept if row["sequence"] >= least)


def read_log(spark: SparkSession, feed: Feed) -> dict[str, LoggedFile]:
    """The newest entry of each file."""
    rows = _rows(spark, feed, 0)
    entries = sorted(
        (_logged(row, micros_of(row["discovered_at"])) for row in rows),
        key=lambda entry: entry.sequence,
    )
    return {entry.listed.file: entry for entry in entries}


def newest_sequence(spark: SparkSession, feed: Feed) -> int:
    """The highest sequence of the log."""
    return max((row["sequence"] for row in _rows(spark, feed, 0)), default=0)


def read_entries(rows: DataFrame) -> list[LoggedFile]:
    """Rows of the log as entries, in the order of landing."""
    discovered_at = F.unix_micros("discovered_at").alias("discovered_at")
    columns = rows.select("file", "path", "size", "modified_at", discovered_at, "sequence")
    return sorted(
        (_logged(row, row["discovered_at"]) for row in columns.collect()), key=lambda entry: entry.sequence
    )


def append_log(spark: SparkSession, feed: Feed, entries: Sequence[LoggedFile]) -> None:
    """Appends the entries in one commit."""
    rows = [_row(feed, entry) for entry in entries]
    append_rows(spark, (feed.lake, log_table(feed.name)), rows, LOG, RowCommit(properties=_PROPERTIES))
    keep_rows(feed.lake, newest_entries(feed.name))


def superseded_sequences(spark: SparkSession, feed: Feed, entries: Sequence[LoggedFile]) -> frozenset[int]:
    """The sequences of the entries whose file has a newer entry, because it was replaced before it landed."""
    if feed.lake.local_root is not None and feed.lake.version(spark, log_table(feed.name)) == 0:
        return frozenset()  # the log has one commit, from one listing: it has each file once
    least = min(entry.sequence for entry in entries)
    newest: dict[str, int] = {}
    for row in _rows(spark, feed, least):
        newest[row["file"]] = max(row["sequence"], newest.get(row["file"], 0))
    return frozenset(entry.sequence for entry in entries if newest.get(entry.listed.file, 0) > entry.sequence)


def files_with_messages(spark: SparkSession, feed: Feed, files: Sequence[str]) -> frozenset[str]:
    """The files that have a message in `bronze/messages`."""
    if not files or not feed.lake.exists(spark, MESSAGES_TABLE):
        return frozenset()
    wanted = local_frame(spark, [(file,) for file in files], "file string")
    # with literals Delta leaves out the files of the table that can have none of them
    is_near = F.col("file").between(min(files), max(files))
    messages = feed.lake.read(spark, MESSAGES_TABLE).where((F.col("source") == feed.name) & is_near)
    return frozenset(
        row["file"]
        for row in messages.join(F.broadcast(wanted), "file", "left_semi").select("file").distinct().collect()
    )


def _row(feed: Feed, entry: LoggedFile) -> tuple[object, ...]:
    file = entry.listed
    discovered_at = EPOCH + timedelta(microseconds=entry.discovered_at)
    return (
        feed.name,
        file.file,
        file.path,
        file.size,
        file.modified_at,
        discovered_at,
        entry.sequence,
        feed.run_id,
    )


def _logged(row: Row | Mapping[str, Any], discovered_at: int) -> LoggedFile:
    return LoggedFile(
        ListedFile(row["file"], row["path"], row["size"], row["modified_at"]),
        discovered_at,
        row["sequence"],
    )
