from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from framework.config.model import load_config
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.table_reader import Query, Row, Value
from framework.pipeline.layer import Reading
from framework.report import queries
from framework.report.collect import collect
from framework.report.model import Column
from framework.report.summary import table_facts
from silver.layer import LAYER as SILVER

AT = datetime(2024, 3, 1, tzinfo=UTC)
ORDERS = {"source": "shop", "database": "shop", "schema": None, "table": "orders"}


class Tables:
    """A lakehouse of one table, which has applied its changes up to a batch; it notes what it is asked."""

    def __init__(self, applied: int) -> None:
        self.applied = applied
        self.asked: list[tuple[Query, dict[str, Value]]] = []

    def rows(self, query: Query, **values: Value) -> Sequence[Row]:
        self.asked.append((query, values))
        if query is queries.QUERIES["outcomes"]:
            times = {"event_time": AT, "ingested_at": AT}
            return [{**ORDERS, "kind": "row", "rows": 9, "merged": 0, "newest_batch": 3_000, **times}]
        if query is queries.QUERIES["tables"]:
            return [self.table()]
        if query is queries.BATCHES_AFTER:
            return [{**ORDERS, "kind": "row", "batch": batch} for batch in (3_000, 2_000)]
        return []

    def table(self) -> dict[str, Any]:
        state = {"state": "active", "reason": None, "replica": None, "history": None, "keys": ["id"]}
        columns = '[["id", "bigint", "BIGINT"], ["note", "string", null]]'
        applied = {"batch": self.applied, "sequence": "011.011.013.041547.010", "event_time": AT}
        return {**ORDERS, **state, "columns": columns, **applied, "changes_applied": 9, "late": 0}

    def exists(self, table: str) -> bool:
        return False

    def count(self, location: str) -> int:
        raise AssertionError(location)

    def logged_count(self, location: str) -> int | None:
        return 9

    def own_location(self, noted: str | None) -> str | None:
        return noted

    def note(self, path: str) -> str | None:
        return None


def reading(tables: Tables, folder: Path) -> Reading:
    file = folder / "mainstem.yml"
    source = "sources:\n  shop:\n    format: debezium\n    files: ./landing\n"
    file.write_text(f"pipeline: shop\nlakehouse: ./lakehouse\n{source}")
    config = load_config(file, formats=SILVER.options())
    return Reading(Lakehouse(str(folder)), config, tables)


def test_a_table_has_its_columns_and_its_position(tmp_path: Path) -> None:
    (table,) = collect(reading(Tables(3_000), tmp_path)).tables
    assert table.columns == (Column("id", "bigint"), Column("note", "string"))
    assert (table.column_count, table.position) == (2, "binlog 000003:1547")


@pytest.mark.parametrize(("applied", "first", "behind"), [(3_000, None, 0), (1_000, 1_000, 2)])
def test_batches_are_read_only_where_a_table_is_behind_and_from_there(
    tmp_path: Path, applied: int, first: int | None, behind: int
) -> None:
    tables = Tables(applied)
    report = collect(reading(tables, tmp_path))
    asked = [values["first"] for query, values in tables.asked if query is queries.BATCHES_AFTER]
    assert asked == ([] if first is None else [first])
    assert [facts.behind for facts in table_facts(report)] == [behind]
