"""The rows of `ops/epochs`, read with any reader."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from framework.contracts.epochs import EpochRow
from framework.contracts.table_names import EPOCHS_TABLE
from framework.lakehouse.table_reader import Query, TableReader
from framework.text.times import micros_of

_ROWS = Query(
    EPOCHS_TABLE,
    "SELECT * FROM {rows}",
    {
        "landed_at": "timestamp",
        "file": "string",
        "line": "bigint",
        "first_offset": "bigint",
        "first_time": "timestamp",
        "earlier_time": "timestamp",
        "earlier_offset": "bigint",
    },
)


def read_epochs(tables: TableReader) -> tuple[tuple[EpochRow, ...], int | None]:
    """The rows, the oldest first, and the time of the newest one in microseconds, None if unknown."""
    rows = sorted(tables.rows(_ROWS), key=lambda row: _plain(row["recorded_at"]) or 0)
    times = [_plain(row["recorded_at"]) for row in rows]
    return (
        tuple(EpochRow(*(_plain(row[name]) for name in EpochRow.__slots__)) for row in rows),
        None if None in times else max(times, default=None),
    )


def _plain(value: Any) -> Any:
    """The value; a time as its microseconds since 1970."""
    return micros_of(value) if isinstance(value, datetime) else value
