"""Rows of Arrow, sorted by columns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyarrow import compute

pc: Any = compute  # its types lack some functions


def sorted_by(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The rows in one piece, sorted by these columns; nulls are last, and equal rows keep their order."""
    found = rows.combine_chunks()
    return found.take(pc.sort_indices(found, [(column, "ascending") for column in columns]))


def rows_by(rows: pa.Table, column: str) -> tuple[pa.Table, dict[str | None, tuple[int, int]]]:
    """Sort rows by a column of texts, and find where the rows of each text are.

    Returns:
        The rows, and the place of the first row of each text with the place behind its last one, in order.
    """
    found = sorted_by(rows, [column])
    places = dict[str | None, tuple[int, int]]()
    if found.num_rows:
        runs = pc.run_end_encode(pa.concat_arrays(found[column].chunks))
        ends = runs.run_ends.to_pylist()
        places = dict(zip(runs.values.to_pylist(), pairwise([0, *ends]), strict=True))
    return found, places
