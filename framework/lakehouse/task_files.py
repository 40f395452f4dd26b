"""Parquet files that tasks write into a folder of this machine, and how far they have come.

Such files become files of a table without a copy (`framework.lakehouse.file_commits`).
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from framework.lakehouse.small_files import is_local
from framework.lakehouse.sorted_rows import rows_by
from framework.spark.session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COUNTED = ".done"
_SORTED_GROUPS = 10
"""At most so many times the rows of a row group are sorted together."""
_FEW_ROWS = 2_000
"""With fewer rows a row group costs more to write and to find than it saves a reader."""


def is_shared(spark: SparkSession, folder: str) -> bool:
    """Whether the tasks of Spark and this process see the same folder."""
    if is_connect(spark) or not is_local(folder):
        return False
    return str(spark.conf.get("spark.master", "")).startswith("local")


def local_cores(spark: SparkSession) -> int:
    """The cores on which Spark's tasks run, where they run on this machine."""
    named = re.match(r"local\[(\d+)", str(spark.conf.get("spark.master", "")))
    return int(named[1]) if named else os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class RowGroups:
    """The row groups of a file: Spark gives its tasks whole ones to read, and skips those it needs no row of.

    Attributes:
        rows: How many rows one has.
        bytes: About how many bytes of rows are written at once.
        by: The column of texts by which rows are brought together, where they differ in it: about so many
            bytes of rows are sorted by it, and a group has the rows of one text, or of some with few rows.
    """

    rows: int
    bytes: int
    by: str | None = None


class TaskFile:
    """A Parquet file that begins with its first row, used as a context.

    Each attempt of a task has files of its own: the name of a file is new.

    Attributes:
        path: Where the file is; None before its first row.
        rows: How many rows it has.
    """

    def __init__(self, folder: str, schema: pa.Schema, dictionaries: Any, groups: RowGroups) -> None:
        """Begins nothing yet.

        Args:
            folder: The folder, which exists.
            schema: The columns.
            dictionaries: A list of the columns with a dictionary, whose values repeat.
            groups: Its row groups.
        """
        self._folder, self._schema, self._dictionaries = folder, schema, dictionaries
        self._groups = groups
        self._waiting: list[pa.RecordBatch] = []
        self._texts: set[Any] = set()
        self._waiting_rows = self._waiting_bytes = 0  # kept: a task of many small files has many batches
        self._writer: parquet.ParquetWriter | None = None
        self.path: str | None = None
        self.rows = 0

    def __enter__(self) -> TaskFile:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._write_waiting()
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
        if self._groups.by is not None:
            self._texts.update(pc.unique(rows.column(self._groups.by)).to_pylist())
        most_rows = self._groups.rows * (_SORTED_GROUPS if len(self._texts) > 1 else 1)
        if self._waiting_rows >= most_rows or self._waiting_bytes >= self._groups.bytes:
            self._write_waiting()

    def _write_waiting(self) -> None:
        if not self._waiting:
            return
        assert self.path is not None
        if self._writer is None:
            self._writer = parquet.ParquetWriter(
                self.path, self._schema, use_dictionary=self._dictionaries, write_page_checksum=True
            )
        rows, by = pa.Table.from_batches(self._waiting, self._schema), self._groups.by
        for part in [rows] if by is None or len(self._texts) < 2 else _brought_together(rows, by):
            self._writer.write_table(part, self._groups.rows)
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0
        self._texts = set()


def _brought_together(rows: pa.Table, by: str) -> Iterator[pa.Table]:
    """The rows by a column, in parts: one for each text, or for some with few rows together."""
    table, places = rows_by(rows, [by])
    start = end = 0
    for first, behind in places.values():
        if behind - first >= _FEW_ROWS and first > start:
            yield table.slice(start, first - start)
            start = first
        end = behind
        if end - start >= _FEW_ROWS:
            yield table.slice(start, end - start)
            start = end
    if end > start:
        yield table.slice(start, end - start)


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
