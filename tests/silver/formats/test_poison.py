"""Thirty kinds of broken messages, for every format: quarantined with the right reason, or accepted exactly."""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

import pytest

from framework.contracts.events import Control, ControlKind, Event
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.formats import FORMATS
from tests.silver.recorded import Sample, sample_of

NAMES = sorted(FORMATS)
ALL = pytest.mark.parametrize("name", NAMES)
sample = lru_cache(sample_of)


class Empty(Exception):
    """A decoder said `empty`."""


def decoded(good: Sample, value: bytes | None) -> Sequence[Event]:
    try:
        return good.decode(value)
    except Malformed as error:
        if error.reason is Reason.EMPTY:
            raise Empty from None
        raise


def reason_of(good: Sample, value: bytes | None) -> Reason:
    with pytest.raises(Malformed) as caught:
        good.decode(value)
    return caught.value.reason


WHOLE: dict[str, tuple[Callable[[bytes], bytes], Reason]] = {
    "01 empty": (lambda good: b"", Reason.EMPTY),
    "02 spaces": (lambda good: b" \t\r\n", Reason.EMPTY),
    "04 null": (lambda good: b"null", Reason.WRONG_SHAPE),
    "05 number": (lambda good: b"123", Reason.WRONG_SHAPE),
    "05 text": (lambda good: b'"abc"', Reason.WRONG_SHAPE),
    "05 boolean": (lambda good: b"true", Reason.WRONG_SHAPE),
    "06 empty array": (lambda good: b"[]", Reason.WRONG_SHAPE),
    "07 array of messages": (lambda good: b"[" + good + b"," + good + b"]", Reason.WRONG_SHAPE),
    "08 html": (lambda good: b"<html><body>502</body></html>", Reason.NOT_JSON),
    "08 log text": (lambda good: b"2024-02-29 10:00:00 ERROR no route", Reason.NOT_JSON),
    "09 truncated": (lambda good: good[:-20], Reason.TRUNCATED),
    "10 two objects": (lambda good: good + good, Reason.NOT_JSON),
    "10 two objects on two lines": (lambda good: good + b"\n" + good, Reason.NOT_JSON),
    "11 text behind": (lambda good: good + b" xyz", Reason.NOT_JSON),
    "14 a byte order mark alone": (lambda good: b"\xef\xbb\xbf", Reason.EMPTY),
    "14 two byte order marks": (lambda good: b"\xef\xbb\xbf\xef\xbb\xbf" + good, Reason.NOT_JSON),
    "18 UTF-16": (lambda good: good.decode().encode("utf-16"), Reason.ENCODING),
    "28 nested too deep": (lambda good: b'{"payload":' * 5000 + b"1" + b"}" * 5000, Reason.TOO_DEEP),
    "gzip": (lambda good: gzip.compress(good), Reason.COMPRESSED),
    "schema registry": (lambda good: b"\x00\x00\x00\x00\x07\x02" + good, Reason.SCHEMA_REGISTRY),
    "double encoded": (lambda good: json.dumps(good.decode()).encode(), Reason.DOUBLE_ENCODED),
}


@ALL
@pytest.mark.parametrize("case", WHOLE)
def test_a_poison_message_is_quarantined_with_its_reason(name: str, case: str) -> None:
    good = sample(name)
    spoil, reason = WHOLE[case]
    assert reason_of(good, spoil(good.value())) is reason


WITH_TOMBSTONES = ("arcion", "debezium", "lindorm")
"""Formats whose writers send a tombstone behind the delete of a table without a key, too: then it has no key."""


@ALL
def test_03_a_null_value_is_a_tombstone_with_a_key_and_empty_without(name: str) -> None:
    good = sample(name)
    bare = Sample(good.format, good.context, None, good.document, good.column)
    if name in WITH_TOMBSTONES:
        (mark,) = decoded(bare, None)
        assert isinstance(mark, Control)
        assert mark.kind is ControlKind.TOMBSTONE
    else:
        assert reason_of(bare, None) is Reason.EMPTY
    keyed = Sample(good.format, good.context, b'{"id":1}', good.document, good.column)
    with suppress(Empty):  # the adapter around the decoders makes the tombstone of it
        (event,) = decoded(keyed, None)
        assert isinstance(event, Control)
        assert event.kind is ControlKind.TOMBSTONE


CELLS: dict[str, tuple[bytes, Reason]] = {
    "12 a name twice": (b'"cell":1,"cell":2', Reason.DUPLICATE_NAME),
    "12 a name twice as number and text": (b'"cell":1,"cell":"1"', Reason.DUPLICATE_NAME),
    "12 a name twice in two spellings": (b'"cell":1,"cel\\u006c":2', Reason.DUPLICATE_NAME),
    "15 raw control character": (b'"cell":"a\x01b"', Reason.NOT_JSON),
    "17 lone high surrogate": (b'"cell":"\\ud800"', Reason.ENCODING),
    "17 lone high surrogate before text": (b'"cell":"\\ud83dx"', Reason.ENCODING),
    "17 high surrogate twice": (b'"cell":"\\ud83d\\ud83d\\ude00"', Reason.ENCODING),
    "17 lone low surrogate": (b'"cell":"\\udc00"', Reason.ENCODING),
    "17 lone surrogate in a name": (b'"ce\\ud800ll":"x"', Reason.ENCODING),
    "17 lone surrogate inside an object": (b'"cell":{"a":"\\ud800"}', Reason.ENCODING),
    "18 invalid UTF-8": (b'"cell":"\xff"', Reason.ENCODING),
    "18 invalid UTF-8 in a name": (b'"ce\xffll":"x"', Reason.ENCODING),
    "18 invalid UTF-8 inside an object": (b'"cell":{"a":"\xff"}', Reason.ENCODING),
    "19 unknown escape": (b'"cell":"\\q"', Reason.NOT_JSON),
    "20 comment": (b'/* c */"cell":"x"', Reason.NOT_JSON),
    "20 trailing comma": (b'"cell":"x",', Reason.NOT_JSON),
    "20 bare key": (b'cell:"x"', Reason.NOT_JSON),
    "21 single quotes": (b"'cell':'x'", Reason.NOT_JSON),
    "22 bare NaN": (b'"cell":NaN', Reason.NOT_JSON),
    "22 bare Infinity": (b'"cell":-Infinity', Reason.NOT_JSON),
    "23 leading zeros": (b'"cell":00012', Reason.NOT_JSON),
    "23 plus sign": (b'"cell":+1', Reason.NOT_JSON),
    "23 no digit before the point": (b'"cell":.5', Reason.NOT_JSON),
    "23 no digit behind the point": (b'"cell":5.', Reason.NOT_JSON),
    "26 number of over 1000 digits": (b'"cell":' + b"1" * 1001, Reason.TOO_LARGE),
    "26 number of over 1000 digits and a point": (
        b'"cell":' + b"1" * 500 + b"." + b"1" * 501,
        Reason.TOO_LARGE,
    ),
    "26 number of many zeros": (b'"cell":0.' + b"0" * 1200 + b"1", Reason.TOO_LARGE),
    "28 value nested too deep": (b'"cell":' + b"[" * 5000 + b"]" * 5000, Reason.TOO_DEEP),
    "too many columns": (b",".join(b'"c%d":1' % n for n in range(10_001)), Reason.TOO_MANY_COLUMNS),
}


@ALL
@pytest.mark.parametrize("case", CELLS)
def test_a_poison_value_quarantines_its_message(name: str, case: str) -> None:
    cells, reason = CELLS[case]
    assert reason_of(sample(name), sample(name).value(cells)) is reason


@ALL
def test_the_reason_names_a_field_and_never_a_value(name: str) -> None:
    with pytest.raises(Malformed) as caught:
        sample(name).decode(sample(name).value(b'"cell":"s3cret\xff"'))
    assert "s3cret" not in caught.value.detail


ACCEPTED: dict[str, tuple[bytes, dict[str, str]]] = {
    "12 the same name and value twice": (b'"cell":"x","cell":"x"', {"cell": "x"}),
    "13 names that differ by case": (b'"cell":"x","Cell":"y"', {"cell": "x", "Cell": "y"}),
    "16 a NUL escape": (b'"cell":"a\\u0000b"', {"cell": "a\x00b"}),
    "17 a whole surrogate pair": (b'"cell":"\\ud83d\\ude00"', {"cell": "😀"}),
    "17 an escaped backslash before u": (b'"cell":"\\\\ud800"', {"cell": "\\ud800"}),
    "24 a number beyond doubles": (b'"cell":1e400', {"cell": "1e400"}),
    "25 forty digits": (b'"cell":' + b"1" * 40, {"cell": "1" * 40}),
    "25 seven hundred decimals": (b'"cell":0.' + b"1" * 700, {"cell": "0." + "1" * 700}),
    "25 nine hundred digits": (b'"cell":-9' + b"9" * 900, {"cell": "-9" + "9" * 900}),
    "25 the smallest double in full": (
        b'"cell":0.' + b"0" * 323 + b"4" * 751,
        {"cell": "0." + "0" * 323 + "4" * 751},
    ),
    "27 a text of two million characters": (b'"cell":"' + b"x" * 2_000_000 + b'"', {"cell": "x" * 2_000_000}),
    "an object": (b'"cell":{"b": 1.10, "a": 1e400, "a": 1}', {"cell": '{"b": 1.10, "a": 1e400, "a": 1}'}),
    "text like a number": (b'"cell":"007"', {"cell": "007"}),
}


@ALL
@pytest.mark.parametrize("case", ACCEPTED)
def test_an_odd_value_is_kept_exactly(name: str, case: str) -> None:
    cells, expected = ACCEPTED[case]
    image = sample(name).after(sample(name).value(cells))
    assert {column: image[column] for column in expected} == expected


@ALL
def test_14_one_byte_order_mark_in_front_is_accepted(name: str) -> None:
    good = sample(name)
    assert good.after(b"\xef\xbb\xbf" + good.value()) == good.after(good.value())


def test_27_a_text_of_21_million_characters_is_kept() -> None:
    good = sample("datahub_blob")
    assert len(good.after(good.value(b'"cell":"' + b"x" * 21_000_000 + b'"'))["cell"] or "") == 21_000_000


_BLOB = {
    "op": "payload.op",
    "image": "payload.after",
    "table": "schema.source.tableName",
    "position": "payload.sequenceId",
}
_DEFAULT = {
    "op": "recordType",
    "image": "postStruct",
    "table": "allMetaData.table_name",
    "position": "allMetaData.storeDataSequence",
}
_CANAL = {"op": "type", "image": "data", "table": "table", "position": "es"}
_CONNECT = {"op": "payload.op", "image": "payload.after", "table": "payload.source.table"}
PATHS: dict[str, dict[str, str]] = {
    "arcion": {**_CONNECT, "position": "payload.source.pos"},
    "canal": _CANAL,
    "datahub_blob": _BLOB,
    "datahub_tuple": {"op": "_operation_type_", "table": "_source_table_", "position": "_sequence_id_"},
    "debezium": {**_CONNECT, "position": "payload.source.pos"},
    "dms": {
        "op": "metadata.operation",
        "image": "data",
        "table": "metadata.table-name",
        "position": "metadata.transaction-record-id",
    },
    "lindorm": {**_CONNECT, "position": "payload.source.ts_ms"},
    "maxwell": {"op": "type", "image": "data", "table": "table", "position": "xid"},
    "ogg": {"op": "op_type", "image": "after", "table": "table", "position": "pos"},
    "oms_canal": _CANAL,
    "oms_dataworks": {**_BLOB, "table": "schema.source.table", "position": "payload.timestamp.eventTime"},
    "oms_default": _DEFAULT,
    "oms_default_extend": _DEFAULT,
    "oms_shareplex": {"op": "meta.op", "image": "data", "table": "meta.table", "position": "meta.scn"},
}
GONE = object()
SHAPES: list[tuple[str, str, object, Reason]] = [
    ("op missing", "op", GONE, Reason.WRONG_SHAPE),
    ("op null", "op", None, Reason.WRONG_SHAPE),
    ("op an object", "op", {"of": 1}, Reason.WRONG_SHAPE),
    ("op unknown", "op", "MERGE", Reason.UNKNOWN_OP),
    ("op in other letters", "op", "Ins", Reason.UNKNOWN_OP),
    ("image a text", "image", "text", Reason.WRONG_SHAPE),
    ("image a number", "image", 7, Reason.WRONG_SHAPE),
    ("image null", "image", None, Reason.MISSING_IMAGE),
    ("image missing", "image", GONE, Reason.MISSING_IMAGE),
    ("table missing", "table", GONE, Reason.MISSING_TABLE),
    ("table null", "table", None, Reason.MISSING_TABLE),
    ("position text", "position", "16x", Reason.BAD_POSITION),
    ("position negative", "position", -2, Reason.BAD_POSITION),  # -1 is that of a full load in DataHub
    ("position a fraction", "position", 1.5, Reason.BAD_POSITION),
    ("position of 100 digits", "position", int("1" * 100), Reason.BAD_POSITION),
]


@pytest.mark.parametrize("name", sorted(PATHS))
@pytest.mark.parametrize(
    ("path", "value", "reason"), [case[1:] for case in SHAPES], ids=[case[0] for case in SHAPES]
)
def test_29_json_of_another_shape_is_quarantined_with_a_field_level_reason(
    name: str, path: str, value: object, reason: Reason
) -> None:
    if path not in PATHS[name]:
        assert (name, path) == ("datahub_tuple", "image")  # its record is the image
        return
    good = sample(name)
    document = copy.deepcopy(good.document)
    put(document, PATHS[name][path], value)
    assert reason_of(good, json.dumps(document).encode()) is reason


def put(document: Any, path: str, value: object) -> None:
    *parents, last = path.split(".")
    for parent in parents:
        document = document[parent]
    assert last in document
    if value is GONE:
        del document[last]
    else:
        document[last] = value


SHARED_ENVELOPES = [{"oms_default", "oms_default_extend"}, {"canal", "oms_canal"}]
"""Formats that share an envelope: nothing in one message need tell them apart."""


ONE_WAY_READERS = {("arcion", "debezium")}
"""Formats that read the other's messages, but not the other way round."""


@pytest.mark.parametrize("other", sorted(PATHS))
@pytest.mark.parametrize("name", sorted(PATHS))
def test_29_a_message_of_another_format_is_quarantined(name: str, other: str) -> None:
    if name == other or {name, other} in SHARED_ENVELOPES or (name, other) in ONE_WAY_READERS:
        assert sample(name).decode(sample(other).value())
    else:
        assert reason_of(sample(name), sample(other).value())


@pytest.mark.parametrize("name", [name for name in NAMES if sample_of(name).column])
@pytest.mark.parametrize(
    ("wire", "text"), [("abc", "abc"), (300000000000, "300000000000"), (9.5, "9.5"), (True, "true")]
)
def test_30_a_value_of_the_wrong_type_stays_as_its_text(name: str, wire: object, text: str) -> None:
    good = sample(name)
    assert good.after(good.with_cell(good.column, wire))[good.column] == text


def test_every_kind_of_poison_is_tried_on_every_format() -> None:
    tried = {case[:2] for case in (*WHOLE, *CELLS, *ACCEPTED) if case[:2].isdigit()} | {
        "03",
        "14",
        "29",
        "30",
    }
    assert tried == {f"{kind:02}" for kind in range(1, 31)}
    assert sorted(PATHS) == NAMES
