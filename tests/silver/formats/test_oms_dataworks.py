from __future__ import annotations

import json
from typing import Any

import pytest

from framework.contracts.ddl_actions import NoEffect
from framework.contracts.events import Control, ControlKind
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.changes.ddl_events import statement_events
from silver.decoding.format import Context, Options
from silver.formats.oms_dataworks import FORMAT

CONTEXT = Context("feed", Options(), "UTC", lambda database, schema, table: None)


def control(op: str, ddl: dict[str, Any] | None, table: str | None = None) -> Control:
    source = {"dbType": "ob_mysql", "dbName": "shop", "schema": None, "table": table}
    payload = {"op": op, "timestamp": {"eventTime": 1647581000000}, "ddl": ddl, "scn": "null"}
    value = json.dumps({"version": "2.0", "schema": {"source": source}, "payload": payload}).encode()
    (event,) = FORMAT.decode(RawMessage("feed", "orders", 0, 0, None, None, value), CONTEXT)
    assert isinstance(event, Control)
    return event


@pytest.mark.parametrize("table", [None, ""])
def test_the_statement_may_name_the_table_that_a_truncate_empties(table: str | None) -> None:
    event = control("TRUNCATE", {"text": "truncate table orders"}, table)
    (found,) = statement_events(event, FORMAT)
    assert (found.kind, found.database, found.table) == (ControlKind.TRUNCATE, "shop", "orders")


@pytest.mark.parametrize("ddl", [None, {"text": None}, {"text": ""}, {"text": "delete from orders"}])
def test_a_truncate_of_which_nothing_names_the_table_is_quarantined(ddl: dict[str, Any] | None) -> None:
    with pytest.raises(Malformed) as caught:
        control("TRUNCATE", ddl)
    assert caught.value.reason is Reason.MISSING_TABLE


def test_a_change_of_rows_without_its_text_changes_no_table() -> None:
    (found,) = statement_events(control("QUERY", None, "orders"), FORMAT)
    assert (found.kind, found.table, found.actions) == (ControlKind.DDL, "orders", (NoEffect("query"),))
