"""Files that have landed and whose log was lost: the new log has the files as they are now, not as when read.

Sizes and times cannot tell whether they changed in between. The numbers of their lines can: bronze has them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bronze.files.file_log import LoggedFile
from bronze.source import Feed
from framework.contracts.table_names import MESSAGES_TABLE
from framework.spark.local_frame import local_frame


def last_lines(spark: SparkSession, feed: Feed, entries: Sequence[LoggedFile]) -> dict[str, int]:
    """The number of the last line in bronze, for each file that landed before its entry was logged."""
    if not entries:
        return {}
    logged = local_frame(
        spark, [(entry.listed.file, entry.discovered_at) for entry in entries], "file string, logged bigint"
    )
    messages = feed.lake.read(spark, MESSAGES_TABLE).where(F.col("source") == feed.name)
    landed = messages.join(F.broadcast(logged), "file").groupBy("file", "logged")
    ends = landed.agg(F.max("line").alias("last"), F.max(F.unix_micros("ingested_at")).alias("landed"))
    return {row["file"]: row["last"] for row in ends.where("landed < logged").collect()}


def with_other_lines(messages: DataFrame, last: Mapping[str, int]) -> list[str]:
    """The files whose messages do not end with the line that bronze has as their last one."""
    known = local_frame(messages.sparkSession, list(last.items()), "file string, last bigint")
    found = messages.groupBy("file").agg(F.max("line").alias("line"))
    others = known.join(found, "file", "left").where("NOT last <=> line")
    return sorted(row["file"] for row in others.select("file").collect())
