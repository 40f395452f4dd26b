from __future__ import annotations

import json
from typing import Any

import pytest

from framework.contracts.events import Control, Event
from framework.contracts.messages import RawMessage
from silver.decoding.format import Context, Options
from silver.formats.oms_default import FORMAT

CONTEXT = Context("feed", Options(), "UTC", lambda database, schema, table: None)


def decode(kind: str = "INSERT", post: Any = None, **meta: Any) -> Event:
    fields = {"db": "shop", "table_name": "orders", "dbType": "OB_MYSQL", "timestamp": "1609344671", **meta}
    value = {"recordType": kind, "allMetaData": fields, "prevStruct": None, "postStruct": post or {"id": 1}}
    (event,) = FORMAT.decode(
        RawMessage("feed", "orders", 0, 0, None, None, json.dumps(value).encode()), CONTEXT
    )
    return event


@pytest.mark.parametrize(
    ("db_type", "name", "database"),
    [
        ("OB_MYSQL", "tenant_1.shop", "shop"),
        ("OCEANBASE", "tenant_1.shop", "shop"),
        ("OB_MYSQL", "shop", "shop"),
        ("OB_MYSQL", "tenant_1.shop.2024", "shop.2024"),
        ("MYSQL", "shop.2024", "shop.2024"),
        (None, "tenant_1.shop", "shop"),
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
