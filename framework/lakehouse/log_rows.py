"""Appends rows of this process to a table, on one machine without a Spark job: a run writes to several logs.

A job that writes a few rows takes longer than all else that a small step of a run does. What this needs is
imported late: commands that only read the logs run without Spark.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from framework.contracts.table_comments import description
from framework.lakehouse.lakehouse import Lakehouse, Transaction, local_log, nullable
from framework.spark.local_frame import arrow_rows, local_frame, parsed

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True)
class RowCommit:
    """What a commit of rows does besides.

    Attributes:
        transaction: Delta writes the rows of one transaction only once.
        properties: Properties of the table if the commit creates it.
    """

    transaction: Transaction | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


def append_rows(
    spark: SparkSession,
    table: tuple[Lakehouse, str],
    rows: Iterable[Sequence[Any]],
    schema: str | StructType,
    commit: RowCommit | None = None,
) -> None:
    """Append rows in one commit, which creates the table if it is missing.

    Args:
        spark: The session.
        table: The lakehouse and the name of the table.
        rows: Each has one value for each column, in their order. Times without a zone are in UTC.
        schema: The columns, as a type or as Spark SQL writes them. Columns that the table lacks are added.
        commit: What else the commit does.
    """
    lake, name = table
    kinds, given, commit = parsed(spark, schema), list(rows), commit or RowCommit()
    if not _append_file(spark, table, given, kinds, commit):
        frame = local_frame(spark, given, kinds).coalesce(1)
        lake.append(frame, name, commit.transaction, {"mergeSchema": "true", **commit.properties})


def _append_file(
    spark: SparkSession,
    table: tuple[Lakehouse, str],
    rows: Sequence[Sequence[Any]],
    schema: StructType,
    commit: RowCommit,
) -> bool:
    """Append the rows as a file that this process writes; returns whether that was possible."""
    from framework.lakehouse.file_commits import Commit, commit_files
    from framework.lakehouse.new_tables import NewTable, create_table

    lake, name = table
    location = lake.location(name)
    if lake.added or local_log(location) is None:
        return False
    is_new = not lake.exists(spark, name)
    with file_of(lake, arrow_rows(rows, schema)) as file:
        once = Commit(commit.transaction)
        if is_new:
            new = NewTable(nullable(schema), description(name), commit.properties)
            return create_table(spark, location, new, [file], once)
        return commit_files(spark, location, schema, [file], once)


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
