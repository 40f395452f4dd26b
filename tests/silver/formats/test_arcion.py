from __future__ import annotations

import json
from typing import Any

import pytest

from framework.contracts.events import Column, Control, ControlKind, Op, RowChange
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.decoding.format import Context, Options
from silver.formats.arcion import FORMAT

CONTEXT = Context("feed", Options(), "UTC", lambda database, schema, table: None)
KEY = b'{"schema": {"type": "struct", "fields": [{"type": "int32", "field": "id"}]}, "payload": {"id": "6"}}'
FIELDS = [
    {"type": "int32", "field": "id"},
    {"type": "string", "field": "name"},
    {"type": "boolean", "field": "ok"},
]
WRAPPED = b'{"schema": {"type": "string", "optional": false}, "payload": "default"}'
SCHEMA = {
    "type": "struct",
    "fields": [{"type": "struct", "field": side, "fields": FIELDS} for side in ("before", "after")],
}


def decode(
    op: str, *, key: bytes | None = KEY, before: Any = None, after: Any = None, **source: Any
) -> RowChange:
    place = {
        "db": "shop",
        "table": "orders",
        "file": "log-bin.000009",
        "pos": 2690,
        "row": 1,
        "server_id": "1",
        "ts_ms": 1677159568000,
    }
    payload = {
        "op": op,
        "before": before,
        "after": after,
        "source": {**place, **source},
        "ts_ms": 1677139769357,
        "transaction": {"id": ""},
    }
    value = json.dumps({"schema": SCHEMA, "payload": payload}).encode()
    (event,) = FORMAT.decode(RawMessage("feed", "orders", 0, 0, None, key, value), CONTEXT)
    assert isinstance(event, RowChange)
    return event


def test_types_of_the_schema_win_over_text_on_the_wire() -> None:
    row = decode("c", after={"name": "007", "ok": "true", "id": "6"})
    assert row.after == {"id": "6", "name": "007", "ok": "true"}
    assert row.columns == {
        "id": Column(type="int", declared="int32"),
        "name": Column(type="string", declared="string"),
        "ok": Column(type="boolean", declared="boolean"),
    }
    assert list(row.columns) == ["id", "name", "ok"]


def test_update_has_both_images() -> None:
    row = decode("u", before={"id": "6", "name": "Ann"}, after={"id": "6", "name": None})
    assert (row.before, row.after) == ({"id": "6", "name": "Ann"}, {"id": "6", "name": None})


def test_snapshot_row_has_no_position() -> None:
    row = decode("r", after={"id": "6"}, file=None, pos=None, row=None, server_id=None)
    assert (row.op, row.position, row.server) == (Op.READ, None, None)


@pytest.mark.parametrize(
    ("source", "position"),
    [
        ({"file": "log-bin.000010", "pos": "4", "row": None}, (10, 4, 0)),
        ({"file": None, "pos": "16/B374D848"}, (0, 0x16B374D848, 1)),
        ({"file": "mysql-bin-2.000003", "pos": 7, "row": 2}, (3, 7, 2)),
    ],
)
def test_position_is_file_number_pos_and_row(source: dict[str, Any], position: tuple[int, ...]) -> None:
    assert decode("c", after={"id": "6"}, **source).position == position


@pytest.mark.parametrize("value", [b"default", b'"default"', WRAPPED, None])
def test_tombstone_is_a_control_event(value: bytes | None) -> None:
    (event,) = FORMAT.decode(RawMessage("feed", "orders", 0, 0, None, KEY, value), CONTEXT)
    assert isinstance(event, Control)
    assert (event.kind, event.keys) == (ControlKind.TOMBSTONE, ("id",))


@pytest.mark.parametrize("key", [b"default", b'"default"', WRAPPED, None])
def test_table_without_a_key_has_the_text_default(key: bytes | None) -> None:
    assert decode("c", key=key, after={"name": "x"}).keys is None


@pytest.mark.parametrize("key", [b"x", b"7", b"{", WRAPPED])
def test_a_tombstone_needs_no_key_that_can_be_read(key: bytes) -> None:
    (event,) = FORMAT.decode(RawMessage("feed", "orders", 0, 0, None, key, b"default"), CONTEXT)
    assert isinstance(event, Control)
    assert (event.kind, event.keys) == (ControlKind.TOMBSTONE, None)


def test_a_column_payload_with_the_text_default_is_a_column() -> None:
    key = b'{"payload": "default"}'
    assert decode("c", key=key, after={"payload": "default"}).keys == ("payload",)


def test_event_time_is_that_of_the_source_else_of_the_payload() -> None:
    assert decode("c", after={"id": "6"}).event_time == 1677159568000000
    assert decode("c", after={"id": "6"}, ts_ms=None).event_time == 1677139769357000


@pytest.mark.parametrize(
    ("op", "members", "reason"),
    [
        ("t", {}, Reason.UNKNOWN_OP),
        ("d", {}, Reason.MISSING_IMAGE),
        ("c", {"after": {"id": "6"}, "file": None, "pos": None}, Reason.MISSING_POSITION),
        ("c", {"after": {"id": "6"}, "file": "log"}, Reason.BAD_POSITION),
        ("c", {"after": {"name": "x"}}, Reason.KEY_NOT_IN_IMAGE),
        ("c", {"after": {"id": "6"}, "key": b"7"}, Reason.WRONG_SHAPE),
        ("c", {"after": {"id": "6"}, "table": None}, Reason.MISSING_TABLE),
    ],
)
def test_poison_has_a_reason(op: str, members: dict[str, Any], reason: Reason) -> None:
    with pytest.raises(Malformed) as caught:
        decode(op, **members)
    assert caught.value.reason is reason
