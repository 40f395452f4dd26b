from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from framework.contracts.events import Column, RowChange, Token
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.decoding.format import ColumnHint
from silver.envelopes.configured_columns import ConfiguredColumns, decoded_rows
from silver.envelopes.oms.values import configured_value
from silver.formats import FORMATS
from tests.silver.recorded import Cell, messages_of, sample_of

NONE: Mapping[str, Any] = {}
WITHOUT_TYPES = sorted(FORMATS.keys() - {"debezium"})
"""The formats whose messages can leave a type out; Debezium's hints have their own tests."""


def decoded(
    name: str,
    cells: Mapping[str, object],
    hints: Mapping[str, ColumnHint] = NONE,
    codecs: Mapping[str, str] = NONE,
) -> RowChange:
    """The change of a format's sample with these columns, in Shanghai."""
    good = sample_of(name)
    context = replace(
        good.context, timezone="Asia/Shanghai", hints_for=lambda *_: hints, codecs_for=lambda *_: codecs
    )
    raw: list[Cell] = [(json.dumps(n).encode(), json.dumps(value).encode()) for n, value in cells.items()]
    message = RawMessage("feed", "topic", 0, 0, None, good.key, good.value(*raw))
    (change,) = good.format.decode(message, context)
    assert isinstance(change, RowChange)
    return change


@pytest.mark.parametrize("name", WITHOUT_TYPES)
def test_times_without_a_type_are_read_as_the_configuration_types_them(name: str) -> None:
    wall = "2020-11-25 00:01:02.5"
    hints = {
        "their paid": ColumnHint("timestamp"),
        "their made": ColumnHint("timestamp_ntz"),
        "their gone": ColumnHint("date"),
    }
    change = decoded(
        name, {"their paid": wall, "their made": wall, "their note": wall, "their gone": None}, hints
    )
    assert change.after is not None
    found = [(change.after[n], change.columns[n].type) for n in ("their paid", "their made", "their gone")]
    assert found == [
        ("2020-11-24T16:01:02.5Z", "timestamp"),
        ("2020-11-25T00:01:02.5", "timestamp_ntz"),
        (None, "date"),
    ]
    assert (change.after["their note"], change.columns["their note"].type) == (wall, None)


@pytest.mark.parametrize(
    ("hint", "cell", "text"),
    [
        (ColumnHint("timestamp"), "1606233662.012345", "2020-11-24T16:01:02.012345Z"),
        (ColumnHint("timestamp"), 1606233662, "2020-11-24T16:01:02Z"),
        (ColumnHint("timestamp"), "2020-11-25 00:01:02 America/New_York", "2020-11-25T05:01:02Z"),
        (ColumnHint("timestamp"), "0000-00-00 00:00:00", "0000-00-00 00:00:00"),
        (ColumnHint("timestamp_ntz"), "2020-11-25T00:01", "2020-11-25T00:01:00"),
        (ColumnHint("date"), "2020-11-25T00:00", "2020-11-25"),
        (ColumnHint("boolean"), 1, "true"),
        (ColumnHint("boolean", "base64"), "AQ==", "AQ=="),
        (ColumnHint("decimal(20,0)", "base64"), "AQI=", "258"),
        (ColumnHint("decimal(20,0)", "base64"), "", "0"),
        (ColumnHint("decimal(20,0)", "base64"), 258, "258"),
        (ColumnHint("timestamp", "microseconds"), "1606233662012345", "2020-11-24T16:01:02.012345Z"),
        (ColumnHint("timestamp_ntz", "microseconds"), 1606233662012345, "2020-11-25T00:01:02.012345"),
        (ColumnHint("timestamp_ntz", "milliseconds"), "2020-11-25T00:01", "2020-11-25T00:01:00"),
        (ColumnHint("string", "microseconds"), "36000000000", "10:00:00"),
    ],
)
@pytest.mark.parametrize("name", ["oms_default", "oms_shareplex"])
def test_values_of_oms_are_read_in_its_own_spelling(
    name: str, hint: ColumnHint, cell: object, text: str
) -> None:
    change = decoded(name, {"c": cell}, {"c": hint})
    assert change.after is not None
    assert (change.after["c"], change.columns["c"].type) == (text, hint.type)


@pytest.mark.parametrize(
    ("hint", "cell", "text"),
    [
        (ColumnHint("timestamp", "microseconds"), "1606233662012345", "2020-11-24T16:01:02.012345Z"),
        (ColumnHint("timestamp_ntz", "milliseconds"), "1606233662012", "2020-11-24T16:01:02.012"),
        (ColumnHint("timestamp"), "1606233662", "1606233662"),
        (ColumnHint("timestamp"), "2020-11-25 00:01:02+01:00", "2020-11-24T23:01:02Z"),
        (ColumnHint("timestamp"), "2020-11-25T00:01:02Z", "2020-11-25T00:01:02Z"),
        (ColumnHint("timestamp_ntz"), "soon", "soon"),
        (ColumnHint("date"), "2020-11-25 00:00:00.000", "2020-11-25"),
        (ColumnHint("date"), "2020-11-25 00:00:01", "2020-11-25 00:00:01"),
        (ColumnHint("boolean"), "0", "false"),
        (ColumnHint("decimal(12,2)", "base64"), "/CI=", "-9.90"),
        (ColumnHint("bigint", "base64"), "/CI=", "-990"),
        (ColumnHint("string", "milliseconds"), "36000500", "10:00:00.500"),
        (ColumnHint("string", "microseconds"), "36000000000", "10:00:00"),
        (ColumnHint("string", "nanoseconds"), "36000000000001", "10:00:00.000000001"),
        (ColumnHint("string", "microseconds"), "10:00:00", "10:00:00"),
    ],
)
def test_other_feeds_write_times_as_texts_or_counts(hint: ColumnHint, cell: str, text: str) -> None:
    configured = ConfiguredColumns({"c": hint}, "Asia/Shanghai")
    found = configured.row({"c": cell}, {"c": Column(token=Token.TEXT)})
    assert found == ({"c": text}, {"c": Column(type=hint.type)})


@pytest.mark.parametrize("name", sorted(FORMATS))
@pytest.mark.parametrize(
    ("encoding", "cell", "text"),
    [
        ("hex", "0a0bff01", "Cgv/AQ=="),
        ("hex", "0x0102", "AQI="),
        ("hex", "", ""),
        ("hex", "beef1", "hex:beef1"),
        ("hex", "that", "hex:that"),
        ("hex", "0a 0b", "hex:0a 0b"),
        ("base64url", "-_-_", "+/+/"),
        ("base64url", "+/+/", "base64url:+/+/"),
        ("base64url", "beef1", "base64url:beef1"),
        ("base64", "beef", "beef"),
        ("base64", "beef1", "beef1"),
        ("hex", None, None),
    ],
)
def test_bytes_are_read_in_their_encoding_in_every_format(
    name: str, encoding: str, cell: str | None, text: str | None
) -> None:
    change = decoded(name, {"the photo": cell}, {"the photo": ColumnHint("binary", encoding)})
    assert change.after is not None
    assert (change.after["the photo"], change.columns["the photo"].type) == (text, "binary")


@pytest.mark.parametrize("name", WITHOUT_TYPES)
def test_a_number_is_no_bytes(name: str) -> None:
    hints = {"the photo": ColumnHint("binary", "hex"), "the mark": ColumnHint("binary")}
    change = decoded(name, {"the photo": 1020, "the mark": 1020}, hints)
    assert change.after is not None
    assert (change.after["the photo"], change.after["the mark"]) == ("hex:1020", "base64:1020")


@pytest.mark.parametrize(
    ("hint", "cell", "text"),
    [
        (ColumnHint("binary"), "0x0102", "AQI="),
        (ColumnHint("binary"), "0x01020", "hex:0x01020"),
        (ColumnHint("binary"), "AQI=", "AQI="),
        (ColumnHint("binary", "base64"), "0x0102==", "0x0102=="),
    ],
)
def test_bytes_of_dms_are_hexadecimal_after_0x(hint: ColumnHint, cell: str, text: str) -> None:
    change = decoded("dms", {"photo": cell}, {"photo": hint})
    assert change.after is not None
    assert (change.after["photo"], change.columns["photo"]) == (text, Column(type="binary"))


FIELDS = [{"field": n, "type": kind} for n, kind in (("photo", "string"), ("id", "int32"))]
SIDES = {"schema": {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": FIELDS}]}}
ROW = {"photo": "0a0bff01", "id": 1}
DECLARED: dict[str, dict[str, Any]] = {
    "arcion": {**SIDES, "payload": {"op": "r", "after": ROW, "source": {"table": "t", "db": "d"}}},
    "lindorm": {
        **SIDES,
        "payload": {"op": "r", "after": ROW, "source": {"table": "t", "namespace": "d", "ts_ms": 5}},
    },
    "ogg": {**SIDES, "payload": {"table": "d.t", "op_type": "I", "pos": "1", "after": ROW}},
    "debezium": {
        **SIDES,
        "payload": {
            "op": "r",
            "after": ROW,
            "source": {"connector": "mysql", "snapshot": "true", "table": "t"},
        },
    },
    "datahub_blob": {
        "schema": {
            "dataColumn": [{"name": "photo", "type": "STRING"}, {"name": "id", "type": "LONG"}],
            "source": {"dbName": "d", "tableName": "t"},
        },
        "payload": {"op": "INSERT", "sequenceId": "1", "after": {"dataColumn": ROW}},
    },
    "canal": {
        **{"database": "d", "table": "t", "type": "INSERT", "es": 5},
        **{"mysqlType": {"photo": "varchar(20)", "id": "int(11)"}, "data": [ROW]},
    },
}


@pytest.mark.parametrize("name", DECLARED)
def test_a_declared_text_is_bytes_where_the_configuration_gives_their_encoding(name: str) -> None:
    """No feed says of a text that it is hexadecimal; gold has the type that the configuration says."""
    found = []
    for hint in (ColumnHint("binary", "hex"), ColumnHint("binary"), ColumnHint("timestamp")):
        context = replace(sample_of(name).context, hints_for=lambda *_, h=hint: {"photo": h})
        value = json.dumps(DECLARED[name]).encode()
        (change,) = FORMATS[name].decode(RawMessage("feed", "topic", 0, 0, None, None, value), context)
        assert isinstance(change, RowChange)
        assert list(change.columns) == ["photo", "id"]
        found.append(((change.after or {})["photo"], change.columns["photo"].type))
    assert found == [("Cgv/AQ==", "binary"), ("0a0bff01", "string"), ("0a0bff01", "string")]


@pytest.mark.parametrize("before", [{"photo": "0a0bff01", "id": 1}, {"id": 1}, None])
def test_a_deleted_row_has_the_key_that_its_inserted_row_had(before: dict[str, Any] | None) -> None:
    """A key with a schema block is read as the row is; a column that the delete lacks keeps its type."""
    photo = {"field": "photo", "type": "string"}
    row = {"type": "struct", "fields": [photo, {"field": "id", "type": "int32"}]}
    fields = [{**row, "field": name, "optional": True} for name in ("before", "after")]
    source = {"connector": "mysql", "db": "d", "table": "t", "file": "b.1", "pos": 4, "row": 0}
    payload = {"op": "d", "before": before, "after": None, "source": source, "ts_ms": 1}
    value = {"schema": {"type": "struct", "fields": fields}, "payload": payload}
    key = {"schema": {"type": "struct", "fields": [photo]}, "payload": {"photo": "0a0bff01"}}
    context = replace(
        sample_of("debezium").context, hints_for=lambda *_: {"photo": ColumnHint("binary", "hex")}
    )
    message = RawMessage("feed", "t", 0, 0, None, json.dumps(key).encode(), json.dumps(value).encode())
    (change,) = FORMATS["debezium"].decode(message, context)
    assert isinstance(change, RowChange)
    assert (change.keys, (change.before or {})["photo"]) == (("photo",), "Cgv/AQ==")
    assert change.columns["photo"].type == "binary"


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_a_time_of_oms_that_is_no_count_is_read_as_a_text(kind: str) -> None:
    hint = ColumnHint(kind, "milliseconds")
    texts = [configured_value(hint, Token.TEXT, text, "UTC") for text in ("86400000", "2020-12-30 16:11:11")]
    zone = "Z" if kind == "timestamp" else ""
    assert texts == [f"1970-01-02T00:00:00.000{zone}", f"2020-12-30T16:11:11{zone}"]


@pytest.mark.parametrize("name", ["arcion", "lindorm", "ogg", "datahub_blob"])
def test_a_column_that_the_declaration_leaves_out_keeps_its_place(name: str) -> None:
    text = json.dumps(DECLARED[name]).replace('"photo": "0a0bff01", ', '"photo": "0a0bff01", "made": 5, ')
    context = replace(sample_of(name).context, hints_for=lambda *_: {"made": ColumnHint("timestamp")})
    (change,) = FORMATS[name].decode(RawMessage("feed", "topic", 0, 0, None, None, text.encode()), context)
    assert isinstance(change, RowChange)
    assert list(change.columns) == ["photo", "made", "id"]


def test_a_type_that_the_message_declares_stays() -> None:
    configured = ConfiguredColumns({"c": ColumnHint("timestamp"), "not there": ColumnHint("date")})
    texts, columns = {"c": "2020-11-25T00:01:02"}, {"c": Column(type="timestamp_ntz", declared="DATETIME")}
    assert configured.row(texts, columns) == (texts, columns)
    assert configured.image(None, {}) == (None, {})


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_a_configured_codec_makes_bytes_text_in_every_format(name: str) -> None:
    sent = "größe".encode().decode("latin-1") if name == "canal" else "Z3LDtsOfZQ=="
    change = decoded(name, {"their photo": sent, "their note": sent}, codecs={"their photo": "utf8"})
    assert change.after is not None
    assert (change.after["their photo"], change.after["their note"]) == ("größe", sent)
    assert change.columns["their photo"] == Column(type="string")


def test_only_bytes_have_a_codec() -> None:
    columns = {
        "photo": Column(type="binary", declared="BYTES"),
        "name": Column(type="string", declared="STRING"),
        "n": Column(token=Token.NUMBER),
        "none": Column(token=Token.NULL),
    }
    before = {"photo": "YQ==", "name": "YQ==", "n": "7", "none": None}
    codecs = {**dict.fromkeys(columns, "utf8"), "not there": "utf8"}
    images, found = decoded_rows((before, None), columns, codecs)
    assert images == ({"photo": "a", "name": "YQ==", "n": "7", "none": None}, None)
    texts = {"photo": Column(type="string", declared="BYTES"), "none": Column(type="string")}
    assert found == {**columns, **texts}


def test_bytes_that_are_not_in_their_codec_are_refused() -> None:
    with pytest.raises(Malformed) as refused:
        decoded("oms_shareplex", {"photo": "/w=="}, codecs={"photo": "utf8"})
    assert refused.value.reason is Reason.ENCODING


def test_a_key_that_only_the_packed_value_has_is_read_too() -> None:
    message = messages_of("oms_default/rows")[0]
    assert message.value is not None
    value = json.loads(message.value)
    value["allMetaData"]["record_primary_value"] = "27\x011606233662"
    value["postStruct"] = {"order_id": 27}
    good = sample_of("oms_default")
    context = replace(good.context, hints_for=lambda *_: {"line": ColumnHint("timestamp")})
    (change,) = good.format.decode(
        RawMessage("feed", "topic", 0, 0, None, None, json.dumps(value).encode()), context
    )
    assert isinstance(change, RowChange)
    assert change.after is not None
    assert change.after["line"] == "2020-11-24T16:01:02Z"
