"""Behaviour 12 of the contract: snapshot rows of a table that has seen changes are counted,
and `status` says what to do.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from framework.contracts.table_names import BATCHES_TABLE
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.local_reader import LocalReader
from silver.operations.late_snapshots import late_snapshots

COLUMNS = ("batch", "source", "database", "schema", "table", "kind", "max_sequence", "snapshots")
COPIED, STREAMED = "011.010.orders.010.017.010", "011.011.0250"


def counted(batch: int, table: str, sequence: str | None, snapshots: int) -> tuple[object, ...]:
    return (batch, "feed", "shop", None, table, "row", sequence, snapshots)


def read(folder: Path, rows: list[tuple[object, ...]]) -> LocalReader:
    values = {name: [row[at] for row in rows] for at, name in enumerate(COLUMNS)}
    schema = pa.array(values.pop("schema"), pa.string())
    lake = Lakehouse(str(folder))
    write_deltalake(lake.location(BATCHES_TABLE), pa.table({**values, "schema": schema}))
    return LocalReader(lake)


def test_rows_of_snapshots_behind_changes_are_counted_by_table_and_epoch(tmp_path: Path) -> None:
    item = [
        counted(1000, "item", COPIED, 9),
        counted(2000, "item", STREAMED, 3),
        counted(3000, "item", COPIED, 5),
        counted(4000, "item", STREAMED, 2),
    ]
    whole = [counted(5000, "item", "012.010.orders.010.017.010", 8), counted(6000, "item", "012.011.015", 0)]
    first = [counted(1000, "line", COPIED, 4), counted(2000, "line", STREAMED, 0)]
    (late,) = late_snapshots(read(tmp_path, [*item, *whole, *first]), 0)
    assert (late["table"], late["epoch"], late["rows"]) == ("item", 1, 7)
    assert "`epoch: 2`" in late["note"]


def test_batches_before_the_first_that_counts_are_left_out(tmp_path: Path) -> None:
    tables = read(tmp_path, [counted(1000, "item", STREAMED, 0), counted(2000, "item", COPIED, 6)])
    assert [late["rows"] for late in late_snapshots(tables, 1000)] == [6]
    assert late_snapshots(tables, 2000) == []


def test_a_table_without_snapshots_has_none(tmp_path: Path) -> None:
    assert late_snapshots(read(tmp_path, [counted(1000, "item", STREAMED, 0)]), 0) == ()
