from __future__ import annotations

import json
from typing import Any

import pytest

from framework.contracts.events import Control, Event, RowChange
from framework.contracts.messages import RawMessage
from silver.decoding.encoding_modes import ModeState
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
ORACLE = {
    "connector": "oracle",
    "db": "shop",
    "schema": "CRM",
    "table": "ORDERS",
    "scn": "2122184",
    "commit_scn": "2122185",
    "ts_ms": TIME,
}
BASE64 = {"decimals": ModeState(frozenset({"base64"}))}
FLAT_SQL_SERVER = {"__op": "c", "__table": "orders", "__source_ts_ms": TIME}


def event(value: dict[str, Any], declared: DeclaredColumns = ()) -> Event:
    given = Context(
        "feed", DebeziumOptions(), "UTC", lambda *_: None, definition_at=lambda *_: declared, modes=BASE64
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
    found = event({"op": "c", "before": None, "after": after, "source": source}, declared)
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


@pytest.mark.parametrize(
    ("source", "declared", "cell", "expected"),
    [
        (ORACLE, "NUMBER(10,2)", "AcI=", ("decimal(10,2)", "4.50")),
        (ORACLE, "NUMBER(3,5)", "AcI=", ("decimal(5,5)", "0.00450")),
        (ORACLE, "NUMBER(9,0)", 450, ("decimal(9,0)", "450")),
        (ORACLE, "NUMBER(1,0)", True, ("decimal(1,0)", "1")),
        (ORACLE, "NUMBER(10,2)", {"scale": 1, "value": "AcI="}, ("decimal(10,2)", "45.0")),
        (SQL_SERVER, "money(19,4)", "AcI=", ("decimal(19,4)", "0.0450")),
        (SQL_SERVER, "money", "AcI=", ("decimal(19,4)", "0.0450")),
        (SQL_SERVER, "smallmoney", "AcI=", ("decimal(10,4)", "0.0450")),
        ({**SQL_SERVER, "connector": "informix"}, "money(16,2)", "AcI=", ("decimal(16,2)", "4.50")),
    ],
)
def test_decimals_of_other_databases_are_read_by_their_declarations(
    source: dict[str, Any], declared: str, cell: Any, expected: tuple[str, str]
) -> None:
    found = row(source, {"p": cell}, (("p", declared),))
    assert (found.columns["p"].type, (found.after or {})["p"]) == expected


@pytest.mark.parametrize(
    ("length", "scale", "declared", "canonical"),
    [
        (10, 2, "NUMBER(10,2)", "decimal(10,2)"),
        (10, 0, "NUMBER(10,0)", "decimal(10,0)"),
        (5, -2, "NUMBER(5,-2)", "decimal(7,0)"),
        (38, None, "NUMBER", None),
        (0, None, "NUMBER", None),
        (0, -127, "NUMBER", None),
    ],
)
def test_a_number_of_oracle_without_a_scale_has_any_scale(
    length: int, scale: int | None, declared: str, canonical: str | None
) -> None:
    told = structure(ORACLE, {"name": "n", "typeName": "NUMBER", "length": length, "scale": scale})
    assert [(column.declared, column.type) for column in told.columns.values()] == [(declared, canonical)]


@pytest.mark.parametrize("declared", ["NUMBER", "NUMBER(38)", "NUMBER(0)", "NUMBER(5)", "NUMBER(5,-2)"])
@pytest.mark.parametrize(
    ("cell", "text"), [({"scale": 1, "value": "AcI="}, "45.0"), (1234500, "1234500"), ("AcI=", "AcI=")]
)
def test_a_number_of_oracle_whose_scale_is_open_is_what_the_row_shows(
    declared: str, cell: Any, text: str
) -> None:
    found = row(ORACLE, {"n": cell}, (("n", declared),))
    assert (found.columns["n"].type, (found.after or {})["n"]) == (None, text)
