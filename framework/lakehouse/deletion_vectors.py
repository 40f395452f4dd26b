"""Deletion vectors: a merge marks rows that are gone in a small file, and leaves the large files as they are.

A large table would otherwise be written again for each batch that changes a few of its rows. Readers need
Delta's reader version 3, so small tables do without.
"""

from __future__ import annotations

from collections.abc import Collection
from importlib.util import find_spec
from typing import TYPE_CHECKING

from framework.lakehouse.lakehouse import local_log, sql_name

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

    properties, size = _in_log(location) or _in_detail(spark, location)
    if _PROPERTY in properties or size < LARGE_BYTES:
        return False
    try:
        spark.sql(f"ALTER TABLE {sql_name(location)} SET TBLPROPERTIES ('{_PROPERTY}' = 'true')")
    except PySparkException:
        return False
    return True


def _in_log(location: str) -> tuple[Collection[str], int] | None:
    """The names of a local table's properties, and its bytes; None where only Spark can tell."""
    if local_log(location) is None or find_spec("deltalake") is None:
        return None
    import pyarrow as pa
    import pyarrow.compute as pc
    from deltalake import DeltaTable

    try:
        table = DeltaTable(location)
        sizes = pa.table(table.get_add_actions()).column("size_bytes")
        return table.metadata().configuration, pc.sum(sizes).as_py() or 0
    except Exception:  # a feature that the package does not know
        return None


def _in_detail(spark: SparkSession, location: str) -> tuple[Collection[str], int]:
    detail = spark.sql(f"DESCRIBE DETAIL {sql_name(location)}").first()
    assert detail is not None
    return detail["properties"] or {}, detail["sizeInBytes"]


def purge_marked_rows(spark: SparkSession, location: str) -> bool:
    """Writes the files with marked rows again without them; returns False for a table without the feature.

    Without marked rows nothing is written.
    """
    detail = spark.sql(f"DESCRIBE DETAIL {sql_name(location)}").first()
    if detail is None or _FEATURE not in (detail["tableFeatures"] or ()):
        return False
    spark.sql(f"REORG TABLE {sql_name(location)} APPLY (PURGE)")
    return True
