"""Deletion vectors: a merge marks rows that are gone in a small file, and leaves the large files as they are.

A large table would otherwise be written again for each batch that changes a few of its rows. Readers need
Delta's reader version 3, so small tables do without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from framework.lakehouse.lakehouse import sql_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LARGE_BYTES = 32 * 1024 * 1024
"""From this size on, writing a table's files again costs more than marking rows."""
_PROPERTY = "delta.enableDeletionVectors"
_FEATURE = "deletionVectors"


def mark_rows_if_large(spark: SparkSession, location: str) -> bool:
    """Lets merges mark rows in the table at a location if it is large; returns whether this is new.

    A table on which somebody has set the property keeps what was set, and one that cannot have marks, because
    it is also an Iceberg table, stays as it is.
    """
    from pyspark.errors import PySparkException

    detail = spark.sql(f"DESCRIBE DETAIL {sql_name(location)}").first()
    assert detail is not None
    if _PROPERTY in (detail["properties"] or {}) or detail["sizeInBytes"] < LARGE_BYTES:
        return False
    try:
        spark.sql(f"ALTER TABLE {sql_name(location)} SET TBLPROPERTIES ('{_PROPERTY}' = 'true')")
    except PySparkException:
        return False
    return True


def purge_marked_rows(spark: SparkSession, location: str) -> bool:
    """Writes the files with marked rows again without them; returns False for a table without the feature.

    Without marked rows nothing is written.
    """
    detail = spark.sql(f"DESCRIBE DETAIL {sql_name(location)}").first()
    if detail is None or _FEATURE not in (detail["tableFeatures"] or ()):
        return False
    spark.sql(f"REORG TABLE {sql_name(location)} APPLY (PURGE)")
    return True
