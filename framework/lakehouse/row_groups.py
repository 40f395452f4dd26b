"""Row groups of Parquet files of this machine, which Spark's tasks read themselves.

Handing rows from Spark to Python costs more than most of what Python does with them.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, groupby, pairwise
from operator import attrgetter
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyarrow import parquet


class RowGroup(NamedTuple):
    """A row group: its file, its number in it, and how many rows and uncompressed bytes it has."""

    path: str
    number: int
    rows: int
    size: int


def row_groups(files: Iterable[str], columns: Iterable[str]) -> list[RowGroup] | None:
    """The row groups of files, in the order of the files.

    None where a file cannot be read here, or lacks one of the columns.

    Args:
        files: The files, as paths or as URLs of this machine's file system.
        columns: The columns that will be read.
    """
    found, wanted = list[RowGroup](), set(columns)
    try:
        for file in files:
            path = unquote(urlsplit(file).path) if file.startswith("file:") else file
            metadata = parquet.read_metadata(path)
            if not wanted <= set(metadata.schema.to_arrow_schema().names):
                return None
            for number in range(metadata.num_row_groups):
                group = metadata.row_group(number)
                found.append(RowGroup(path, number, group.num_rows, group.total_byte_size))
    except (OSError, pa.ArrowException):
        return None
    return found


def shares_of(groups: Sequence[RowGroup], count: int) -> list[list[RowGroup]]:
    """The row groups in up to so many shares of about the same size, each of neighbours; none is empty."""
    ends = [0, *accumulate(max(group.size, 1) for group in groups)]
    places = [_nearest(ends, ends[-1] * number // count) for number in range(count + 1)]
    return [list(groups[start:end]) for start, end in pairwise(places) if start < end]


def _nearest(ends: Sequence[int], wanted: int) -> int:
    """The place of the end that is nearest to the one that is wanted; `ends` rise."""
    place = bisect.bisect_left(ends, wanted)
    is_before_nearer = place and wanted - ends[place - 1] < ends[place] - wanted
    return place - 1 if is_before_nearer else place


def read_row_groups(
    groups: Iterable[RowGroup], columns: Sequence[str], rows: int
) -> Iterator[pa.RecordBatch]:
    """These columns of row groups, in batches of at most so many rows."""
    for path, own in groupby(groups, attrgetter("path")):
        with parquet.ParquetFile(
            path, coerce_int96_timestamp_unit="us", page_checksum_verification=True
        ) as opened:
            for group in own:
                for batch in opened.iter_batches(rows, [group.number], list(columns)):
                    yield batch.select(list(columns))
