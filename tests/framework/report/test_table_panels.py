from __future__ import annotations

from dataclasses import replace

import pytest

from framework.report.model import Column, OutcomeCount, Table, TableKey
from framework.report.table_panels import MOST_PANELS, MOST_TABLES, shown_tables, trace_command
from tests.framework.report.reports import ago, busy, check, great, harmful, nothing

ORDERS = TableKey("orders", "shop", None, "orders")


def test_a_panel_has_what_concerns_its_table_alone() -> None:
    panel = next(panel for panel in shown_tables(busy()).panels if panel.anchor == "table-shop.orders")
    assert [column.name for column in panel.columns] == ["id", "placed_at", "gift_note"]
    assert [found.rule for found in panel.passed] == ["not_null(id)", "unique(id)"]
    assert panel.failed == ()
    assert [(run.result.inserted, run.result.updated) for run in panel.runs] == [(40, 12)] * 5
    assert [change.what for change in panel.schema_changes] == [
        "column gift_note string added",
        "column gift_note varchar added",
    ]
    assert [bad.column for bad in panel.bad_values] == ["placed_at"]
    assert panel.trend is not None
    assert (panel.trend.newest, len(panel.trend.bars)) == ("55", 20)


def test_a_check_is_in_the_panel_of_its_source_s_table() -> None:
    failing = {panel.anchor: len(panel.failed) for panel in shown_tables(busy()).panels}
    assert failing["table-shop.order_line"] == 1
    assert failing["table-crm.public.customer"] == 1
    assert failing["table-shop.orders"] == 0


def test_a_table_that_two_sources_have_has_two_anchors() -> None:
    tables = (Table(ORDERS, "active"), Table(replace(ORDERS, source="copy"), "active"))
    anchors = [panel.anchor for panel in shown_tables(replace(nothing(), tables=tables)).panels]
    assert anchors == ["table-copy-shop.orders", "table-orders-shop.orders"]


def test_every_panel_has_an_anchor_of_its_own_whatever_the_names() -> None:
    anchors = [panel.anchor for panel in shown_tables(harmful()).panels]
    assert len(set(anchors)) == len(anchors) == 12
    assert all(anchor.startswith("table-") and " " not in anchor and '"' not in anchor for anchor in anchors)


@pytest.mark.parametrize(
    ("state", "behind"), [("parked", ()), ("active", (OutcomeCount(ORDERS, "row", 1, batches=(9,)),))]
)
def test_what_needs_attention_is_never_left_out(state: str, behind: tuple[OutcomeCount, ...]) -> None:
    healthy = replace(great(MOST_TABLES + 5, 2), bad_values=())
    ill = Table(ORDERS, state, event_time=ago(days=900))
    report = replace(healthy, tables=(*healthy.tables, ill), outcomes=(*healthy.outcomes, *behind))
    shown = shown_tables(report)
    assert (len(shown.tables), len(shown.panels), shown.more) == (MOST_TABLES, MOST_PANELS, 6)
    assert any(panel.anchor == "table-shop.orders" for panel in shown.panels)


def test_a_wide_table_shows_its_first_columns() -> None:
    columns = tuple(Column(f"c{at}", "string") for at in range(1_000))
    wide = replace(nothing(), tables=(Table(ORDERS, "active", column_count=1_000, columns=columns),))
    (panel,) = shown_tables(wide).panels
    assert (len(panel.columns), panel.more_columns) == (100, 900)


def test_the_command_traces_a_row_that_fails_a_check() -> None:
    table = Table(TableKey("orders", "shop", None, "order_line"), "active", keys=("order_id", "line_no"))
    failing = check("shop.order_line", "r", False, keys=("order_id=9 17, line_no=$1",))
    assert trace_command(table, [failing]) == "mainstem trace shop.order_line 'order_id=9 17' 'line_no=$1'"
    assert trace_command(table, [check("shop.order_line", "r", keys=("order_id=1, line_no=1",))]) == (
        "mainstem trace shop.order_line order_id=VALUE line_no=VALUE"
    )


def test_null_in_a_key_is_told_from_the_text_null() -> None:
    """In a column of texts it may be either."""
    columns = (Column("a", "bigint"), Column("b", "string"), Column("c", "date"))
    table = Table(ORDERS, "active", keys=("a", "b", "c"), columns=columns)
    failing = check("shop.orders", "r", False, keys=("a=null, b=null, c=null",))
    assert trace_command(table, [failing]) == "mainstem trace shop.orders b=null --null a --null c"
    plain = replace(table, columns=())
    assert trace_command(plain, [failing]) == "mainstem trace shop.orders a=null b=null c=null"


def test_a_table_without_a_key_is_traced_by_a_column() -> None:
    assert trace_command(Table(ORDERS, "append_only")) is None
    table = Table(ORDERS, "append_only", columns=(Column("at", "date"), Column("what", "string")))
    assert trace_command(table) == "mainstem trace shop.orders at=VALUE"
