"""Finds files of an object store with Databricks' Auto Loader, which does not list the folder in each run.

Auto Loader's stream appends the files that it finds to `ops/arrivals/<source>`; Delta and the stream's
checkpoint make that exact. A file that is overwritten is found again. The table then replaces a listing of
the folder: which files are new, and whether one has changed since it was read, is decided as after any other
listing. A deleted file is noticed only when it is read, or where it seems to have changed after it landed.

See https://docs.databricks.com/aws/en/ingestion/cloud-object-storage/auto-loader/
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bronze.files.listing import ListedFile, listed_files
from bronze.source import Feed
from framework.errors import MainstemError, cause_of
from framework.lakehouse.checkpoint_files import has_ended_batch
from framework.lakehouse.lakehouse import is_path
from framework.lakehouse.small_files import is_local, without_glob

_FILES = "path string, modificationTime timestamp, length bigint, content binary"


@dataclass(frozen=True, slots=True)
class FileStream:
    """A streaming source of Spark that has the columns of `binaryFile`."""

    format: str
    options: dict[str, str] = field(default_factory=dict)


AUTO_LOADER = FileStream(
    "cloudFiles", {"cloudFiles.format": "binaryFile", "cloudFiles.allowOverwrites": "true"}
)


def has_auto_loader(feed: Feed) -> bool:
    """Whether Auto Loader lists the files: on Databricks, in folders that only Spark reads, if enabled."""
    folder = feed.source.files
    return (
        folder is not None
        and not is_local(folder)
        and feed.source.auto_loader
        and "DATABRICKS_RUNTIME_VERSION" in os.environ
    )


def arrivals_table(source: str) -> str:
    """The name of the table of all files that Auto Loader has found for a source."""
    return f"ops/arrivals/{source}"


def list_with_auto_loader(spark: SparkSession, feed: Feed) -> list[ListedFile]:
    """All files that were ever written to the folder, each with its newest size and time.

    Raises:
        MainstemError: AUTO_LOADER_FAILED where the stream fails, ARRIVALS_LOST where its table is gone.
    """
    folder, name = feed.source.files or "", arrivals_table(feed.name)
    _check_is_there(spark, feed)
    try:
        _run_stream(spark, feed, AUTO_LOADER)
    except Exception as error:
        raise MainstemError(
            "AUTO_LOADER_FAILED",
            found=f"{type(error).__name__}: {cause_of(error)}",
            where=f"source {feed.name}, {folder}",
            action="grant what the error asks for;"
            f" or write `auto_loader: false` below sources.{feed.name}, which lists the folder instead",
        ) from error
    if not feed.lake.exists(spark, name):
        return []
    newest = F.max(F.struct("modified_at", "length")).alias("newest")
    rows = (
        feed.lake.read(spark, name)
        .groupBy("path")
        .agg(newest)
        .select("path", "newest.length", "newest.modified_at")
        .collect()
    )
    return listed_files(folder, rows)


def _check_is_there(spark: SparkSession, feed: Feed) -> None:
    """Raises ARRIVALS_LOST where the table is gone: the stream does not report earlier files again."""
    name, checkpoint = arrivals_table(feed.name), f"{feed.checkpoint}.arrivals"
    if feed.lake.exists(spark, name) or not has_ended_batch(spark, checkpoint):
        return
    raise MainstemError(
        "ARRIVALS_LOST",
        found=f"{name} is gone, and with it the list of files that Auto Loader has found",
        where=feed.lake.location(name),
        action=f"restore it from a backup; or delete {checkpoint} and run again:"
        " all files are found again, and those that have landed are left out",
    )


def _run_stream(spark: SparkSession, feed: Feed, stream: FileStream) -> None:
    folder, place = feed.source.files or "", feed.lake.location(arrivals_table(feed.name))
    files = (
        spark.readStream.format(stream.format)
        .options(**stream.options)
        .schema(_FILES)
        .load(without_glob(folder))
    )
    entries = files.select("path", "length", F.unix_micros("modificationTime").alias("modified_at"))
    writer = entries.writeStream.format("delta").option("checkpointLocation", f"{feed.checkpoint}.arrivals")
    writer = writer.trigger(availableNow=True).queryName(f"arrivals {feed.name}")
    query = writer.start(place) if is_path(place) else writer.toTable(place)
    query.awaitTermination()
