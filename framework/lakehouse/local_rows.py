"""Rows of a replica with these values, read in this process."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset, types

from framework.lakehouse.local_reader import Unreadable, open_plain
from framework.lakehouse.table_reader import in_utc

_PLAIN_SCALE = 6
"""The digits after the point up to which Spark never writes a decimal with an exponent."""


def local_row(location: str, texts: Mapping[str, str | None]) -> dict[str, Any] | None:
    """A row of a table whose cells, cast to text as Spark does it, are these; None where there is none.

    Its cells are those that `collect` gives in a session.

    Args:
        location: The table.
        texts: The text of each column that is asked for; None is null.

    Raises:
        Unreadable: Only Spark can read the table, or cast the columns.
    """
    try:
        rows = _dataset(location)
        if not all(_is_known(field.type) for field in rows.schema):
            raise Unreadable(location)
        tests = []
        for name, text in texts.items():
            value = None if text is None else _value(text, rows.schema.field(name).type)
            if text is not None and value is None:
                return None
            tests.append(pc.field(name).is_null() if value is None else pc.field(name) == value)
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


def _value(text: str, kind: pa.DataType) -> pa.Scalar[Any] | None:
    """The value that Spark writes as this text; None where there is none. Raises Unreadable."""
    try:
        value, written = _parsed(text, kind)
        return pa.scalar(value, kind) if written == text else None
    except (ValueError, ArithmeticError, pa.ArrowException):
        return None


def _parsed(text: str, kind: pa.DataType) -> tuple[Any, str]:
    """The value in a text, and how Spark writes it. Raises ValueError, ArithmeticError, Unreadable."""
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return text, text
    if types.is_integer(kind):
        return int(text), str(int(text))
    if types.is_boolean(kind):
        return text == "true", "true" if text == "true" else "false"
    if types.is_date32(kind):
        return date.fromisoformat(text), date.fromisoformat(text).isoformat()
    if types.is_decimal(kind) and kind.scale <= _PLAIN_SCALE:
        if not re.fullmatch(r"-?\d+(\.\d+)?", text, re.ASCII) or (text[0] == "-" and not Decimal(text)):
            raise ValueError(text)
        return Decimal(text), format(Decimal(text), "f") if len(text.partition(".")[2]) == kind.scale else ""
    raise Unreadable(str(kind))
