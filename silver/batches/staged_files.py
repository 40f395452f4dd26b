"""Files of decoded rows, written by the tasks that decode them."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyarrow import parquet

from silver.changes.staged_rows import STAGED

_ROWS = 20_000
"""Rows of a row group: Spark gives its tasks whole row groups to read."""
_Decoder = Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]


def into_parquet(decode: _Decoder, folder: str) -> _Decoder:
    """A function for `mapInArrow` that writes decoded rows to files in a folder that this process sees.

    Args:
        decode: The decoder (`with_summaries`).
        folder: The folder, which exists.

    Returns:
        A function of messages to rows of `file` and `summary`: one for each Arrow batch of decoded rows.
    """

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # each attempt of a task has a file of its own
        file = os.path.join(folder, f"{uuid.uuid4().hex}.parquet")
        written: list[pa.RecordBatch] = []
        writer: parquet.ParquetWriter | None = None
        try:
            for batch in decode(batches):
                if writer is None:
                    writer = parquet.ParquetWriter(file, STAGED)
                rows = pa.RecordBatch.from_arrays(batch.columns[:-1], schema=STAGED)
                writer.write_batch(rows, row_group_size=_ROWS)
                names = pa.array([file], pa.string())
                summary = batch.column("summary").slice(0, 1)
                written.append(pa.RecordBatch.from_arrays([names, summary], ["file", "summary"]))
        finally:
            if writer is not None:
                writer.close()
        yield from written  # once the file is complete

    return write
