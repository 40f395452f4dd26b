"""The files that Spark reads for the rows of a batch, where this process can read them too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from framework.lakehouse.lakehouse import Lakehouse, local_log
from framework.lakehouse.local_tables import local_table
from framework.lakehouse.log_files import newest_version
from framework.spark.session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MOST_FILES = 500
"""Spark finds the rows of more files faster than this process asks for their names."""
_SCAN = "org.apache.spark.sql.execution.datasources.FileScanRDD"


def scanned_files(lake: Lakehouse, table: str, rows: DataFrame) -> list[str] | None:
    """The files that are read for the rows of a batch of a stream, as sorted URLs.

    None where that is not known: on Spark Connect, with deletion vectors or partitions in the table, with
    parts of files, with very many files, or where Spark does more than read files.

    Args:
        lake: The lakehouse.
        table: The table whose rows the stream reads.
        rows: The batch, as `foreachBatch` hands it over. Delta leaves no row of its files out, but for
            deletion vectors.
    """
    if lake.local_root is None or is_connect(rows.sparkSession):
        return None
    folder = local_log(lake.location(table))
    if folder is None or local_table(lake.location(table), newest_version(folder)) is None:
        return None
    try:
        plan: Any = rows._jdf
        scan = plan.queryExecution().analyzed().rdd()
        while scan.getClass().getName() != _SCAN:
            (scan,) = (dependency.rdd() for dependency in _each(scan.dependencies()))
        return _whole_files(scan)
    except Exception:  # a plan of another kind, or of another release of Spark
        return None


def _whole_files(scan: Any) -> list[str] | None:
    """The files of a scan; None where it reads a file in part."""
    ends: dict[str, list[tuple[int, int, int]]] = {}
    for partition in _each(scan.filePartitions()):
        for file in partition.files():
            parts = ends.setdefault(file.filePath().toString(), [])
            parts.append((file.start(), file.length(), file.fileSize()))
            if len(ends) > _MOST_FILES:
                return None
    are_whole = all(map(_are_whole, ends.values()))
    return sorted(ends) if are_whole else None


def _are_whole(parts: Sequence[tuple[int, int, int]]) -> bool:
    """Whether these parts of a file (start, length and size of the file) are all of it, each once."""
    starts = {start for start, _, _ in parts}
    return len(starts) == len(parts) and sum(length for _, length, _ in parts) == parts[0][2]


def _each(sequence: Any) -> Iterator[Any]:
    """The items of a sequence of Scala."""
    items = sequence.iterator()
    while items.hasNext():
        yield items.next()
