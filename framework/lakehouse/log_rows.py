"""Appends rows of this process to a table, on one machine without a Spark job: a run writes to several logs.

A job that writes a few rows takes longer than all else that a small step of a run does. What this needs is
imported late: commands that only read the logs run without Spark.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from framework.lakehouse.lakehouse import Lakehouse, Transaction, local_log
from framework.spark.local_frame import arrow_rows, local_frame, parsed

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


def append_rows(
    spark: SparkSession,
    table: tuple[Lakehouse, str],
    rows: Iterable[Sequence[Any]],
    schema: str | StructType,
    transaction: Transaction | None = None,
) -> None:
    """Append rows in one commit, which creates the table without properties if it is missing.

    Args:
        spark: The session.
        table: The lakehouse and the name of the table.
        rows: Each has one value for each column, in their order. Times without a zone are in UTC.
        schema: The columns, as a type or as Spark SQL writes them. Columns that the table lacks are added.
        transaction: Delta writes the rows of one transaction only once.
    """
    lake, name = table
    kinds, given = parsed(spark, schema), list(rows)
    if not _append_file(spark, table, given, kinds, transaction):
        frame = local_frame(spark, given, kinds).coalesce(1)
        lake.append(frame, name, transaction, {"mergeSchema": "true"})


def _append_file(
    spark: SparkSession,
    table: tuple[Lakehouse, str],
    rows: Sequence[Sequence[Any]],
    schema: StructType,
    transaction: Transaction | None,
) -> bool:
    """Append the rows as a file that this process writes; returns whether that was possible."""
    from framework.lakehouse.file_commits import Commit, commit_files

    lake, name = table
    location = lake.location(name)
    if lake.added or local_log(location) is None or not lake.exists(spark, name):
        return False
    with file_of(lake, arrow_rows(rows, schema)) as file:
        return commit_files(spark, location, schema, [file], Commit(transaction))


@contextmanager
def file_of(lake: Lakehouse, rows: pa.Table) -> Iterator[str]:
    """A Parquet file with these rows, on the disk of the lakehouse, which may become a file of a table.

    It is removed in the end if it is still there.
    """
    from pyarrow import parquet

    folder = f"{lake.checkpoints}/staging/rows"
    file = os.path.join(folder, f"{uuid.uuid4().hex}.parquet")
    os.makedirs(folder, exist_ok=True)
    try:
        parquet.write_table(rows, file, write_page_checksum=True)
        yield file
    finally:
        with suppress(FileNotFoundError):
            os.remove(file)
