"""Row groups of Parquet files of this machine, which Spark's tasks read themselves.

Handing rows from Spark to Python costs more than most of what Python does with them.
"""

from __future__ import annotations

import bisect
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate, groupby, pairwise
from operator import attrgetter
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.compute as pc
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


def rows_with_texts(files: Iterable[str], column: str, texts: Collection[str]) -> Iterator[pa.Table]:
    """The rows of files in which a column has one of these texts.

    Row groups whose statistics show that they have no such row are left out; of the others the column is read
    first.
    """
    wanted, ordered = pa.array(texts, pa.string()), sorted(texts)
    for path in files:
        with parquet.ParquetFile(
            path, coerce_int96_timestamp_unit="us", page_checksum_verification=True
        ) as opened:
            for number in range(opened.num_row_groups):
                if not _may_have(opened.metadata.row_group(number), column, ordered):
                    continue
                is_wanted = pc.is_in(opened.read_row_group(number, [column]).column(column), wanted)
                if pc.any(is_wanted).as_py():
                    yield opened.read_row_group(number).filter(is_wanted)


def _may_have(group: Any, column: str, texts: Sequence[str]) -> bool:
    """Whether a row group may have one of these texts, which are in order, in a column."""
    for place in range(group.num_columns):
        chunk = group.column(place)
        if chunk.path_in_schema == column and chunk.statistics is not None and chunk.statistics.has_min_max:
            first = bisect.bisect_left(texts, chunk.statistics.min)
            return first < len(texts) and texts[first] <= chunk.statistics.max
    return True
