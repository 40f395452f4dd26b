"""Files of decoded rows, written by the tasks that decode them.

They have the columns of `silver/changes`, so that a batch that is committed as it was decoded needs no copy:
its files become files of that table. What decoded rows have beside these columns is in columns of its own.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from framework.contracts.table_schemas import CHANGES
from silver.changes.staged_rows import STAGED

_OWN = {
    "position": T.StringType(),
    "columns": T.StringType(),
    "block": T.LongType(),
    "evidence": T.StringType(),
    "restart": T.IntegerType(),
    "run": T.LongType(),
    "committed": T.StringType(),
    "earliest": T.StringType(),
}
"""What decoded rows have beside `silver/changes`, and `position`, of which that table has only some."""


def _own(name: str) -> str:
    return f"_staged_{name}"


_BATCH: Any = pa.field("batch", pa.int64())
_FILED = pa.schema(
    [
        *(_BATCH if name == "batch" else STAGED.field(name) for name in CHANGES.names),
        *(STAGED.field(name).with_name(_own(name)) for name in _OWN),
    ]
)
"""The columns of a file."""
_ROWS = 20_000
"""Rows of a row group: Spark gives its tasks whole row groups to read."""
_Decoder = Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]


def into_parquet(decode: _Decoder, folder: str, number: int) -> _Decoder:
    """A function for `mapInArrow` that writes decoded rows to files in a folder that this process sees.

    Args:
        decode: The decoder (`with_summaries`).
        folder: The folder, which exists.
        number: The number of the batch.

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
                    # times as Spark writes them: readers of several files need not convert
                    writer = parquet.ParquetWriter(file, _FILED, use_deprecated_int96_timestamps=True)
                writer.write_batch(_filed(batch, number), row_group_size=_ROWS)
                names = pa.array([file], pa.string())
                summary = batch.column("summary").slice(0, 1)
                written.append(pa.RecordBatch.from_arrays([names, summary], ["file", "summary"]))
        finally:
            if writer is not None:
                writer.close()
        yield from written  # once the file is complete

    return write


def _filed(batch: pa.RecordBatch, number: int) -> pa.RecordBatch:
    """Decoded rows (STAGED and more) with the columns of a file."""
    count = batch.num_rows
    is_in_partition = pc.is_valid(batch.column("block"))
    made = {
        "batch": pa.repeat(pa.scalar(number, pa.int64()), count),
        "position": pc.if_else(is_in_partition, batch.column("position"), pa.scalar(None, pa.string())),
    }
    columns = [made[name] if name in made else batch.column(name) for name in CHANGES.names]
    return pa.RecordBatch.from_arrays([*columns, *(batch.column(name) for name in _OWN)], schema=_FILED)


def read_staged(spark: SparkSession, files: Iterable[str]) -> DataFrame:
    """The decoded rows (STAGED) of files."""
    own = [T.StructField(_own(name), kind) for name, kind in _OWN.items()]
    rows = spark.read.schema(T.StructType([*CHANGES, *own])).parquet(*files)
    return rows.select(*(F.col(_own(n)).alias(n) if n in _OWN else F.col(f"`{n}`") for n in STAGED.names))
