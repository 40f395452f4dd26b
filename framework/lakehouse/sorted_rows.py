"""Rows of Arrow, sorted by columns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import pyarrow as pa
from pyarrow import compute

pc: Any = compute  # its types lack some functions


def sorted_by(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The rows in one piece, sorted by these columns; nulls are last, and equal rows keep their order."""
    found = rows.combine_chunks()
    return found.take(pc.sort_indices(found, [(column, "ascending") for column in columns]))


def rows_by(
    rows: pa.Table, columns: Sequence[str]
) -> tuple[pa.Table, dict[tuple[Any, ...], tuple[int, int]]]:
    """Sort rows by columns of texts, and find where the rows with the same texts are.

    Returns:
        The rows, and for the texts of these columns the place of the first row that has them with the place
        behind the last one, in order.
    """
    found = sorted_by(rows, columns)
    counts = sorted_by(found.group_by(list(columns)).aggregate([([], "count_all")]), columns)
    ends = accumulate(counts["count_all"].to_pylist(), initial=0)
    texts = zip(*(counts[column].to_pylist() for column in columns), strict=True)
    return found, dict(zip(texts, pairwise(ends), strict=True))
