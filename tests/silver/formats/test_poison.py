"""Thirty kinds of broken messages, for every format:
quarantined with the right reason, or accepted exactly.
"""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from framework.contracts.events import Control, ControlKind, Event
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.detection.signatures import share_envelope
from silver.formats import FORMATS
from tests.silver.recorded import Cell, Sample, sample_of

NAMES = sorted(FORMATS)
ALL = pytest.mark.parametrize("name", NAMES)


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
    good = sample_of(name)
    spoil, reason = WHOLE[case]
    assert reason_of(good, spoil(good.value())) is reason


WITH_TOMBSTONES = ("arcion", "debezium", "lindorm")
"""Formats whose writers send a tombstone behind the delete of a table without a key, too:
then it has no key.
"""


@ALL
def test_03_a_null_value_is_a_tombstone_with_a_key_and_empty_without(name: str) -> None:
    good = sample_of(name)
    bare = replace(good, key=None)
    if name in WITH_TOMBSTONES:
        (mark,) = decoded(bare, None)
        assert isinstance(mark, Control)
        assert mark.kind is ControlKind.TOMBSTONE
    else:
        assert reason_of(bare, None) is Reason.EMPTY
    keyed = replace(good, key=b'{"id":1}')
    with suppress(Empty):  # the adapter around the decoders makes the tombstone of it
        (event,) = decoded(keyed, None)
        assert isinstance(event, Control)
        assert event.kind is ControlKind.TOMBSTONE


CELL = b'"cell"'
CELLS: dict[str, tuple[Sequence[Cell], Reason]] = {
    "12 a name twice": ([(CELL, b"1"), (CELL, b"2")], Reason.DUPLICATE_NAME),
    "12 a name twice as number and text": ([(CELL, b"1"), (CELL, b'"1"')], Reason.DUPLICATE_NAME),
    "12 a name twice in two spellings": ([(CELL, b"1"), (b'"cel\\u006c"', b"2")], Reason.DUPLICATE_NAME),
    "15 raw control character": ([(CELL, b'"a\x01b"')], Reason.NOT_JSON),
    "17 lone high surrogate": ([(CELL, b'"\\ud800"')], Reason.ENCODING),
    "17 lone high surrogate before text": ([(CELL, b'"\\ud83dx"')], Reason.ENCODING),
    "17 high surrogate twice": ([(CELL, b'"\\ud83d\\ud83d\\ude00"')], Reason.ENCODING),
    "17 lone low surrogate": ([(CELL, b'"\\udc00"')], Reason.ENCODING),
    "17 lone surrogate in a name": ([(b'"ce\\ud800ll"', b'"x"')], Reason.ENCODING),
    "17 lone surrogate inside an object": ([(CELL, b'{"a":"\\ud800"}')], Reason.ENCODING),
    "18 invalid UTF-8": ([(CELL, b'"\xff"')], Reason.ENCODING),
    "18 invalid UTF-8 in a name": ([(b'"ce\xffll"', b'"x"')], Reason.ENCODING),
    "18 invalid UTF-8 inside an object": ([(CELL, b'{"a":"\xff"}')], Reason.ENCODING),
    "19 unknown escape": ([(CELL, b'"\\q"')], Reason.NOT_JSON),
    "20 comment": ([(b'/* c */"cell"', b'"x"')], Reason.NOT_JSON),
    "20 trailing comma": ([(CELL, b'"x",')], Reason.NOT_JSON),
    "20 bare key": ([(b"cell", b'"x"')], Reason.NOT_JSON),
    "21 single quotes": ([(b"'cell'", b"'x'")], Reason.NOT_JSON),
    "22 bare NaN": ([(CELL, b"NaN")], Reason.NOT_JSON),
    "22 bare Infinity": ([(CELL, b"-Infinity")], Reason.NOT_JSON),
    "23 leading zeros": ([(CELL, b"00012")], Reason.NOT_JSON),
    "23 plus sign": ([(CELL, b"+1")], Reason.NOT_JSON),
    "23 no digit before the point": ([(CELL, b".5")], Reason.NOT_JSON),
    "23 no digit behind the point": ([(CELL, b"5.")], Reason.NOT_JSON),
    "26 number of over 1000 digits": ([(CELL, b"1" * 1001)], Reason.TOO_LARGE),
    "26 number of over 1000 digits and a point": (
        [(CELL, b"1" * 500 + b"." + b"1" * 501)],
        Reason.TOO_LARGE,
    ),
    "26 number of many zeros": ([(CELL, b"0." + b"0" * 1200 + b"1")], Reason.TOO_LARGE),
    "28 value nested too deep": ([(CELL, b"[" * 5000 + b"]" * 5000)], Reason.TOO_DEEP),
    "too many columns": ([(b'"c%d"' % n, b"1") for n in range(10_001)], Reason.TOO_MANY_COLUMNS),
}


@ALL
@pytest.mark.parametrize("case", CELLS)
def test_a_poison_value_quarantines_its_message(name: str, case: str) -> None:
    cells, reason = CELLS[case]
    assert reason_of(sample_of(name), sample_of(name).value(*cells)) is reason


@ALL
def test_the_reason_names_a_field_and_never_a_value(name: str) -> None:
    with pytest.raises(Malformed) as caught:
        sample_of(name).decode(sample_of(name).value((CELL, b'"s3cret\xff"')))
    assert "s3cret" not in caught.value.detail


ACCEPTED: dict[str, tuple[Sequence[Cell], dict[str, str]]] = {
    "12 the same name and value twice": ([(CELL, b'"x"'), (CELL, b'"x"')], {"cell": "x"}),
    "13 names that differ by case": ([(CELL, b'"x"'), (b'"Cell"', b'"y"')], {"cell": "x", "Cell": "y"}),
    "16 a NUL escape": ([(CELL, b'"a\\u0000b"')], {"cell": "a\x00b"}),
    "17 a whole surrogate pair": ([(CELL, b'"\\ud83d\\ude00"')], {"cell": "😀"}),
    "17 an escaped backslash before u": ([(CELL, b'"\\\\ud800"')], {"cell": "\\ud800"}),
    "24 a number beyond doubles": ([(CELL, b"1e400")], {"cell": "1e400"}),
    "25 forty digits": ([(CELL, b"1" * 40)], {"cell": "1" * 40}),
    "25 seven hundred decimals": ([(CELL, b"0." + b"1" * 700)], {"cell": "0." + "1" * 700}),
    "25 nine hundred digits": ([(CELL, b"-9" + b"9" * 900)], {"cell": "-9" + "9" * 900}),
    "25 the smallest double in full": (
        [(CELL, b"0." + b"0" * 323 + b"4" * 751)],
        {"cell": "0." + "0" * 323 + "4" * 751},
    ),
    "27 a text of two million characters": (
        [(CELL, b'"' + b"x" * 2_000_000 + b'"')],
        {"cell": "x" * 2_000_000},
    ),
    "an object": ([(CELL, b'{"b": 1.10, "a": 1e400, "a": 1}')], {"cell": '{"b": 1.10, "a": 1e400, "a": 1}'}),
    "text like a number": ([(CELL, b'"007"')], {"cell": "007"}),
}


@ALL
@pytest.mark.parametrize("case", ACCEPTED)
def test_an_odd_value_is_kept_exactly(name: str, case: str) -> None:
    cells, expected = ACCEPTED[case]
    image = sample_of(name).after(sample_of(name).value(*cells))
    assert {column: image[column] for column in expected} == expected


@ALL
def test_14_one_byte_order_mark_in_front_is_accepted(name: str) -> None:
    good = sample_of(name)
    assert good.after(b"\xef\xbb\xbf" + good.value()) == good.after(good.value())


def test_27_a_text_of_21_million_characters_is_kept() -> None:
    good = sample_of("datahub_blob")
    assert len(good.after(good.value((CELL, b'"' + b"x" * 21_000_000 + b'"')))["cell"] or "") == 21_000_000


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
"""For each format: where its sample has the operation, the row, the table's name and the position."""

GONE = object()
SHAPES: dict[str, tuple[str, object, Reason]] = {
    "op missing": ("op", GONE, Reason.WRONG_SHAPE),
    "op null": ("op", None, Reason.WRONG_SHAPE),
    "op an object": ("op", {"of": 1}, Reason.WRONG_SHAPE),
    "op unknown": ("op", "MERGE", Reason.UNKNOWN_OP),
    "op in other letters": ("op", "Ins", Reason.UNKNOWN_OP),
    "image a text": ("image", "text", Reason.WRONG_SHAPE),
    "image a number": ("image", 7, Reason.WRONG_SHAPE),
    "image null": ("image", None, Reason.MISSING_IMAGE),
    "image missing": ("image", GONE, Reason.MISSING_IMAGE),
    "table missing": ("table", GONE, Reason.MISSING_TABLE),
    "table null": ("table", None, Reason.MISSING_TABLE),
    "position text": ("position", "16x", Reason.BAD_POSITION),
    "position negative": ("position", -2, Reason.BAD_POSITION),  # -1 is that of a full load in DataHub
    "position a fraction": ("position", 1.5, Reason.BAD_POSITION),
    "position of 100 digits": ("position", int("1" * 100), Reason.BAD_POSITION),
}
"""A spoiled member of a message, its new value, and the reason for which the message is refused."""


@ALL
def test_29_the_paths_of_a_formats_members_are_known(name: str) -> None:
    assert name in PATHS, (
        f"write the paths of op, image, table and position in a message of {name} into PATHS"
    )


@pytest.mark.parametrize("name", sorted(PATHS))
@pytest.mark.parametrize("case", SHAPES)
def test_29_json_of_another_shape_is_quarantined_with_a_field_level_reason(name: str, case: str) -> None:
    member, value, reason = SHAPES[case]
    if member not in PATHS[name]:
        assert (name, member) == ("datahub_tuple", "image")  # its record is the image
        return
    good = sample_of(name)
    document = copy.deepcopy(good.document)
    put(document, PATHS[name][member], value)
    assert reason_of(good, json.dumps(document).encode()) is reason


def put(document: Any, path: str, value: object) -> None:
    *parents, last = path.split(".")
    for parent in parents:
        document = document[parent]
    assert last in document, f"no member {path!r} in the sample of the format: correct its entry in PATHS"
    if value is GONE:
        del document[last]
    else:
        document[last] = value


def is_read(name: str, other: str) -> bool:
    """Whether a format reads the sample of another one."""
    try:
        return bool(sample_of(name).decode(sample_of(other).value()))
    except Malformed:
        return False


@pytest.mark.parametrize("other", NAMES)
@ALL
def test_29_a_message_of_another_format_is_quarantined(name: str, other: str) -> None:
    if name == other or share_envelope(FORMATS, name, other):
        assert is_read(name, other) or is_read(other, name), "neither format reads the other's messages"
    else:
        assert not is_read(name, other), (
            f"{name} reads the messages of {other}: do they share an envelope? Then name it in"
            " `shares_envelope_with` of your format, and write a `signature`"
        )


def test_29_debezium_does_not_read_arcion() -> None:
    assert is_read("arcion", "debezium")
    assert not is_read("debezium", "arcion")


@ALL
@pytest.mark.parametrize(
    ("wire", "text"), [("abc", "abc"), (300000000000, "300000000000"), (9.5, "9.5"), (True, "true")]
)
def test_30_a_value_of_the_wrong_type_stays_as_its_text(name: str, wire: object, text: str) -> None:
    good = sample_of(name)
    if good.column:
        assert good.after(good.with_cell(good.column, wire))[good.column] == text
    else:  # the feed declares no types
        assert good.after(good.value((CELL, json.dumps(wire).encode())))["cell"] == text


def test_every_kind_of_poison_is_tried_on_every_format() -> None:
    tried = {case[:2] for case in (*WHOLE, *CELLS, *ACCEPTED) if case[:2].isdigit()} | {
        "03",
        "14",
        "29",
        "30",
    }
    assert tried == {f"{kind:02}" for kind in range(1, 31)}
