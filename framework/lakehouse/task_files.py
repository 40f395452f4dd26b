"""Parquet files that tasks write into a folder of this machine, and how far they have come.

Such files become files of a table without a copy (`framework.lakehouse.file_commits`).
"""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import parquet

from framework.lakehouse.small_files import is_local
from framework.spark.session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COUNTED = ".done"


def is_shared(spark: SparkSession, folder: str) -> bool:
    """Whether the tasks of Spark and this process see the same folder."""
    if is_connect(spark) or not is_local(folder):
        return False
    return str(spark.conf.get("spark.master", "")).startswith("local")


class TaskFile:
    """A Parquet file that begins with its first row, used as a context.

    Each attempt of a task has files of its own: the name of a file is new.

    Attributes:
        path: Where the file is; None before its first row.
        rows: How many rows it has.
    """

    def __init__(self, folder: str, schema: pa.Schema, dictionaries: Any, group: tuple[int, int]) -> None:
        """Begins nothing yet.

        Args:
            folder: The folder, which exists.
            schema: The columns.
            dictionaries: A list of the columns with a dictionary, whose values repeat.
            group: How many rows, and about how many bytes of them, a row group has: Spark gives its tasks
                whole row groups to read.
        """
        self._folder, self._schema, self._dictionaries = folder, schema, dictionaries
        self._most_rows, self._most_bytes = group
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = self._waiting_bytes = 0  # kept: a task of many small files has many batches
        self._writer: parquet.ParquetWriter | None = None
        self.path: str | None = None
        self.rows = 0

    def __enter__(self) -> TaskFile:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._write_group()
        if self._writer is not None:
            self._writer.close()

    def write(self, rows: pa.RecordBatch) -> None:
        """Append rows."""
        if not rows.num_rows:
            return
        if self.path is None:
            self.path = os.path.join(self._folder, f"{uuid.uuid4().hex}.parquet")
        self.rows += rows.num_rows
        self._waiting.append(rows)
        self._waiting_rows += rows.num_rows
        self._waiting_bytes += rows.nbytes
        if self._waiting_rows >= self._most_rows or self._waiting_bytes >= self._most_bytes:
            self._write_group()

    def _write_group(self) -> None:
        if not self._waiting:
            return
        assert self.path is not None
        if self._writer is None:
            self._writer = parquet.ParquetWriter(self.path, self._schema, use_dictionary=self._dictionaries)
        self._writer.write_table(pa.Table.from_batches(self._waiting, self._schema), self._most_rows)
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0


class TaskCounter:
    """A file with the number that a task has reached so far, for the display of progress."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, f"{uuid.uuid4().hex}{_COUNTED}")
        self._count = 0

    def add(self, count: int) -> None:
        """Count more."""
        self._count += count
        with suppress(OSError):  # the folder is gone where the work has failed
            Path(self._path).write_text(str(self._count), encoding="ascii")


def counted(folder: str) -> int:
    """What the counters of tasks in this folder show together, about; 0 where there are none."""
    total = 0
    for file in Path(folder).glob(f"*{_COUNTED}"):
        with suppress(OSError, ValueError):  # a file that is just written
            total += int(file.read_text(encoding="ascii"))
    return total
