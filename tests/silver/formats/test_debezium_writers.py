"""Messages in Debezium's form as other writers and older releases write them:
TiCDC, Vitess over MariaDB, Debezium 0.8.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from framework.contracts.ddl_actions import AddColumn, NoEffect, RenameTable, TableName
from framework.contracts.events import Column, Control, ControlKind, Event, Op, RowChange, Token
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.changes.ddl_events import statement_events
from silver.decoding.format import Context
from silver.formats import FORMATS
from silver.formats.debezium import FORMAT, DebeziumOptions

TICDC = {
    "connector": "TiCDC",
    "db": "shop",
    "table": "t2",
    "commit_ts": 447984074911121426,
    "snapshot": "false",
    "ts_ms": 1709200800000,
}
COLUMN = {"name": "id", "typeName": "INT", "typeExpression": "INT", "optional": False}
STRUCTURE = {"primaryKeyColumnNames": ["id"], "columns": [COLUMN]}


def events(value: dict[str, Any], key: dict[str, Any] | None = None, name: str = "debezium") -> list[Event]:
    raw_key = None if key is None else json.dumps(key).encode()
    message = RawMessage("feed", "crm.shop.orders", 0, 40, None, raw_key, json.dumps(value).encode())
    return list(
        FORMATS[name].decode(message, Context("feed", FORMATS[name].options(), "UTC", lambda *_: None))
    )


def row(value: dict[str, Any], key: dict[str, Any] | None = None) -> RowChange:
    (found,) = events(value, key)
    assert isinstance(found, RowChange)
    return found


def renamed(table_id: str, ddl: str, database: str | None = "shop", **source: Any) -> list[Control]:
    change = {"type": "ALTER", "id": table_id, "table": STRUCTURE}
    value = {
        "source": {**TICDC, **source},
        "databaseName": database,
        "schemaName": None,
        "ddl": ddl,
        "tableChanges": [change],
    }
    found = []
    for event in events(value):
        assert isinstance(event, Control)
        found += statement_events(event, FORMAT)
    return found


def summary(controls: list[Control]) -> list[tuple[Any, ...]]:
    return [(c.kind, c.database, c.schema, c.table, c.actions) for c in controls]


RENAMES = [
    ('"shop"."t1","shop"."t2"', "RENAME TABLE `shop`.`t1` TO `shop`.`t2`", "shop"),
    ('"shop"."t1","shop"."t2"', "ALTER TABLE t1 RENAME TO t2", "shop"),
    ('"shop"."t1", "shop"."t2"', "rename table t1 to t2", None),
    ('"shop"."t1","shop"."t2"', "a statement that nobody understands", "shop"),
]


@pytest.mark.parametrize(("table_id", "ddl", "database"), RENAMES)
def test_a_rename_of_ticdc_goes_from_the_old_name_to_the_new_one(
    table_id: str, ddl: str, database: str | None
) -> None:
    found = renamed(table_id, ddl, database)
    new = TableName("shop", None, "t2")
    assert summary(found) == [
        (ControlKind.DDL, "shop", None, "t1", (RenameTable(new),)),
        (ControlKind.DDL, "shop", None, "t2", (NoEffect("structure"),)),
    ]
    assert [(c.statement, list(c.columns), c.keys) for c in found] == [
        (ddl, [], None),
        (None, ["id"], ("id",)),
    ]
    assert len({c.position for c in found}) == 1


def test_a_rename_of_ticdc_is_that_of_a_connector_that_names_the_new_table_alone() -> None:
    ddl = "RENAME TABLE `shop`.`t1` TO `shop`.`t2`"
    plain = renamed('"shop"."t2"', ddl, connector="mysql", file="bin.000003", pos=4)
    assert summary(renamed('"shop"."t1","shop"."t2"', ddl)) == summary(plain)


def test_a_rename_of_ticdc_into_another_database_keeps_both() -> None:
    found = renamed('"shop"."t1","store"."t2"', "RENAME TABLE t1 TO store.t2", "store")
    assert summary(found)[0] == (
        ControlKind.DDL,
        "shop",
        None,
        "t1",
        (RenameTable(TableName("store", None, "t2")),),
    )
    assert summary(found)[1][1:4] == ("store", None, "t2")


@pytest.mark.parametrize(
    ("table_id", "name"),
    [('"shop"."a,b"', "a,b"), ('"shop"."a"",""b"', 'a","b'), ('"shop"."t1"', "t1"), ("t1", "t1")],
)
def test_one_name_stays_one_name_whatever_is_in_it(table_id: str, name: str) -> None:
    found = renamed(table_id, "CREATE INDEX i ON nothing (a)")
    assert [(c.database, c.table) for c in found if c.columns] == [("shop", name)]


def test_three_names_are_no_rename() -> None:
    with pytest.raises(Malformed) as caught:
        renamed('"shop"."a","shop"."b","shop"."c"', "RENAME TABLE a TO b")
    assert caught.value.reason is Reason.WRONG_SHAPE


def test_statements_of_ticdc_are_those_of_mysql() -> None:
    (found,) = renamed('"shop"."t2"', 'ALTER TABLE t2 ADD COLUMN note VARCHAR(20) DEFAULT "x" AFTER id')
    assert (found.dialect, [type(action) for action in found.actions or ()]) == ("mysql", [AddColumn])


def vitess(gtid: str, shard: str | None = "-80", others: tuple[tuple[str, str], ...] = ()) -> dict[str, Any]:
    sets = [{"keyspace": "shop", "shard": name, "gtid": text} for name, text in (("-80", gtid), *others)]
    source = {
        "connector": "vitess",
        "keyspace": "shop",
        "table": "orders",
        "shard": shard,
        "vgtid": json.dumps(sets),
        "ts_ms": 1709200800000,
    }
    return {"op": "c", "before": None, "after": {"id": 2}, "source": source, "ts_ms": 1709200800100}


def place(value: dict[str, Any]) -> int:
    return (row(value, {"id": 2}).position or (-1,))[0]


def test_the_last_number_of_a_mariadb_gtid_is_the_place_of_the_transaction() -> None:
    assert place(vitess("MariaDB/0-1592148-46")) == 46
    assert place(vitess("MariaDB/0-1592148-9")) < place(vitess("MariaDB/0-1592149-10"))


def test_each_transaction_of_several_mariadb_domains_comes_behind_those_before_it() -> None:
    places = [
        place(vitess(gtid))
        for gtid in ("MariaDB/0-1-9", "MariaDB/0-1-9,1-1-1", "MariaDB/0-1-10,1-1-1", "MariaDB/0-2-10,1-1-7")
    ]
    assert places == sorted(set(places))


def test_a_mysql_gtid_set_counts_its_transactions() -> None:
    assert place(vitess("MySQL56/a790d864-9ba1-11ea-99f6-0242ac11000a:1-500")) == 500
    assert (
        place(
            vitess(
                "MySQL56/a790d864-9ba1-11ea-99f6-0242ac11000a:1-3:5,b790d864-9ba1-11ea-99f6-0242ac11000a:7"
            )
        )
        == 5
    )


@pytest.mark.parametrize(
    "gtid",
    [
        "MariaDB/0-1592148",
        "MariaDB/",
        "MariaDB/0-1-x",
        "MariaDB/a-1-2",
        "",
        "MySQL56/",
        "MySQL56/a790d864",
        "FilePos/bin.000003:484",
        "x",
    ],
)
def test_a_gtid_set_without_an_order_is_quarantined_and_never_the_place_0(gtid: str) -> None:
    with pytest.raises(Malformed) as caught:
        place(vitess(gtid))
    assert caught.value.reason is Reason.BAD_POSITION


def test_a_shard_that_the_vgtid_does_not_name_has_no_place() -> None:
    with pytest.raises(Malformed) as caught:
        place(vitess("MySQL56/a790d864-9ba1-11ea-99f6-0242ac11000a:1-500", shard="80-"))
    assert caught.value.reason is Reason.BAD_POSITION


def test_a_shard_that_has_not_begun_does_not_matter_to_another() -> None:
    assert place(vitess("MariaDB/0-1-5", others=(("80-", ""),))) == 5


OLD_MYSQL = {
    **{
        "version": "0.8.3.Final",
        "name": "dbserver1",
        "server_id": 223344,
        "ts_sec": 1486501486,
        "gtid": None,
    },
    **{
        "file": "mysql-bin.000003",
        "pos": 364,
        "row": 0,
        "snapshot": None,
        "thread": 3,
        "db": "inventory",
        "table": "customers",
    },
}
OLD_POSTGRES = {
    **{
        "version": "0.8.3.Final",
        "name": "fulfillment",
        "db": "postgres",
        "ts_usec": 1488442298512000,
        "txId": 555,
        "lsn": 23549344,
    },
    **{"schema": "public", "table": "customers", "snapshot": False, "last_snapshot_record": None},
}
OLD_ORACLE = {
    **{
        "version": "0.8.3.Final",
        "name": "server1",
        "ts_ms": 1520085154000,
        "txId": "6.28.807",
        "scn": 2122185,
        "snapshot": False,
    },
    **{"db": "ORCLPDB1", "schema": "DEBEZIUM", "table": "CUSTOMERS"},
}


def old(op: str, source: dict[str, Any], before: Any = None, after: Any = None) -> dict[str, Any]:
    return {"before": before, "after": after, "source": source, "op": op, "ts_ms": 1486501486308}


@pytest.mark.parametrize(
    ("source", "names", "position"),
    [
        (OLD_MYSQL, ("inventory", None, "customers"), (3, 364, 0, 0, 1, 0)),
        (OLD_POSTGRES, ("postgres", "public", "customers"), (23549344, 0, 0, 0, 1, 0)),
        (OLD_ORACLE, ("ORCLPDB1", "DEBEZIUM", "CUSTOMERS"), (2122185, 2122185, 0, 0, 1, 0)),
    ],
)
def test_envelopes_of_releases_that_name_no_connector_are_read(
    source: dict[str, Any], names: tuple[str | None, ...], position: tuple[int, ...]
) -> None:
    found = row(old("u", source, {"id": 1, "name": "Ann"}, {"id": 1, "name": "Jo"}), {"id": 1})
    assert (found.database, found.schema, found.table, found.position) == (*names, position)
    assert (found.op, found.after, found.keys) == (Op.UPDATE, {"id": "1", "name": "Jo"}, ("id",))


def test_the_time_of_an_old_envelope_is_that_of_its_source() -> None:
    assert row(old("c", OLD_MYSQL, after={"id": 1}), {"id": 1}).event_time == 1_486_501_486_000_000
    assert (
        row(old("c", {**OLD_MYSQL, "ts_sec": 0}, after={"id": 1}), {"id": 1}).event_time
        == 1_486_501_486_308_000
    )


def test_a_delete_of_an_old_postgresql_connector_is_believed_in_its_key_alone() -> None:
    found = row(old("d", OLD_POSTGRES, {"id": 1, "name": ""}), {"id": 1})
    assert (found.op, found.before) == (Op.DELETE, {"id": "1"})


def test_a_snapshot_of_an_old_release_is_one() -> None:
    found = row(
        old("c", {**OLD_MYSQL, "snapshot": True, "ts_sec": 0, "server_id": 0}, after={"id": 1}), {"id": 1}
    )
    assert (found.op, found.position, found.server) == (Op.READ, (3, 364, 0, 0, 0, 0), None)


def test_an_envelope_with_neither_connector_nor_position_is_not_read() -> None:
    with pytest.raises(Malformed) as caught:
        row(old("c", {"db": "inventory", "table": "customers", "ts_ms": 1}, after={"id": 1}), {"id": 1})
    assert caught.value.reason is Reason.WRONG_SHAPE


ORACLE = {"connector": "oracle", "db": "X", "schema": "S", "table": "T", "scn": "15", "ts_ms": 1709200800000}
SCALED = [
    ({"scale": 0, "value": "AQ=="}, "1"),
    ({"scale": 2, "value": "/CI="}, "-9.90"),
    ({"value": "AeJA", "scale": 3}, "123.456"),
    ({"scale": -2, "value": "BQ=="}, "500"),
]


@pytest.mark.parametrize(("wire", "text"), SCALED)
def test_a_number_that_names_its_scale_is_one_without_a_schema(wire: dict[str, Any], text: str) -> None:
    value = {
        "op": "u",
        "before": {"NAME": "a", "ID": wire},
        "after": {"NAME": "b", "ID": wire},
        "source": ORACLE,
    }
    for found in (row(value, {"ID": wire}), row({"payload": value}, {"payload": {"ID": wire}})):
        assert (found.before, found.after) == ({"NAME": "a", "ID": text}, {"NAME": "b", "ID": text})
        assert list(found.columns.items()) == [
            ("NAME", Column(token=Token.TEXT)),
            ("ID", Column(token=Token.NUMBER)),
        ]
    assert row({"op": "d", "before": None, "source": ORACLE}, {"ID": wire}).before == {"ID": text}
    flat = row({"NAME": "b", "ID": wire, "__op": "u", "__table": "T"}, {"ID": wire})
    assert (flat.after, flat.columns["ID"]) == ({"NAME": "b", "ID": text}, Column(token=Token.NUMBER))


@pytest.mark.parametrize("digits", [1_001, 7_201])
def test_a_number_that_is_too_long_for_json_is_text_without_a_schema(digits: int) -> None:
    unscaled = -7 * (10**digits // 9)
    data = unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)
    wire = {"scale": 1, "value": base64.b64encode(data).decode()}
    found = row({"op": "c", "after": {"ID": 1, "V": wire}, "source": ORACLE}, {"ID": 1})
    assert (found.after or {})["V"] == f"-{'7' * (digits - 1)}.7"
    assert found.columns["V"] == Column(token=Token.TEXT)


@pytest.mark.parametrize(
    "wire",
    [
        {"scale": 0},
        {"scale": 0, "value": "AQ==", "more": 1},
        {"scale": "0", "value": "AQ=="},
        {"scale": 0, "value": "?"},
        {"scale": 0, "value": ""},
    ],
)
def test_an_object_that_is_no_such_number_stays_json(wire: dict[str, Any]) -> None:
    found = row({"op": "c", "after": {"ID": 1, "V": wire}, "source": ORACLE}, {"ID": 1})
    assert (json.loads((found.after or {})["V"] or ""), found.columns["V"]) == (
        wire,
        Column(token=Token.JSON),
    )


def test_a_document_of_mongodb_keeps_an_object_of_that_form() -> None:
    source = {"connector": "mongodb", "db": "shop", "collection": "item", "ts_ms": 1709200800000, "ord": 3}
    after = '{"_id": 1, "v": {"scale": 0, "value": "AQ=="}}'
    found = row({"op": "c", "after": after, "source": source}, {"id": "1"})
    assert found.after == {"_id": "1", "v": '{"scale": 0, "value": "AQ=="}'}


IN_BINLOG = {
    "connector": "mysql",
    "db": "shop",
    "table": "orders",
    "file": "bin.000003",
    "pos": 484,
    "row": 0,
}


@pytest.mark.parametrize(
    ("source", "key", "is_compressed", "signs"),
    [
        (IN_BINLOG, {"id": 2}, True, (True, False)),
        (IN_BINLOG, None, True, (True, True)),
        (IN_BINLOG, {"id": 2}, False, (False, False)),
        ({**IN_BINLOG, "snapshot": "true"}, {"id": 2}, True, (False, False)),
        ({"connector": "postgresql", "schema": "s", "table": "t", "lsn": 7}, {"id": 2}, True, (False, False)),
    ],
)
def test_changes_of_a_compressed_transaction_share_a_position(
    source: dict[str, Any], key: dict[str, Any] | None, is_compressed: bool, signs: tuple[bool, bool]
) -> None:
    value = {"op": "c", "before": None, "after": {"id": 2}, "source": source, "ts_ms": 1709200800100}
    raw_key = None if key is None else json.dumps(key).encode()
    message = RawMessage("feed", "crm.shop.orders", 0, 40, None, raw_key, json.dumps(value).encode())
    options = DebeziumOptions(compressed_transactions=is_compressed)
    (found,) = FORMAT.decode(message, Context("feed", options, "UTC", lambda *_: None))
    assert isinstance(found, RowChange)
    assert (found.is_shared, found.is_of_record) == signs
    assert found.position is not None
