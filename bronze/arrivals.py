"""Auto Loader: on Databricks it tells what a folder of an object store is given, without listing the folder each time.

Its stream writes what it finds to `ops/arrivals/<source>`, append-only; Delta and the stream's checkpoint make that exact. A
file that is written again is found again. From then on these are the files of the folder: what to take up, and whether
one has changed since it was read, is decided as after any other listing. That a file is gone is noticed when it is read.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bronze.listing import FoundFile, found_files
from bronze.source import Feed
from framework.errors import MainstemError, cause_of
from framework.notes import is_local, without_glob
from framework.tables import is_path

_FILES = "path string, modificationTime timestamp, length bigint, content binary"


@dataclass(frozen=True, slots=True)
class FileStream:
    """A streaming source of Spark that tells of files as `binaryFile` does."""

    format: str
    options: dict[str, str] = field(default_factory=dict)


AUTO_LOADER = FileStream("cloudFiles", {"cloudFiles.format": "binaryFile", "cloudFiles.allowOverwrites": "true"})


def has_auto_loader(feed: Feed) -> bool:
    """Whether Auto Loader finds the feed's files: on Databricks, in a folder that only Spark reaches, unless configured otherwise."""
    folder = feed.source.files
    return folder is not None and not is_local(folder) and feed.source.auto_loader and "DATABRICKS_RUNTIME_VERSION" in os.environ


def arrivals_name(source: str) -> str:
    """The table of all files that Auto Loader has found for a source."""
    return f"ops/arrivals/{source}"


def list_arrived(spark: SparkSession, feed: Feed) -> list[FoundFile]:
    """All files that the folder has been given until now, each as it was last written; raises MainstemError where the stream fails."""
    folder, name = feed.source.files or "", arrivals_name(feed.name)
    try:
        _take_up(spark, feed, AUTO_LOADER)
    except Exception as error:
        raise MainstemError(
            "AUTO_LOADER_FAILED",
            found=f"{type(error).__name__}: {cause_of(error)}",
            where=f"source {feed.name}, {folder}",
            action=f"give the job what it asks for, or write `auto_loader: false` below sources.{feed.name}: the folder is listed then",
        ) from error
    if not feed.lake.exists(spark, name):
        return []
    newest = F.max(F.struct("modified_at", "length")).alias("newest")
    rows = feed.lake.read(spark, name).groupBy("path").agg(newest).select("path", "newest.length", "newest.modified_at").collect()
    return found_files(folder, rows)


def _take_up(spark: SparkSession, feed: Feed, stream: FileStream) -> None:
    folder, place = feed.source.files or "", feed.lake.place(arrivals_name(feed.name))
    files = spark.readStream.format(stream.format).options(**stream.options).schema(_FILES).load(without_glob(folder))
    told = files.select("path", "length", F.unix_micros("modificationTime").alias("modified_at"))
    writer = told.writeStream.format("delta").option("checkpointLocation", f"{feed.checkpoint}.arrivals")
    writer = writer.trigger(availableNow=True).queryName(f"arrivals {feed.name}")
    query = writer.start(place) if is_path(place) else writer.toTable(place)
    query.awaitTermination()
