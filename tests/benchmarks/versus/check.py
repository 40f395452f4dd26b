"""Compares a table that a tool has made with the rows that it must have, cell by cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder

from tests.benchmarks.versus.feed import TYPES
from tests.framework.demo.story import Row

_ARROW = {
    "bigint": pa.int64(),
    "decimal(18,4)": pa.decimal128(18, 4),
    "timestamp_ntz": pa.timestamp("us"),
    "string": pa.string(),
}
_VALUES = {"bigint": int, "decimal(18,4)": Decimal, "timestamp_ntz": datetime.fromisoformat, "string": str}


@dataclass(frozen=True)
class Found:
    """How many rows are missing, too many or have a wrong cell, and what the columns are instead."""

    wrong: int
    types: Mapping[str, str]


def compare(table: pa.Table, rows: Mapping[int, Row]) -> Found:
    """What is wrong with the table; columns that the feed does not have are left out."""
    found: dict[int, dict[str, object]] = {}
    repeated = 0
    for row in table.select(list(TYPES)).to_pylist():
        repeated += row["id"] in found
        found[row["id"]] = row
    expected = {key: _typed(row) for key, row in rows.items()}
    differ = sum(found.get(key) != row for key, row in expected.items())
    extra = len(found.keys() - expected.keys())
    types = {
        name: str(table.schema.field(name).type)
        for name, kind in TYPES.items()
        if not _same(table.schema.field(name).type, _ARROW[kind])
    }
    return Found(differ + extra + repeated, types)


def read_delta(folder: Path) -> pa.Table:
    """All rows of a Delta table, with its deletion vectors applied."""
    batches = QueryBuilder().register("made", DeltaTable(folder)).execute("SELECT * FROM made").read_all()
    return pa.table(batches)


def read_parquet(folder: Path) -> pa.Table:
    """All rows of Parquet files in a folder."""
    return pq.read_table(folder)


def _typed(row: Row) -> dict[str, object]:
    return {name: None if row[name] is None else _VALUES[kind](row[name]) for name, kind in TYPES.items()}


def _same(found: pa.DataType, expected: pa.DataType) -> bool:
    texts = (pa.string(), pa.large_string(), pa.string_view())
    return found == expected or (found in texts and expected in texts)
