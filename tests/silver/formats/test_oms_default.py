from __future__ import annotations

import json
from typing import Any

import pytest

from framework.contracts.events import Control, Event, Op, RowChange
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.decoding.format import Context, Options
from silver.formats.oms_default import FORMAT

CONTEXT = Context("feed", Options(), "UTC", lambda database, schema, table: None)
FIRST = {"id": 1}


def decode(kind: str = "INSERT", post: Any = FIRST, prev: Any = None, **meta: Any) -> Event:
    fields = {"db": "shop", "table_name": "orders", "dbType": "OB_MYSQL", "timestamp": "1609344671", **meta}
    value = {"recordType": kind, "allMetaData": fields, "prevStruct": prev, "postStruct": post}
    (event,) = FORMAT.decode(
        RawMessage("feed", "orders", 0, 0, None, None, json.dumps(value).encode()), CONTEXT
    )
    return event


def row(kind: str, before: Any, after: Any) -> RowChange:
    event = decode(kind, after, before, record_primary_key="id", record_primary_value="1")
    assert isinstance(event, RowChange)
    return event


def test_an_insert_has_the_row_after() -> None:
    found = row("INSERT", None, {"id": 1, "name": "Ann"})
    assert (found.op, found.database, found.table, found.keys) == (Op.INSERT, "shop", "orders", ("id",))
    assert (found.before, found.after) == (None, {"id": "1", "name": "Ann"})


def test_an_update_has_both_rows() -> None:
    found = row("UPDATE", {"id": 1, "name": "Jane"}, {"id": 1, "name": "Ann"})
    assert found.op is Op.UPDATE
    assert (found.before, found.after) == ({"id": "1", "name": "Jane"}, {"id": "1", "name": "Ann"})


def test_a_delete_has_the_row_before() -> None:
    found = row("DELETE", {"id": 1, "name": "Ann"}, None)
    assert (found.op, found.before, found.after) == (Op.DELETE, {"id": "1", "name": "Ann"}, None)


@pytest.mark.parametrize(
    ("kind", "prev", "post"),
    [
        ("INSERT", None, {"id": 1, "v": "a"}),
        ("UPDATE", {"id": 1, "v": "a"}, {"id": 1, "v": "b"}),
        ("UPDATE", {"v": "a"}, {"id": 1, "v": "b"}),
        ("DELETE", {"id": 1, "v": "a"}, None),
    ],
)
def test_a_key_in_other_letters_than_its_column_is_no_column_that_the_images_lack(
    kind: str, prev: Any, post: Any
) -> None:
    """A second column that differs only by case would park the table."""
    with pytest.raises(Malformed, match="'ID'") as caught:
        decode(kind, post, prev, record_primary_key="ID", record_primary_value="1")
    assert caught.value.reason is Reason.KEY_NOT_IN_IMAGE


@pytest.mark.parametrize(
    ("db_type", "name", "database"),
    [
        ("OB_MYSQL", "tenant_1.shop", "shop"),
        ("OCEANBASE", "tenant_1.shop", "shop"),
        ("OB_MYSQL", "shop", "shop"),
        ("OB_MYSQL", "tenant_1.shop.2024", "shop.2024"),
        ("MYSQL", "shop.2024", "shop.2024"),
        (None, "tenant_1.shop", "shop"),
        ("", "tenant_1.shop", "shop"),
        ("ob_oracle", "tenant_1.SHOP", "SHOP"),
        ("ORACLE", "A.B", "A.B"),
        ("DB2", "A.B", "A.B"),
        ("DB2_LUW", "A.B", "A.B"),
    ],
)
def test_the_tenant_of_oceanbase_is_no_part_of_the_database(
    db_type: str | None, name: str, database: str
) -> None:
    assert decode(dbType=db_type, db=name).database == database


@pytest.mark.parametrize("separator", ["\x01", "/u0001", "\\u0001"])
def test_packed_keys_are_read_in_every_spelling_of_the_separator(separator: str) -> None:
    event = decode(record_primary_key=f"id{separator}line", record_primary_value=f"1{separator}007")
    assert event.keys == ("id", "line")
    assert not isinstance(event, Control)
    assert event.after == {"id": "1", "line": "007"}


@pytest.mark.parametrize(
    ("sequence", "position"),
    [
        (160934467100001, (1609344671, 1)),
        ("16093446712", (1609344671, 2)),
        (1609344671, (1609344671, 0)),
        (None, (1609344671, 0)),
        ("160934467199999", (1609344671, 99999)),
    ],
)
def test_a_position_is_seconds_and_a_counter_as_numbers(sequence: object, position: tuple[int, int]) -> None:
    assert decode(storeDataSequence=sequence).position == position


def test_rows_of_the_full_copy_have_no_position() -> None:
    assert decode("ROW", checkpoint="1").position is None
