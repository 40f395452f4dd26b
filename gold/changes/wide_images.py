"""Images of wide tables as columns of text.

Spark looks a name up in a map entry by entry: taking each of a thousand columns out of an image with as
many entries costs a million comparisons for each row. From `WIDE` columns on, one pass of Arrow spreads the
image; narrow tables use Spark's own functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, StringType, StructField, StructType

WIDE = 200
_ROWS = 256


def with_texts(frame: DataFrame, image: str, names: Sequence[str], *, marked: str | None = None) -> DataFrame:
    """Adds t0…, the texts of these columns in an image, and h0…: whether the image `marked` has them.

    The text is null where the image is null or lacks the column.
    """
    if len(names) < WIDE:
        cells = [F.try_element_at(F.col(image), F.lit(name)).alias(f"t{i}") for i, name in enumerate(names)]
        has = [
            F.coalesce(F.map_contains_key(marked, F.lit(name)), F.lit(False)).alias(f"h{i}")
            for i, name in enumerate(names)
            if marked
        ]
        return frame.select("*", *cells, *has)
    texts = [StructField(f"t{i}", StringType()) for i in range(len(names))]
    marks = [StructField(f"h{i}", BooleanType()) for i in range(len(names)) if marked]
    return frame.mapInArrow(
        _spreader(image, tuple(names), marked), StructType([*frame.schema.fields, *texts, *marks])
    )


def _spreader(
    image: str, names: Sequence[str], marked: str | None
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def spread(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for start in range(0, batch.num_rows, _ROWS):
                yield _spread(batch.slice(start, _ROWS), image, names, marked)

    return spread


def _spread(batch: pa.RecordBatch, image: str, names: Sequence[str], marked: str | None) -> pa.RecordBatch:
    indexes, values = _value_indexes(batch.column(batch.schema.get_field_index(image)), names)
    columns = [values.take(pa.array(index, mask=index < 0)) for index in indexes]
    labels = [f"t{i}" for i in range(len(names))]
    if marked is not None:
        present = (
            indexes
            if marked == image
            else _value_indexes(batch.column(batch.schema.get_field_index(marked)), names)[0]
        )
        columns += [pa.array(index >= 0) for index in present]
        labels += [f"h{i}" for i in range(len(names))]
    return pa.RecordBatch.from_arrays([*batch.columns, *columns], names=[*batch.schema.names, *labels])


def _value_indexes(images: pa.Array[Any], names: Sequence[str]) -> tuple[Any, pa.Array[Any]]:
    """The index of each column of each row among the values of all images, -1 where it is missing.

    The matrix has a row for each column.
    """
    assert isinstance(images, pa.MapArray)
    offsets = images.offsets.to_numpy()
    first, last = offsets[0], offsets[-1]
    codes = (
        pc.index_in(images.keys.slice(first, last - first), value_set=pa.array(names, images.type.key_type))
        .fill_null(-1)
        .to_numpy()
    )
    lengths = np.where(pc.is_valid(images).to_numpy(zero_copy_only=False), np.diff(offsets), 0)
    rows = np.repeat(np.arange(len(images)), lengths)
    entries = (
        np.repeat(offsets[:-1] - first, lengths)
        + np.arange(lengths.sum())
        - np.repeat(np.cumsum(lengths) - lengths, lengths)
    )
    known = codes[entries] >= 0
    indexes = np.full((len(names), len(images)), -1, np.int32)
    indexes[codes[entries][known], rows[known]] = entries[known]
    return indexes, images.items.slice(first, last - first)
