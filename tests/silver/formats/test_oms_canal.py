from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from framework.contracts.ddl_actions import AddColumn
from framework.contracts.events import Column, Control, ControlKind, Event, Op, RowChange, Token
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.changes.ddl_events import statement_events
from silver.decoding.format import Context, Options
from silver.formats.oms_canal import FORMAT

CONTEXT = Context("feed", Options(), "Asia/Shanghai", lambda database, schema, table: None)


def decode(value: bytes | None, key: bytes | None = None) -> Sequence[Event]:
    return FORMAT.decode(RawMessage("feed", "orders", 0, 0, None, key, value), CONTEXT)


def message(data: str, **members: Any) -> bytes:
    envelope = {
        "database": "shop",
        "table": "orders",
        "type": "INSERT",
        "es": 1609344671000,
        "isDdl": False,
        "pkNames": ["id"],
        **members,
    }
    return (json.dumps(envelope)[:-1] + f', "data": {data}}}').encode()


def only_row(value: bytes) -> RowChange:
    (event,) = decode(value)
    assert isinstance(event, RowChange)
    return event


def test_numbers_keep_every_digit_that_was_sent() -> None:
    row = only_row(
        message(
            '[{"id": 10223372036854775806, "price": 1.10}]', mysqlType={"id": "bigint", "price": "decimal"}
        )
    )
    assert row.after == {"id": "10223372036854775806", "price": "1.10"}


def test_decimal_without_digits_is_undeclared_and_keeps_its_name() -> None:
    row = only_row(message('[{"id": 1, "price": 1.10}]', mysqlType={"id": "int", "price": "decimal"}))
    assert row.columns["price"] == Column(declared="decimal", token=Token.NUMBER)


@pytest.mark.parametrize(
    ("declared", "wire", "text"),
    [
        ("timestamp", '"1606233662.012345"', "2020-11-24T16:01:02.012345Z"),
        ("timestamp", "1606233662", "2020-11-24T16:01:02Z"),
        ("timestamp", '"0000-00-00 00:00:00"', "0000-00-00 00:00:00"),
        ("datetime", '"2020-11-25 00:01:02.5"', "2020-11-25T00:01:02.5"),
        ("datetime", '"2020-11-25T00:01"', "2020-11-25T00:01:00"),
        ("datetime", '"2020-11-25 00:01:02 Asia/Shanghai"', "2020-11-25T00:01:02"),
        ("datetime", '"2020-02-31 00:01:02"', "2020-02-31 00:01:02"),
        ("bit", '"AQI="', "258"),
        ("bit", '""', "0"),
        ("varchar", '""', ""),
        ("bit", "5", "5"),
        ("blob", '"aGVsbG8="', "aGVsbG8="),
        ("varchar", '"007"', "007"),
    ],
)
def test_value_layouts_of_all_releases(declared: str, wire: str, text: str) -> None:
    row = only_row(message(f'[{{"id": 1, "c": {wire}}}]', mysqlType={"id": "int", "c": declared}))
    assert row.after == {"id": "1", "c": text}


def test_old_value_null_was_null_and_absent_is_unchanged() -> None:
    row = only_row(message('[{"id": 1, "name": "Ann", "city": "Ulm"}]', type="UPDATE", old=[{"name": None}]))
    assert row.before == {"id": "1", "name": None, "city": "Ulm"}
    assert row.after == {"id": "1", "name": "Ann", "city": "Ulm"}
    assert not row.partial


def test_each_row_pairs_with_its_own_old_values() -> None:
    first, second = decode(
        message('[{"id": 1, "n": 2}, {"id": 2, "n": 4}]', type="UPDATE", old=[{"n": 1}, {"id": 3}])
    )
    assert isinstance(first, RowChange)
    assert isinstance(second, RowChange)
    assert first.before == {"id": "1", "n": "1"}
    assert second.before == {"id": "3", "n": "4"}


def test_update_without_old_has_no_before_image() -> None:
    row = only_row(message('[{"id": 1}]', type="UPDATE", old=None))
    assert (row.op, row.before, row.after) == (Op.UPDATE, None, {"id": "1"})


def test_key_that_no_image_has_is_quarantined() -> None:
    with pytest.raises(Malformed) as caught:
        decode(message('[{"id": 1}]', pkNames=["code"]))
    assert caught.value.reason is Reason.KEY_NOT_IN_IMAGE


def test_null_value_with_a_key_is_a_tombstone() -> None:
    (event,) = decode(None, b"1")
    assert isinstance(event, Control)
    assert event.kind is ControlKind.TOMBSTONE


def test_time_alone_orders_so_positions_are_not_unique() -> None:
    assert only_row(message('[{"id": 1}]')).position == (1609344671000,)
    assert not FORMAT.positions_are_unique


def added(sql: str) -> list[tuple[str, str | None, str | None]]:
    """The columns that a statement adds, with their types and defaults."""
    (event,) = decode(message("null", type="ALTER", isDdl=True, sql=sql))
    assert isinstance(event, Control)
    (control,) = statement_events(event, FORMAT)
    return [(a.name, a.type, a.default) for a in control.actions or () if isinstance(a, AddColumn)]


@pytest.mark.parametrize(
    ("column", "kind", "default"),
    [
        ("c CHAR(3) DEFAULT 'a'", "string", "a"),
        ("c BIT(8) DEFAULT b'101'", "decimal(20,0)", "5"),
        ("c VARBINARY(2) DEFAULT x'00ff'", "binary", "AP8="),
        ("c INT NOT NULL", "int", "0"),
        ('`number` VARCHAR(9) DEFAULT "x"', "string", "x"),
        ('c VARCHAR(10) DEFAULT "x"', "string", "x"),
        ('c ENUM("a","b") DEFAULT "b" COMMENT "a or b"', "string", "b"),
        ('c ENUM("a)","b") DEFAULT "b" COMMENT "it\'s"', "string", "b"),
    ],
)
def test_a_statement_is_read_as_mysql_reads_it(column: str, kind: str, default: str) -> None:
    ((_, *found),) = added(f"ALTER TABLE orders ADD {column}")
    assert found == [kind, default]


@pytest.mark.parametrize(
    "behind",
    [
        """COMMENT 'the "home" path'""",
        "COMMENT 'was a CLOB, a NUMBER(4), a VARCHAR2'",
        """COMMENT 'it''s "here"'""",
        """COMMENT 'it\\'s "here"'""",
        """COMMENT "it's" /* once "home", a NUMBER(4) */""",
        '-- was "home"\n',
        '# was "home", a CLOB\n',
        "COMMENT 'a `name`'",
    ],
)
def test_what_texts_and_comments_say_is_no_sql_of_oracle(behind: str) -> None:
    """Read as Oracle's SQL, the path would have two backslashes, and the bits no default."""
    path = r"p VARCHAR(20) DEFAULT 'C:\\temp'"
    sql = f"ALTER TABLE orders ADD COLUMN {path} {behind}, ADD COLUMN f BIT(4) DEFAULT b'101'"
    assert added(sql) == [("p", "string", r"C:\temp"), ("f", "decimal(20,0)", "5")]


@pytest.mark.parametrize(
    "sql",
    [
        r"""ALTER TABLE "orders" ADD ("C" NUMBER(10) DEFAULT 5, "P" VARCHAR2(20) DEFAULT 'C:\\temp')""",
        "ALTER TABLE orders /* the `shop` */ ADD (c NUMBER(10) DEFAULT 5)",
        "ALTER TABLE orders# ADD (c NUMBER(10) DEFAULT 5)",
        "-- it's one\nALTER TABLE orders ADD (c NUMBER(10) DEFAULT 5)",
        """ALTER TABLE "it's" ADD (c INT DEFAULT 5)""",
        r"ALTER TABLE orders ADD (p CHAR(3) DEFAULT 'C:\', c NUMBER(10) DEFAULT 5)",
    ],
)
def test_beside_texts_and_comments_the_sql_of_oracle_is_known(sql: str) -> None:
    (event,) = decode(message("null", type="ALTER", isDdl=True, sql=sql))
    assert isinstance(event, Control)
    assert event.dialect == ""


def test_a_statement_of_a_tenant_that_speaks_oracle_is_read() -> None:
    assert added('ALTER TABLE "orders" ADD ("C" NUMBER(10) DEFAULT 5)') == [("C", "decimal(10,0)", "5")]
    assert added("ALTER TABLE orders ADD c VARCHAR2(9) DEFAULT 'x'") == [("c", "string", "x")]
