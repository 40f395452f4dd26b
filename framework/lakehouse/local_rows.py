"""Rows of a replica with these values, read in this process."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import reduce
from math import isnan
from operator import and_
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset, types

from framework.lakehouse.local_reader import Unreadable, open_plain
from framework.lakehouse.table_reader import in_utc


def local_row(location: str, values: Mapping[str, Any]) -> dict[str, Any] | None:
    """A row of a table with these cells; None where there is none.

    Its cells are those that `collect` gives in a session.

    Args:
        location: The table.
        values: The value of each column that is asked for; a time is in UTC and has no zone, None is null.

    Raises:
        Unreadable: Only Spark can read the table.
    """
    try:
        rows = _dataset(location)
        if not all(_is_known(field.type) for field in rows.schema):
            raise Unreadable(location)
        try:
            tests = [_test(name, value, rows.schema.field(name).type) for name, value in values.items()]
        except (OverflowError, pa.ArrowInvalid):
            return None
        found = rows.head(1, filter=reduce(and_, tests)).to_pylist()
    except Unreadable:
        raise
    except Exception as error:  # Spark says what is wrong, if anything is
        raise Unreadable(location) from error
    if not found:
        return None
    return {name: in_utc(cell) if isinstance(cell, datetime) else cell for name, cell in found[0].items()}


def _dataset(location: str) -> dataset.Dataset:
    """The rows of a table. That of `deltalake` misses rows whose files have no statistics of a column."""
    opened = open_plain(location)
    schema: Any = opened.schema().to_arrow()
    paths = pa.table(opened.get_add_actions()).column("path").to_pylist()
    return dataset.dataset(
        [str(Path(location) / unquote(str(path))) for path in paths],
        pa.schema(schema),
        format=dataset.ParquetFileFormat(coerce_int96_timestamp_unit="us"),
    )


def _is_known(kind: pa.DataType) -> bool:
    is_plain = (types.is_boolean, types.is_integer, types.is_floating, types.is_decimal, types.is_date32)
    is_text = (types.is_string, types.is_large_string, types.is_string_view)
    is_bytes = (types.is_binary, types.is_large_binary, types.is_binary_view)
    return any(test(kind) for test in (*is_plain, *is_text, *is_bytes, types.is_timestamp))


def _test(name: str, value: Any, kind: pa.DataType) -> pc.Expression:
    """Whether a cell has a value; as in Spark, NaN is one. Raises ArrowException, OverflowError."""
    field = pc.field(name)
    if value is None:
        return field.is_null()
    if isinstance(value, float) and isnan(value):
        return pc.is_nan(field)
    if isinstance(value, datetime) and types.is_timestamp(kind) and kind.tz:
        value = value.replace(tzinfo=UTC)
    return field == pa.scalar(value, kind)
