"""Answers queries with Spark: on every platform, and for every table that Delta can read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from framework.lakehouse.delta_row_count import rows_by_log
from framework.lakehouse.lakehouse import Lakehouse, is_table, local_table, read_table
from framework.lakehouse.small_files import read_note
from framework.lakehouse.table_reader import Query, Row, Value, checked

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class SparkReader:
    """Reads with a session. Rows that a plan expects in a table (`Lakehouse.added`) are read as well."""

    spark: SparkSession
    lake: Lakehouse

    def exists(self, table: str) -> bool:
        """See `TableReader`."""
        return self.lake.exists(self.spark, table)

    def count(self, location: str) -> int:
        """See `TableReader`."""
        return read_table(self.spark, location).count() if is_table(self.spark, location) else 0

    def logged_count(self, location: str) -> int | None:
        """See `TableReader`."""
        path = local_table(location)
        return None if path is None else rows_by_log(path)

    def rows(self, query: Query, **values: Value) -> Sequence[Row]:
        """See `TableReader`."""
        if not self.exists(query.table):
            return []
        query, plain = checked(query, values)
        arguments: dict[str, Any] = {"rows": self._table(query), **plain}
        frame = self.spark.sql(query.sql, **arguments)
        return _rows_of(_with_starts(frame, query).toArrow())

    def own_location(self, noted: str | None) -> str | None:
        """See `TableReader`."""
        return self.lake.own_location(noted)

    def note(self, path: str) -> str | None:
        """See `TableReader`."""
        return read_note(self.spark, path)

    def _table(self, query: Query) -> DataFrame:
        from pyspark.sql import functions as F

        frame = self.lake.read(self.spark, query.table)
        lacking = {
            name: F.lit(None).cast(kind) for name, kind in query.lacking.items() if name not in frame.columns
        }
        return frame.withColumns(lacking) if lacking else frame  # Spark Connect refuses to add no column


def _rows_of(answer: pa.Table) -> Sequence[Row]:
    """The rows of an answer, with plain values."""
    from pyarrow import types

    cells: dict[str, list[Any]] = {}
    for name in answer.column_names:
        column = answer.column(name)
        is_map = types.is_map(column.type)
        cells[name] = [dict(cell) if is_map and cell is not None else cell for cell in column.to_pylist()]
    return [dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True)]


def _with_starts(frame: DataFrame, query: Query) -> DataFrame:
    from pyspark.sql import functions as F

    if not query.starts:
        return frame
    lengths = {f"{name}_bytes": F.length(name) for name in query.starts}
    starts = {name: F.substring(name, 1, length) for name, length in query.starts.items()}
    return frame.withColumns(lengths).withColumns(starts)
