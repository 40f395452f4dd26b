"""What the statistics of a table on a local file system tell in this process, without a Spark job.

They tell where its newest rows are, which are read here, where it can have no rows, and whether it is small.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.local_tables import DataFile, read_files
from framework.lakehouse.log_files import newest_commit
from framework.lakehouse.newest_tables import is_read_locally

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_Answer = TypeVar("_Answer")
_SMALL = (20_000, 16 * 1024 * 1024)
"""A table of up to so many rows, and bytes in them, is small."""


def rows_above(
    lake: Lakehouse, table: str, least: tuple[str, int], schema: StructType, most: tuple[int, int]
) -> pa.Table | None:
    """The rows of a table with a number above another, by the statistics of its files.

    Args:
        lake: The lakehouse.
        table: The table.
        least: The column of the numbers, and the number that theirs are above.
        schema: The table's columns, which the answer has.
        most: How many rows and bytes the files with such rows may have.

    Returns:
        The rows; None where Spark must read them: the files have more rows or bytes than that, or are not
        read in this process, or lack a column or their statistics.
    """
    return _told(lake, lambda: _rows_above(lake.location(table), least, schema, most), None)


def few_rows(lake: Lakehouse, table: str, schema: StructType) -> pa.Table | None:
    """All rows of a small table with these columns; None where Spark must read them, as in `rows_above`."""
    found = _told(lake, lambda: _read(_files(lake.location(table)), schema, _SMALL), None)
    return found if found is not None and found.nbytes <= _SMALL[1] else None


def files_above(lake: Lakehouse, table: str, least: tuple[str, int]) -> list[DataFile] | None:
    """The files of a table that may have rows with a number above another, by their statistics.

    Args:
        lake: The lakehouse.
        table: The table.
        least: The column of the numbers, and the number that theirs are above.

    Returns:
        The files; None where only Spark can tell.
    """
    return _told(lake, lambda: _files_above(lake.location(table), least), None)


def has_none_between(lake: Lakehouse, table: str, ends: Mapping[str, tuple[object, object]]) -> bool:
    """Whether a table surely has no row whose columns are all between these ends, both included.

    False where the statistics of its files do not show it, or are not read in this process.
    """
    return _told(lake, lambda: _has_none_between(lake.location(table), ends), False)


def _told(lake: Lakehouse, tell: Callable[[], _Answer], otherwise: _Answer) -> _Answer:
    """What this process can tell of a table; `otherwise` where it does not read the tables, or fails."""
    if lake.added or not is_read_locally(lake):
        return otherwise
    try:
        return tell()
    except Exception:  # Spark is asked then, and says what is wrong, if anything is
        return otherwise


def _has_none_between(location: str, ends: Mapping[str, tuple[object, object]]) -> bool:
    names = [f"{end}.{name}" for name in ends for end in ("min", "max")]
    actions = _statistics(location)
    if not actions.num_rows:
        return True
    files = actions.select(names).to_pylist()
    return not any(
        all(
            _may_be_between(file[f"min.{name}"], file[f"max.{name}"], *between)
            for name, between in ends.items()
        )
        for file in files
    )


def _may_be_between(lowest: Any, highest: Any, low: Any, high: Any) -> bool:
    """Whether values with these bounds may be between two ends; bounds that nobody noted are null."""
    return (lowest is None or lowest <= high) and (highest is None or highest >= low)


def _rows_above(
    location: str, least: tuple[str, int], schema: StructType, most: tuple[int, int]
) -> pa.Table | None:
    column, number = least
    rows = _read(_files_above(location, least), schema, most)
    return None if rows is None else rows.filter(pc.field(column) > number)


def _read(files: Sequence[DataFile], schema: StructType, most: tuple[int, int]) -> pa.Table | None:
    """The rows of files in these columns; None where they are more than `most`, or a file lacks a column."""
    from framework.spark.arrow_schemas import arrow_schema

    kinds = arrow_schema(schema)
    if sum(file.rows for file in files) > most[0] or sum(file.size for file in files) > most[1]:
        return None
    if not files:
        return kinds.empty_table()
    found = read_files(files, kinds.names)
    return None if found is None else found.cast(kinds)


def _files(location: str) -> list[DataFile]:
    actions = _statistics(location)
    if not actions.num_rows:
        return []
    actions = actions.select(["path", "size_bytes", "num_records"])
    return [
        DataFile(Path(location) / unquote(path), rows, size)
        for path, size, rows in zip(*(one.to_pylist() for one in actions.columns), strict=True)
    ]


def _files_above(location: str, least: tuple[str, int]) -> list[DataFile]:
    column, number = least
    actions = _statistics(location).select(["path", "size_bytes", "num_records", f"max.{column}"])
    return [
        DataFile(Path(location) / unquote(path), rows, size)
        for path, size, rows, highest in zip(*(one.to_pylist() for one in actions.columns), strict=True)
        if highest is None or highest > number
    ]


def _statistics(location: str) -> pa.Table:
    """The files of a table's newest version, a row for each, with what the log says of them.

    The log is read once a version: it has all files of the table, and several steps of a run ask about few.
    """
    commit = newest_commit(Path(location) / "_delta_log")
    if commit is None:
        raise FileNotFoundError(location)
    return _logged(location, commit)


@lru_cache(maxsize=2)
def _logged(location: str, commit: str) -> pa.Table:
    """What the log says up to its newest commit, which the text identifies (`newest_commit`)."""
    from framework.lakehouse.local_reader import open_plain  # the package takes long to load

    return pa.table(open_plain(location).get_add_actions(flatten=True))
