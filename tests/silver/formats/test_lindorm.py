from __future__ import annotations

import json
from typing import Any

import pytest

from framework.contracts.events import Column, Control, ControlKind, Op, RowChange, Token
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.decoding.format import Context, Options
from silver.formats.lindorm import FORMAT

CONTEXT = Context("feed", Options(), "UTC", lambda database, schema, table: None)
DECODED = Context("feed", Options(), "UTC", lambda *names: None, lambda *names: {"f_name": "utf8"})


def decode(
    op: str, *, key: bytes | None = None, context: Context = CONTEXT, schema: Any = None, **images: Any
) -> RowChange:
    (event,) = FORMAT.decode(
        RawMessage("feed", "customers", 0, 0, None, key, message(op, schema, images)), context
    )
    assert isinstance(event, RowChange)
    return event


def message(op: str, schema: Any, images: dict[str, Any]) -> bytes:
    source = {
        "version": "v1.0",
        "db": "ld-xxxx",
        "namespace": "default",
        "table": "customers",
        "ts_ms": 1465491411807,
    }
    return json.dumps({"schema": schema or {}, "payload": {"op": op, "source": source, **images}}).encode()


def test_insert_with_before_null_is_the_whole_row() -> None:
    row = decode("c", before=None, after={"id": 1, "name": "Anne"})
    assert (row.op, row.before, row.after, row.partial) == (
        Op.INSERT,
        None,
        {"id": "1", "name": "Anne"},
        False,
    )


def test_insert_without_before_is_partial() -> None:
    assert decode("c", after={"id": 1}).partial


def test_column_left_out_of_after_is_null_from_now_on() -> None:
    row = decode("u", before={"id": 1, "first": "Anne", "last": "K"}, after={"id": 1, "first": "Anne"})
    assert row.after == {"id": "1", "first": "Anne", "last": None}


KEYED = Context("feed", Options(), "UTC", lambda database, schema, table: ("id",))


@pytest.mark.parametrize(("key", "context"), [(b'{"id": "1"}', CONTEXT), (None, KEYED)])
def test_a_key_that_after_leaves_out_is_unchanged(key: bytes | None, context: Context) -> None:
    row = decode("u", key=key, context=context, before={"id": "1", "a": "x", "b": "y"}, after={"a": "z"})
    assert (row.keys, row.after) == (("id",), {"id": "1", "a": "z", "b": None})


def test_a_row_of_hbase_keeps_its_key() -> None:
    row = decode("u", before={"ROW": "dXNlcjE=", "f_a": "AA==", "f_b": "AA=="}, after={"ROW": "dXNlcjE="})
    assert row.after == {"ROW": "dXNlcjE=", "f_a": None, "f_b": None}


@pytest.mark.parametrize("key", [b'{"id": "1"}', None])
def test_an_update_to_no_columns_is_refused(key: bytes | None) -> None:
    with pytest.raises(Malformed) as caught:
        decode("u", key=key, before={"id": "1", "a": "x"}, after={})
    assert caught.value.reason is Reason.MISSING_IMAGE


def test_column_absent_from_both_images_is_unchanged() -> None:
    row = decode("u", before={"id": 1, "first": "Anne"}, after={"id": 1, "first": "Bob"})
    assert row.partial
    assert row.after == {"id": "1", "first": "Bob"}


def test_schema_types_the_columns_in_its_order() -> None:
    fields = [
        {"type": "int8", "field": "size"},
        {"type": "int64", "field": "id"},
        {"type": "bytes", "field": "photo"},
    ]
    schema = {"type": "struct", "fields": [{"type": "struct", "field": "after", "fields": fields}]}
    row = decode("c", schema=schema, before=None, after={"id": 1, "extra": "x", "photo": "AAEC"})
    assert list(row.columns) == ["size", "id", "extra", "photo"]
    assert row.columns["photo"] == Column(type="binary", declared="bytes")
    assert row.columns["extra"] == Column(token=Token.TEXT)


def test_hbase_columns_are_binary_and_the_key_is_row() -> None:
    row = decode("c", after={"ROW": "dXNlcjE=", "f_last_name": "bHVja3k="})
    assert row.keys == ("ROW",)
    assert row.columns == {"ROW": Column(type="binary"), "f_last_name": Column(type="binary")}
    assert row.partial


def test_spaces_in_a_message_do_not_make_numbers_cells_of_hbase() -> None:
    spaced = message("c", None, {"ts_ms": 1, "before": None, "after": {"ROW": 5, "f_name": 7}})
    for value in (spaced, spaced.replace(b" ", b"")):
        (row,) = FORMAT.decode(RawMessage("feed", "customers", 0, 0, None, None, value), CONTEXT)
        assert isinstance(row, RowChange)
        assert row.keys is None
        assert row.columns == {"ROW": Column(token=Token.NUMBER), "f_name": Column(token=Token.NUMBER)}


def test_codec_makes_a_cell_text_in_both_images() -> None:
    row = decode(
        "u",
        context=DECODED,
        before={"ROW": "dXNlcjE=", "f_name": "w7w="},
        after={"ROW": "dXNlcjE=", "f_name": "bHVja3k="},
    )
    assert (row.before, row.after) == (
        {"ROW": "dXNlcjE=", "f_name": "ü"},
        {"ROW": "dXNlcjE=", "f_name": "lucky"},
    )
    assert row.columns["f_name"] == Column(type="string")


def test_cell_that_is_not_in_its_codec_is_quarantined() -> None:
    with pytest.raises(Malformed) as caught:
        decode("c", context=DECODED, after={"ROW": "dXNlcjE=", "f_name": "/w=="})
    assert caught.value.reason is Reason.ENCODING


@pytest.mark.parametrize(
    "key", [b'{"id": 1}', b'{"payload": {"id": 1}}', b'{"schema": {"type": "struct"}, "payload": {"id": 1}}']
)
def test_message_key_names_the_key(key: bytes) -> None:
    assert decode("c", key=key, before=None, after={"id": 1}).keys == ("id",)


@pytest.mark.parametrize("key", [b"no json", b'{"other": 1}', b"7", b""])
def test_another_kind_of_message_key_names_none(key: bytes) -> None:
    assert decode("c", key=key, before=None, after={"id": 1}).keys is None


def test_delete_without_before_image_keeps_the_key() -> None:
    row = decode("d", key=b'{"id": 1}', before=None, after=None)
    assert (row.op, row.before, row.after, row.keys) == (Op.DELETE, {"id": "1"}, None, ("id",))


def test_null_value_with_a_key_is_a_tombstone() -> None:
    (event,) = FORMAT.decode(RawMessage("feed", "customers", 0, 0, None, b"k", None), CONTEXT)
    assert isinstance(event, Control)
    assert event.kind is ControlKind.TOMBSTONE


def test_a_delete_of_an_hbase_row_that_only_the_message_key_tells_is_binary() -> None:
    row = decode("d", key=b'{"ROW":"dXNlcjE="}', after=None)
    assert (row.keys, row.before) == (("ROW",), {"ROW": "dXNlcjE="})
    assert row.columns == {"ROW": Column(type="binary")}


def test_a_delete_of_a_sql_row_that_only_the_message_key_tells_has_the_type_of_its_value() -> None:
    assert decode("d", key=b'{"id":1}', after=None).columns == {"id": Column(token=Token.NUMBER)}
    assert decode("d", key=b'{"ROW":1}', after=None).columns == {"ROW": Column(token=Token.NUMBER)}
    assert decode("d", key=b'{"ROW":"a","id":"b"}', after=None).columns["id"] == Column(token=Token.TEXT)
