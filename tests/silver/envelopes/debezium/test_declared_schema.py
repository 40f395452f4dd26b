from __future__ import annotations

import json
from typing import Any

import pytest

from framework.contracts.events import Control, Event, RowChange
from framework.contracts.messages import RawMessage
from silver.decoding.format import Context
from silver.decoding.table_definitions import DeclaredColumns, declared_columns
from silver.formats.debezium import FORMAT, DebeziumOptions

TIME = 1709200800000
MYSQL = {
    "connector": "mysql",
    "db": "shop",
    "table": "orders",
    "file": "bin.000003",
    "pos": 484,
    "ts_ms": TIME,
}
SQL_SERVER = {
    "connector": "sqlserver",
    "db": "shop",
    "schema": "dbo",
    "table": "orders",
    "commit_lsn": "00000027:00000ac0:0002",
    "change_lsn": "00000027:00000ac0:0001",
    "event_serial_no": 1,
    "ts_ms": TIME,
}
FLAT_SQL_SERVER = {"__op": "c", "__table": "orders", "__source_ts_ms": TIME}


def event(value: dict[str, Any], declared: DeclaredColumns = (), **options: Any) -> Event:
    given = Context(
        "feed", DebeziumOptions(**options), "UTC", lambda *_: None, definition_at=lambda *_: declared
    )
    message = RawMessage("feed", "crm.shop.orders", 0, 40, TIME, None, json.dumps(value).encode(), ())
    (found,) = FORMAT.decode(message, given)
    return found


def structure(source: dict[str, Any], *columns: dict[str, Any]) -> Control:
    """What the schema-change topic says of the table."""
    table = {"primaryKeyColumnNames": [], "columns": columns}
    change = {"type": "CREATE", "id": '"shop"."dbo"."orders"', "table": table}
    found = event({"source": source, "databaseName": "shop", "ddl": None, "tableChanges": [change]})
    assert isinstance(found, Control)
    return found


def row(
    source: dict[str, Any], after: dict[str, Any], declared: DeclaredColumns, **options: Any
) -> RowChange:
    found = event({"op": "c", "before": None, "after": after, "source": source}, declared, **options)
    assert isinstance(found, RowChange)
    return found


def test_a_float_of_sql_server_has_64_bits_whatever_its_length() -> None:
    told = structure(
        SQL_SERVER, {"name": "f", "typeName": "float", "typeExpression": "float", "length": 15, "scale": None}
    )
    declared = declared_columns(told.columns)
    assert [column.type for column in told.columns.values()] == ["double"]
    assert row(SQL_SERVER, {"f": 0.1234567890123456}, declared).columns["f"].type == "double"
    flat = event({"f": 0.1234567890123456, **FLAT_SQL_SERVER}, declared)
    assert isinstance(flat, RowChange)
    assert flat.columns["f"].type == "double"


@pytest.mark.parametrize("source", [SQL_SERVER, {**SQL_SERVER, "connector": "informix"}])
def test_a_float_with_few_digits_has_32_bits_in_mysql_alone(source: dict[str, Any]) -> None:
    assert row(source, {"f": 0.5}, (("f", "float(15)"),)).columns["f"].type == "double"


def test_a_tinyint_that_the_connector_converts_to_a_boolean_stays_a_number() -> None:
    found = row(MYSQL, {"yes": True, "no": False}, (("yes", "TINYINT(1)"), ("no", "TINYINT(1) UNSIGNED")))
    assert found.after == {"yes": "1", "no": "0"}
    assert [column.type for column in found.columns.values()] == ["smallint", "smallint"]
