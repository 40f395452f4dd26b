from __future__ import annotations

import json
from typing import Any

import pytest

from framework.contracts.ddl_actions import CreateTable, DropTable, Unsupported
from framework.contracts.events import Control, ControlKind, Event, Op, RowChange
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.decoding.format import ColumnHint, Context
from silver.formats.dms import FORMAT, DmsOptions

HEAD = {
    "timestamp": "2024-07-29T00:58:44.000001Z",
    "record-type": "data",
    "schema-name": "public",
    "table-name": "orders",
}


def event(
    operation: str,
    record: dict[str, Any] | None = None,
    codecs: dict[str, str] | None = None,
    prefix: str | None = None,
    kinds: dict[str, str] | None = None,
    **metadata: Any,
) -> Event:
    hints = {name: ColumnHint(kind) for name, kind in (kinds or {}).items()}
    context = Context(
        "feed",
        DmsOptions(before_image_prefix=prefix),
        "Europe/Madrid",
        lambda *_: ("id",),
        lambda *_: codecs or {},
        lambda *_: hints,
    )
    written = {name.replace("_", "-"): value for name, value in metadata.items()}
    value = {**(record or {}), "metadata": {**HEAD, "operation": operation, **written}}
    (found,) = FORMAT.decode(RawMessage("feed", "dms", 0, 0, None, None, json.dumps(value).encode()), context)
    return found


def row(operation: str, record: dict[str, Any], **more: Any) -> RowChange:
    found = event(operation, record, **more)
    assert isinstance(found, RowChange)
    return found


def control(operation: str, definition: dict[str, Any] | None = None) -> Control:
    found = event(operation, {"control": {"table-def": definition} if definition else {}})
    assert isinstance(found, Control)
    return found


def test_an_insert_has_the_row_after() -> None:
    found = row("insert", {"data": {"id": 1, "name": "Ann"}})
    assert (found.op, found.database, found.table, found.keys) == (Op.INSERT, "public", "orders", ("id",))
    assert (found.before, found.after) == (None, {"id": "1", "name": "Ann"})


def test_a_delete_has_the_row_before() -> None:
    found = row("delete", {"data": {"id": 1, "name": "Ann"}})
    assert (found.op, found.before, found.after) == (Op.DELETE, {"id": "1", "name": "Ann"}, None)


def test_before_image_is_data_overlaid_with_what_was_sent() -> None:
    found = row("update", {"data": {"id": 2, "name": "Ann"}, "before-image": {"id": 1}})
    assert (found.before, found.after, found.partial) == (
        {"id": "1", "name": "Ann"},
        {"id": "2", "name": "Ann"},
        False,
    )


def test_update_without_a_before_image_has_none() -> None:
    assert row("update", {"data": {"id": 2}, "before-image": {}}).before is None


@pytest.mark.parametrize(
    ("low", "high"),
    [
        ("00000002/7C007178.3.00000002/7C007178", "00000010/00000000.3.0"),
        (
            "mysql-bin.000009:500:-1:600:1:mysql-bin.000009:4",
            "mysql-bin.000010:4:-1:600:1:mysql-bin.000010:4",
        ),
        ("00000027:00000ac0:0002", "00000027:00000ac0:0010"),
        (
            "00000000.01ab5068.00000001.0000.02.0000:88.67945.16",
            "00000000.01ab506A.00000001.0000.02.0000:88.67950.16",
        ),
        (
            "00000000.01ab5068.00000001.0000.02.0000:88.67945.16",
            "00000001.00000000.00000001.0000.02.0000:89.1.16",
        ),
        ("00A1", "00B0"),
    ],
)
def test_stream_positions_are_compared_as_numbers(low: str, high: str) -> None:
    first, second = (
        row("insert", {"data": {"id": 1}}, stream_position=text).position or () for text in (low, high)
    )
    assert first < second


def test_control_records_loads_and_changes_share_one_clock() -> None:
    dropped, created = (
        control("drop-table"),
        event("create-table", {"control": {}}, timestamp="2024-07-29T00:58:45Z"),
    )
    loaded = row("load", {"data": {"id": 1}}, timestamp="2024-07-29T00:58:46Z")
    changed = row(
        "update",
        {"data": {"id": 1}},
        timestamp="2024-07-29T00:58:47Z",
        commit_timestamp="2024-07-29T00:58:40Z",
        stream_position="0/1",
    )
    positions = [found.position or () for found in (dropped, created, loaded, changed)]
    assert positions == sorted(positions)


def test_create_table_names_the_key() -> None:
    found = control("create-table", {"columns": {"id": {"type": "INT32"}}, "primary-key": ["id"]})
    (action,) = found.actions or ()
    assert isinstance(action, CreateTable)
    assert (action.keys, found.keys) == (("id",), ("id",))


def test_control_operations() -> None:
    assert control("drop-table").actions == (DropTable(),)
    assert control("truncate-table").kind is ControlKind.TRUNCATE
    assert isinstance((control("rename-column").actions or ())[0], Unsupported)


@pytest.mark.parametrize(
    ("kind", "sent", "read"),
    [
        ("timestamp_ntz", "2024-07-01T10:00:00Z", "2024-07-01T10:00:00"),
        ("timestamp_ntz", "2024-07-01T10:00:00.123456Z", "2024-07-01T10:00:00.123456"),
        ("timestamp_ntz", "2024-07-01 10:00:00.5", "2024-07-01T10:00:00.5"),
        ("timestamp_ntz", "0000-00-00T00:00:00Z", "0000-00-00T00:00:00Z"),
        ("timestamp_ntz", "2024-07-01T10:00:00+02:00", "2024-07-01T10:00:00+02:00"),
        ("date", "2024-07-01T00:00:00Z", "2024-07-01"),
        ("date", "2024-07-01T00:00:00.000000000Z", "2024-07-01"),
        ("date", "2024-07-01", "2024-07-01"),
        ("date", "2024-07-01T10:00:00Z", "2024-07-01T10:00:00Z"),
        ("timestamp", "2024-07-01T10:00:00Z", "2024-07-01T10:00:00Z"),
        ("timestamp", "2024-07-01T10:00:00", "2024-07-01T08:00:00Z"),
    ],
)
def test_wall_times_are_read_without_the_z_that_dms_writes_behind_each_time(
    kind: str, sent: str, read: str
) -> None:
    found = row("update", {"data": {"id": 1, "at": sent}, "before-image": {"at": sent}}, kinds={"at": kind})
    assert (found.before or {})["at"] == (found.after or {})["at"] == read
    assert found.columns["at"].type == kind


def test_decoded_columns_are_hexadecimal_or_base64() -> None:
    found = row("insert", {"data": {"id": 1, "a": "0xC3BC", "b": "w7w="}}, codecs={"a": "utf8", "b": "utf8"})
    assert found.after == {"id": "1", "a": "ü", "b": "ü"}
    with pytest.raises(Malformed) as caught:
        row("insert", {"data": {"id": 1, "a": "0xFF"}}, codecs={"a": "utf8"})
    assert caught.value.reason is Reason.ENCODING


def test_old_values_among_the_columns_are_the_before_image_where_the_source_says_their_prefix() -> None:
    data = {"data": {"id": 2, "name": "Ann", "BI_id": 1, "BI_name": "Jane", "BI_rate": 7}}
    found = row("update", data, prefix="BI_")
    assert found.before == {"id": "1", "name": "Jane", "BI_rate": "7"}
    assert found.after == {"id": "2", "name": "Ann", "BI_rate": "7"}, (
        "a column of the table's own may begin like that"
    )
    assert list(found.columns) == ["id", "name", "BI_rate"]
    assert row("insert", data, prefix="BI_").before is None
    assert "BI_id" in (row("update", data).after or {}), "without the option they are columns"


@pytest.mark.parametrize(
    ("columns", "options"),
    [
        (["id", "name", "BI_id", "BI_name"], {"before_image_prefix": "BI_"}),
        (["BI_id", "id"], {"before_image_prefix": "BI_"}),
        (["id", "name", "BI_id"], {}),
        (["id", "BI_id", "BI_score"], {}),
        (["BI_id"], {}),
        (["id", "bi_id"], {}),
        ([], {}),
    ],
)
def test_before_images_as_columns_beside_every_column_show_the_prefix(
    columns: list[str], options: dict[str, str]
) -> None:
    assert FORMAT.missing_options(columns) == options
