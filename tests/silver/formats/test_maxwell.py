from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest

from framework.contracts.ddl_actions import (
    AddColumn,
    ChangeType,
    DropColumn,
    DropDatabase,
    NoEffect,
    RenameColumn,
    RenameTable,
    SetKeys,
    TableName,
)
from framework.contracts.events import Control, Event, Op, RowChange
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.changes.staged_rows import Row
from silver.ddl.parser import parse_ddl
from silver.decoding.format import Context, Options
from silver.formats.maxwell import FORMAT
from tests.silver.changes.test_decode import normalized, plan

CONTEXT = Context("feed", Options(), "UTC", lambda *_: None)
ID = {"type": "int", "name": "id", "signed": True}
NAME = {"type": "varchar", "name": "name"}
SEEN = {"type": "timestamp", "name": "seen", "column-length": 6}


def event(key: bytes | None = None, **members: Any) -> Event:
    value = {"database": "shop", "table": "orders", "type": "insert", "ts": 1709200800, "xid": 7, **members}
    (found,) = FORMAT.decode(
        RawMessage("feed", "maxwell", 0, 40, None, key, json.dumps(value).encode()), CONTEXT
    )
    return found


def row(key: bytes | None = None, **members: Any) -> RowChange:
    found = event(key, **{"data": {"id": 1}, **members})
    assert isinstance(found, RowChange)
    return found


def altered(
    old: list[Any],
    new: list[Any],
    sql: str | None = "?",
    key: tuple[list[str], list[str]] = (["id"], ["id"]),
    table: str = "orders",
) -> Any:
    definitions = [
        {"database": "shop", "table": t, "columns": c, "primary-key": k}
        for t, c, k in zip(("orders", table), (old, new), key, strict=True)
    ]
    found = event(
        type="table-alter", old=definitions[0], sql=sql, position="bin.000002:9", **{"def": definitions[1]}
    )
    assert isinstance(found, Control)
    return found.actions


def test_an_insert_has_the_row_after() -> None:
    found = row(data={"id": 1, "name": "Ann"}, primary_key_columns=["id"])
    assert (found.op, found.table, found.keys) == (Op.INSERT, "orders", ("id",))
    assert (found.before, found.after) == (None, {"id": "1", "name": "Ann"})


def test_an_update_has_the_old_values_of_changed_columns() -> None:
    found = row(type="update", data={"id": 1, "name": "Ann"}, old={"name": "Jane"})
    assert found.op is Op.UPDATE
    assert (found.before, found.after) == ({"id": "1", "name": "Jane"}, {"id": "1", "name": "Ann"})


def test_a_delete_has_the_row_before() -> None:
    found = row(type="delete", data={"id": 1, "name": "Ann"})
    assert (found.op, found.before, found.after) == (Op.DELETE, {"id": "1", "name": "Ann"}, None)


def test_last_row_of_a_transaction_comes_after_all_others() -> None:
    first, second, last = row(xoffset=0), row(xoffset=1), row(commit=True)
    later = row(xid=8, xoffset=0)
    positions = [found.position for found in (first, second, last, later)]
    assert positions == sorted(positions, key=lambda position: position or ())


@pytest.mark.parametrize("place", [{}, {"position": "bin.000009:500"}])
def test_rows_without_their_place_in_the_transaction_share_a_position(place: dict[str, Any]) -> None:
    found = [row(**place), row(xoffset=0, **place), row(commit=True, **place)]
    assert [one.is_shared for one in found] == [True, False, False]
    assert (found[0].position or ()) < (found[2].position or ())


def test_two_updates_of_one_row_in_a_transaction_without_offsets_are_two_changes() -> None:
    def update(old: int, new: int) -> bytes:
        images = {"data": {"id": 1, "stock": new}, "old": {"stock": old}, "primary_key_columns": ["id"]}
        return json.dumps(
            {"database": "shop", "table": "orders", "type": "update", "ts": 1709200800, "xid": 7, **images}
        ).encode()

    rows = normalized([update(1, 2), update(2, 3)], plan(FORMAT))
    assert rows[0]["sequence"] < rows[1]["sequence"]
    assert rows[0]["change_id"] != rows[1]["change_id"]


def test_binlog_position_orders_before_the_transaction() -> None:
    one, other = row(position="bin.000009:500", xid=9), row(position="bin.000010:4", xid=3)
    assert (one.position or ()) < (other.position or ())


def test_bootstrap_rows_are_read_without_a_position_or_server() -> None:
    found = row(type="bootstrap-insert", server_id=3, position="bin.000002:9")
    assert (found.op, found.position, found.server) == (Op.READ, None, None)


def test_before_image_is_data_overlaid_with_old() -> None:
    found = row(type="update", data={"id": 1, "name": "Ann", "note": None}, old={"name": None})
    assert (found.before, found.after) == (
        {"id": "1", "name": None, "note": None},
        {"id": "1", "name": "Ann", "note": None},
    )


@pytest.mark.parametrize(
    ("key", "keys"),
    [
        (b'{"database":"shop","table":"orders","pk.id":1}', ("id",)),
        (b'{"database":"shop","table":"orders","_uuid":"0a"}', None),
        (b'{"database":"shop","table":"orders","pk.other":1}', None),
        (b"5a8b0e9c-1111-2222-3333-444455556666", None),
    ],
)
def test_keys_of_the_message_key(key: bytes, keys: tuple[str, ...] | None) -> None:
    assert row(key).keys == keys


@pytest.mark.parametrize(
    ("key", "keys"),
    [
        (b'{"database":"shop","table":"orders","pk.orderid":1}', ("OrderId",)),
        (b'{"database":"shop","table":"orders","pk.orderid":1,"pk.line":2}', ("OrderId", "line")),
        (b'{"database":"shop","table":"orders","pk.OrderId":1}', ("OrderId",)),
        (b'{"database":"shop","table":"orders","pk.orderid":1,"pk.other":2}', None),
    ],
)
def test_the_message_key_has_the_names_of_columns_in_lower_case(
    key: bytes, keys: tuple[str, ...] | None
) -> None:
    assert row(key, data={"OrderId": 1, "line": 2}).keys == keys


def test_columns_of_the_members_come_before_the_message_key() -> None:
    assert row(b'{"pk.id":1}', data={"id": 1, "nr": 2}, primary_key_columns=["nr"]).keys == ("nr",)


def test_an_added_column_has_the_structures_type_and_place() -> None:
    (action,) = altered([ID, NAME], [ID, SEEN, NAME], "alter table orders add seen timestamp(6) after id")
    assert action == AddColumn("seen", "timestamp", "timestamp(6)", after="id")


def test_a_renamed_column_is_known_from_the_text() -> None:
    actions = altered(
        [ID, NAME], [ID, {**NAME, "name": "title"}], "alter table orders rename column name to title"
    )
    assert actions == (RenameColumn("name", "title"),)


def test_a_text_that_does_not_lead_to_the_structure_is_not_believed() -> None:
    actions = altered([ID, NAME], [ID, {**NAME, "name": "title"}], "alter table orders add unrelated int")
    assert actions == (DropColumn("name"), AddColumn("title", "string", "varchar", after="id"))


def test_another_type_and_another_key() -> None:
    actions = altered(
        [ID, NAME], [{**ID, "type": "bigint", "signed": False}, NAME], key=(["id"], ["id", "name"])
    )
    assert actions == (ChangeType("id", "decimal(20,0)", "bigint unsigned"), SetKeys(("id", "name")))


def test_a_renamed_column_is_known_from_a_text_that_has_the_table_in_another_case() -> None:
    actions = altered(
        [ID, NAME], [ID, {**NAME, "name": "title"}], "alter table Shop.ORDERS rename column name to title"
    )
    assert actions == (RenameColumn("name", "title"),)


@pytest.mark.parametrize(
    "sql",
    [
        "alter table orders rename column NAME to title",
        "alter table orders change column Name title varchar(20)",
        "alter table orders rename column name to TITLE",
    ],
)
def test_a_renamed_column_is_known_from_a_text_that_has_it_in_another_case(sql: str) -> None:
    actions = altered([ID, NAME], [ID, {**NAME, "name": "title"}], sql)
    assert actions[0] == RenameColumn("name", "title")
    assert not any(isinstance(action, DropColumn | AddColumn) for action in actions)


def test_a_changed_type_is_known_once_from_a_text_that_has_the_column_in_another_case() -> None:
    price = {"type": "decimal", "name": "price"}
    actions = altered(
        [ID, {**price, "type": "int"}], [ID, price], "alter table orders modify PRICE decimal(10,2) after ID"
    )
    assert actions == (ChangeType("price", "decimal(10,2)", "decimal(10,2)", after="id"),)


@pytest.mark.parametrize(
    "sql",
    [
        "alter table orders modify PRICE bigint",
        "alter table orders change PRICE PRICE bigint",
        "alter table orders change column price PRICE bigint",
        "alter table orders rename column Price to PRICE, modify PRICE bigint",
        "alter table orders add unrelated int",
        None,
    ],
)
def test_a_column_that_a_text_gives_another_case_is_renamed(sql: str | None) -> None:
    price = {"type": "int", "name": "price"}
    actions = altered([ID, price], [ID, {"type": "bigint", "name": "PRICE"}], sql)
    assert actions[0] == RenameColumn("price", "PRICE")
    (changed,) = actions[1:]
    assert isinstance(changed, ChangeType)
    assert (changed.name, changed.type) == ("PRICE", "bigint")


def test_columns_that_swap_their_names_in_another_case() -> None:
    first, second = {**NAME, "name": "a"}, {**ID, "name": "b"}
    actions = altered(
        [first, second],
        [{**first, "name": "b"}, {**second, "name": "a"}],
        "alter table orders rename column A to B, rename column B to A",
    )
    assert [(action.old, action.new) for action in actions if isinstance(action, RenameColumn)] == [
        ("a", "_cdc_swap_1_A"),
        ("b", "a"),
        ("_cdc_swap_1_A", "b"),
    ]


def test_many_columns_that_get_another_case_and_new_ones_are_found_in_one_pass() -> None:
    """Each column was compared with all of them: eight thousand took five seconds."""
    old = [{"type": "int", "name": f"a{n}"} for n in range(16_000)]
    new = [{"type": "int", "name": f"A{n}"} for n in range(16_000)]
    added = [{"type": "int", "name": f"b{n}"} for n in range(16_000)]
    begun = time.process_time()
    found = altered(old, [*new, *added], sql=None)
    assert time.process_time() - begun < 5
    assert found[:16_000] == tuple(RenameColumn(f"a{n}", f"A{n}") for n in range(16_000))
    assert [(a.name, a.after) for a in found[16_000:16_002]] == [("b0", "A15999"), ("b1", "b0")]
    assert len(found) == 32_000


def test_a_renamed_table() -> None:
    assert altered([ID], [ID], "rename table orders to sales", table="sales") == (
        RenameTable(TableName("shop", None, "sales")),
    )


def test_statement_times_are_milliseconds() -> None:
    found = event(type="table-drop", ts=1709200800123, sql="drop table orders", position="bin.000002:9")
    assert found.event_time == 1709200800123000
    assert found.position == (2, 9, 0, 0, 0)


def outcomes(*members: dict[str, Any], by_partition: bool = True) -> list[Row]:
    """What becomes of updates of one row that follow each other in a partition."""
    values = [
        json.dumps(
            {"database": "shop", "table": "orders", "type": "update", "ts": 1709200800, "commit": True,
             "primary_key_columns": ["id"], **one, "data": {"id": 1, **one["data"]}}
        ).encode()
        for one in members
    ]  # fmt: skip
    return normalized(values, replace(plan(FORMAT), by_partition=by_partition))


SECOND = {"xid": 101, "data": {"v": "second"}, "old": {"v": "first"}}
THIRD = {"xid": 100, "data": {"v": "third"}, "old": {"v": "second"}}


def test_without_a_position_the_partition_orders_transactions_that_began_in_another_order() -> None:
    second, third = outcomes(SECOND, THIRD)
    assert second["sequence"] < third["sequence"]


def test_without_a_position_the_transaction_orders_where_the_source_says_time() -> None:
    second, third = outcomes(SECOND, THIRD, by_partition=False)
    assert second["sequence"] > third["sequence"]


def test_with_a_position_the_partition_does_not_order() -> None:
    later, earlier = outcomes({**SECOND, "position": "bin.000002:9"}, {**THIRD, "position": "bin.000002:4"})
    assert later["sequence"] > earlier["sequence"]


@pytest.mark.parametrize("place", [{}, {"commit": None, "xoffset": 3}])
def test_a_row_that_is_delivered_again_without_a_position_has_the_same_id(place: dict[str, Any]) -> None:
    first, third, again = outcomes(*({**one, **place} for one in (SECOND, THIRD, SECOND)))
    assert first["change_id"] == again["change_id"] != third["change_id"]
    assert first["earliest"] == first["position"]


def test_the_id_of_a_row_without_a_position_is_that_of_the_first_release() -> None:
    last, fourth = outcomes(SECOND, {**SECOND, "commit": None, "xoffset": 3})
    assert last["change_id"] == "fa6aa8e42d707a024b8f9df78c346d0c"
    assert fourth["change_id"] == "c5d01d9a19d63c8344c301adf1d71879"


@pytest.mark.parametrize(
    ("members", "is_partial"),
    [
        ({"data": {"v": "new", "id": 1}}, True),
        ({"data": {"v": None, "id": 1}, "old": {}}, True),
        ({"data": {"id": 2, "v": "x"}, "old": {"id": 1}}, True),
        ({"data": {"id": 1, "v": "new", "w": "x"}, "old": {"v": "x"}}, False),
        ({"data": {"id": 2, "v": "new"}, "old": {"id": 1, "v": None}}, False),
        ({"data": {"v": "new", "id": 1}, "primary_key_columns": []}, False),
        ({"data": {"v": "new", "id": 1}, "type": "insert"}, False),
        ({"data": {"id": 1}, "type": "delete"}, False),
    ],
)
def test_an_update_whose_former_values_are_not_logged_leaves_other_columns_unchanged(
    members: dict[str, Any], is_partial: bool
) -> None:
    found = row(**{"type": "update", "primary_key_columns": ["id"], **members})
    assert found.partial is is_partial


def test_a_dropped_database_drops_its_tables() -> None:
    found = event(type="database-drop", table=None, sql="drop database shop", position="bin.000002:9")
    assert isinstance(found, Control)
    assert (found.database, found.table) == ("shop", "")
    assert found.actions == (DropDatabase(),)
    (told,) = parse_ddl("drop database shop", dialect="mysql", table=None)
    assert (told.table.database, told.table.table, told.actions) == ("shop", found.table, found.actions)


def test_a_dropped_database_without_a_position_is_refused_as_other_statements_are() -> None:
    with pytest.raises(Malformed, match="output_binlog_position") as caught:
        event(type="database-drop", table=None, sql="drop database shop")
    assert caught.value.reason is Reason.MISSING_POSITION


@pytest.mark.parametrize("word", ["database-create", "database-alter"])
def test_other_statements_about_a_database_leave_its_tables_alone(word: str) -> None:
    found = event(type=word, table=None, sql="?")
    assert isinstance(found, Control)
    assert (found.table, found.actions) == (None, (NoEffect("database"),))
