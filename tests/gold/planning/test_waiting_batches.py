"""How many batches of silver a table has not applied, by the counts in `ops/batches`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from framework.contracts.ddl_actions import TableName
from framework.contracts.table_names import BATCHES_TABLE
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.local_reader import LocalReader
from gold.planning.table_state import State, TableState, silver_extents, waiting_batches

ITEM, LINE = TableName("shop", None, "item"), TableName("shop", None, "line")
NEWEST = datetime(2024, 3, 1, 9, 30, tzinfo=UTC)
ROWS = [
    (0, "item", "row", None),
    (1000, "item", "row", NEWEST),
    (1000, "item", "duplicate", None),
    (1000, "line", "ddl", None),
    (2000, "item", "duplicate", None),
    (2000, "line", "row", None),
    (2000, "line", "truncate", None),
    (3000, None, "heartbeat", None),
]


def reader(folder: Path) -> LocalReader:
    batches, tables, kinds, times = zip(*ROWS, strict=True)
    columns = {
        "batch": list(batches),
        "source": ["feed"] * len(ROWS),
        "database": [None if table is None else "shop" for table in tables],
        "schema": pa.nulls(len(ROWS), pa.string()),
        "table": list(tables),
        "kind": list(kinds),
        "max_event_time": pa.array(times, pa.timestamp("us", "UTC")),
    }
    lake = Lakehouse(str(folder))
    write_deltalake(lake.location(BATCHES_TABLE), pa.table(columns))
    return LocalReader(lake)


def waiting(tables: LocalReader, item: int, line: int) -> dict[str, int]:
    states = [
        TableState("feed", name, State.ACTIVE, batch=batch) for name, batch in ((ITEM, item), (LINE, line))
    ]
    found = waiting_batches(tables, states, silver_extents(tables))
    return {name.table: count for (_, name), count in found.items()}


def test_batches_with_changes_of_the_table_count_once(tmp_path: Path) -> None:
    tables = reader(tmp_path)
    assert waiting(tables, item=-1, line=-1) == {"item": 2, "line": 2}
    assert waiting(tables, item=0, line=1000) == {"item": 1, "line": 1}


def test_a_table_that_has_applied_all_its_changes_waits_for_none(tmp_path: Path) -> None:
    assert waiting(reader(tmp_path), item=1000, line=2000) == {}


def test_the_first_batch_counts_for_a_table_that_has_applied_nothing(tmp_path: Path) -> None:
    assert waiting(reader(tmp_path), item=-1, line=2000) == {"item": 2}


def test_silver_knows_the_newest_event_and_the_last_batch_with_changes(tmp_path: Path) -> None:
    found = {row["table"]: (row["newest"], row["last_batch"]) for row in silver_extents(reader(tmp_path))}
    assert found == {"item": (NEWEST, 1000), "line": (None, 2000), None: (None, None)}
