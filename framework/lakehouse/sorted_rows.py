"""Rows of Arrow brought together by a column of texts."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyarrow import compute

pc: Any = compute  # its types lack some functions


def rows_by(rows: pa.Table, column: str) -> tuple[pa.Table, dict[str | None, tuple[int, int]]]:
    """Sort rows by a column of texts, and find where the rows of each text are.

    Rows with the same text keep their order; those without one are last.

    Returns:
        The rows, and the place of the first row of each text with the place behind its last one, in order.
    """
    found = rows.combine_chunks()
    found = found.take(pc.sort_indices(found, [(column, "ascending")]))
    places, start = dict[str | None, tuple[int, int]](), 0
    runs = pc.run_end_encode(pa.concat_arrays(found[column].chunks)) if found.num_rows else None
    for text, end in (
        () if runs is None else zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True)
    ):
        places[text] = (start, end)
        start = end
    return found, places
