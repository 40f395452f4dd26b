from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from framework.config.model import load_config
from framework.contracts.table_names import BATCHES_TABLE
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.table_reader import Query, Row, Value
from framework.pipeline.bad_cells import BAD_CELLS
from framework.pipeline.layer import Reading
from framework.report import queries
from framework.report.collect import collect
from framework.report.html_page import html
from framework.report.model import CheckCount, Column
from framework.report.summary import table_facts, totals
from framework.report.table_panels import shown_tables
from silver.layer import LAYER as SILVER
from tests.silver.operations.test_new_outcomes import Judged

AT = datetime(2024, 3, 1, tzinfo=UTC)
ORDERS = {"source": "shop", "database": "shop", "schema": None, "table": "orders"}


class Tables:
    """A lakehouse of one table, which has applied its changes up to a batch; it notes what it is asked."""

    def __init__(self, applied: int) -> None:
        self.applied = applied
        self.state, self.checks = "active", list[Row]()
        self.counted_from = 0
        self.answers = dict[str, Sequence[Row]]()
        self.asked: list[tuple[Query, dict[str, Value]]] = []

    def rows(self, query: Query, **values: Value) -> Sequence[Row]:
        self.asked.append((query, values))
        if query.sql in self.answers:
            return self.answers[query.sql]
        if query is queries.QUERIES["outcomes"]:
            times = {"event_time": AT, "ingested_at": AT}
            return [{**ORDERS, "kind": "row", "rows": 9, "merged": 0, "newest_batch": 3_000, **times}]
        if query is queries.QUERIES["tables"]:
            return [self.table()]
        if query is queries.QUERIES["checks"]:
            return self.checks
        if query is queries.BATCHES_AFTER:
            return [{**ORDERS, "kind": "row", "batch": batch} for batch in (3_000, 2_000)]
        return []

    def table(self) -> dict[str, Any]:
        state = {"state": self.state, "reason": None, "replica": None, "history": None, "keys": ["id"]}
        columns = '[["id", "bigint", "BIGINT"], ["note", "string", null]]'
        applied = {"batch": self.applied, "sequence": "011.011.013.041547.010", "event_time": AT}
        return {**ORDERS, **state, "columns": columns, **applied, "changes_applied": 9, "late": 0}

    def exists(self, table: str) -> bool:
        return bool(self.checks)

    def count(self, location: str) -> int:
        raise AssertionError(location)

    def logged_count(self, location: str) -> int | None:
        return 9

    def own_location(self, noted: str | None) -> str | None:
        return noted

    def note(self, path: str) -> str | None:
        assert path.endswith("/silver.generation")
        return f'{{"counted_from": {self.counted_from}}}'


def reading(tables: Tables, folder: Path, more: str = "") -> Reading:
    file = folder / "mainstem.yml"
    source = "sources:\n  shop:\n    format: debezium\n    files: ./landing\n"
    file.write_text(f"pipeline: shop\nlakehouse: ./lakehouse\n{source}{more}")
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


def test_batches_that_silver_has_lost_and_read_again_do_not_count(tmp_path: Path) -> None:
    tables = Tables(1_000)
    tables.counted_from = 2
    collect(reading(tables, tmp_path))
    asked = {query.sql: values for query, values in tables.asked if query.table == BATCHES_TABLE}
    assert asked == {
        queries.QUERIES["outcomes"].sql: {"first": 2_000},
        queries.QUERIES["batches"].sql: {"first": 2_000},
        queries.BATCHES_AFTER.sql: {"first": 1_999},
    }
    for name in queries.COUNTED:
        assert "`batch` >= {first}" in queries.QUERIES[name].sql


def failed(layer: str, **place: str | None) -> Row:
    found = Judged.result("rule", success=False, layer=layer)
    return {field.name: getattr(found, field.name) for field in fields(found)} | dict.fromkeys(ORDERS) | place


OF_ORDERS = failed("gold", **ORDERS)
OF_ALL = failed("silver", table="changes")


@pytest.mark.parametrize(
    ("state", "more", "check", "is_shown"),
    [
        ("active", "", OF_ORDERS, True),
        ("parked", "", OF_ORDERS, True),
        ("dropped", "", OF_ORDERS, False),
        ("active", "tables: [{match: shop.orders, exclude: true}]\n", OF_ORDERS, False),
        ("active", "", failed("gold", **{**ORDERS, "source": "gone"}), False),
        ("active", "", failed("gold", **{**ORDERS, "table": "gone"}), False),
        ("active", "", failed("source", source="shop"), True),
        ("active", "", failed("source", source="gone"), False),
        ("dropped", "", OF_ALL, True),
        ("active", "quality: false\n", OF_ALL, False),
    ],
)
def test_a_check_of_what_is_not_judged_any_more_is_left_out(
    tmp_path: Path, state: str, more: str, check: Row, is_shown: bool
) -> None:
    tables = Tables(3_000)
    tables.state, tables.checks = state, [check]
    report = collect(reading(tables, tmp_path, more))
    assert report.checks is not None
    assert len(report.checks) == is_shown


def counted(check: Row, success: bool | None, rows: int) -> Row:
    names = [field.name for field in fields(CheckCount)][:-1]
    return {**{name: check[name] for name in names}, "success": success, "rows": rows}


def test_totals_count_what_the_lists_leave_out(tmp_path: Path) -> None:
    tables, gone = Tables(3_000), failed("gold", **{**ORDERS, "table": "gone"})
    passed = {**OF_ORDERS, "success": True}
    tables.checks = [OF_ORDERS, *[passed] * (queries.MAX_CHECKS - 1)]
    tables.answers[queries.CHECK_COUNTS.sql] = [
        counted(OF_ORDERS, success=False, rows=3),
        counted(OF_ORDERS, success=True, rows=9_000),
        counted(OF_ALL, success=None, rows=1),
        counted(gone, success=False, rows=7),
    ]
    listed = {**ORDERS, "column": "a", "reason": "not_a_number", "rows": 2, "text": "x", "change_id": "c"}
    tables.answers[queries.QUERIES["bad_values"].sql] = [listed] * queries.MAX_BAD_VALUES
    tables.answers[BAD_CELLS.sql] = [{**ORDERS, "cells": 1_010}]
    report = collect(reading(tables, tmp_path))
    sums = totals(report)
    assert (sums.checks_failed, sums.checks_passed, sums.checks_unjudged) == (3, 9_000, 1)
    assert sums.bad_values == 1_010
    assert [facts.bad_values for facts in table_facts(report)] == [1_010]
    (panel,) = shown_tables(report).panels
    assert (len(panel.failed), panel.more_failed) == (1, 2)
    assert len(panel.passed) + panel.more_passed == 9_000
    page = html(report)
    assert "not in the first 5,000 of the report" in page
    assert "and 10 values of other columns and reasons" in page


def test_what_is_not_left_out_is_not_counted_again(tmp_path: Path) -> None:
    tables = Tables(3_000)
    tables.checks = [OF_ORDERS]
    report = collect(reading(tables, tmp_path))
    assert (report.more_checks, report.more_bad_values) == ((), ())
    asked = {query.sql for query, _ in tables.asked}
    assert not asked & {queries.CHECK_COUNTS.sql, BAD_CELLS.sql}
    assert queries.QUERIES["checks"].sql.endswith(f"LIMIT {queries.MAX_CHECKS}")
    assert queries.QUERIES["bad_values"].sql.endswith(f"LIMIT {queries.MAX_BAD_VALUES}")
