from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from msgspec import Raw

from framework.contracts.events import Event, RowChange, Token
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.decoding.format import Context, Options
from silver.decoding.json_reader import (
    MAX_COLUMNS,
    checked_keys,
    checked_width,
    number_of,
    optional_text,
    read_json,
    scalar,
    time_of,
)
from silver.formats import datahub_blob, datahub_tuple

CONTEXT = Context("feed", Options(), "UTC", lambda database, schema, table: None)
ANY = msgspec.json.Decoder(dict[str, Raw])


def blob(cells: bytes) -> bytes:
    """An INSERT with these members in its image."""
    return (
        b'{"schema":{"dataColumn":[{"name":"id","type":"LONG"},{"name":"note","type":"STRING"}],"primaryKey":["id"],'
        b'"source":{"dbName":"shop","tableName":"orders"}},"payload":{"op":"INSERT","after":{"dataColumn":{'
        + cells
        + b"}},"
        b'"sequenceId":"1605339516000000004","timestamp":{"eventTime":1605339932000}},"version":"0.0.1"}'
    )


def record(cells: bytes) -> bytes:
    """The same as a Tuple record."""
    return (
        b'{"_sequence_id_":"1605339516000000004","_operation_type_":"I","_excute_time_":1605339932000,"_source_table_":"orders",'
        b'"_before_image_":"N","_after_image_":"Y",' + cells + b"}"
    )


DECODERS = {"datahub_blob": datahub_blob.decode, "datahub_tuple": datahub_tuple.decode}
GOOD = b'"id":1,"note":"joe"'


def decode(name: str, value: bytes | None) -> Sequence[Event]:
    return DECODERS[name](RawMessage("feed", "orders", 0, 0, None, None, value), CONTEXT)


def reason_of(name: str, value: bytes | None) -> Reason:
    with pytest.raises(Malformed) as caught:
        decode(name, value)
    return caught.value.reason


def image(name: str, value: bytes) -> dict[str, str | None]:
    (event,) = decode(name, value)
    assert isinstance(event, RowChange)
    assert event.after is not None
    return dict(event.after)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b'"op":"INSERT",', b"", Reason.WRONG_SHAPE),
        (b'"op":"INSERT"', b'"op":"insert"', Reason.UNKNOWN_OP),
        (b'"op":"INSERT"', b'"op":7', Reason.WRONG_SHAPE),
        (b'"after":{"dataColumn":{"id":1,"note":"joe"}}', b'"after":"text"', Reason.WRONG_SHAPE),
        (b'"after":{"dataColumn":{"id":1,"note":"joe"}}', b'"after":null', Reason.MISSING_IMAGE),
        (b'"after":{"dataColumn":{"id":1,"note":"joe"}}', b'"after":{}', Reason.MISSING_IMAGE),
        (b',"tableName":"orders"', b"", Reason.MISSING_TABLE),
        (b'"sequenceId":"1605339516000000004"', b'"sequenceId":null', Reason.MISSING_POSITION),
        (b'"1605339516000000004"', b'"16x"', Reason.BAD_POSITION),
        (b'"1605339516000000004"', b'""', Reason.BAD_POSITION),
        (b'"1605339516000000004"', b"1.5", Reason.BAD_POSITION),
        (b'"1605339516000000004"', b"1" * 100, Reason.BAD_POSITION),
        (b"1605339932000", b'"now"', Reason.BAD_POSITION),
        (b"1605339932000", b"999999999999999", Reason.BAD_POSITION),
        (b"1605339932000", b"-99999999999999", Reason.BAD_POSITION),
        (b'"0.0.1"', b'"2.0"', Reason.UNSUPPORTED_VERSION),
        (b'["id"]', b'["code"]', Reason.KEY_NOT_IN_IMAGE),
    ],
)
def test_29_json_of_another_shape_is_quarantined_with_a_field_level_reason(
    old: bytes, new: bytes, reason: Reason
) -> None:
    assert reason_of("datahub_blob", blob(GOOD).replace(old, new)) is reason


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b'"_operation_type_":"I",', b"", Reason.WRONG_SHAPE),
        (b'"_operation_type_":"I"', b'"_operation_type_":"i"', Reason.UNKNOWN_OP),
        (b'"_before_image_":"N"', b'"_before_image_":"Y"', Reason.WRONG_SHAPE),
        (b'"_source_table_":"orders",', b"", Reason.MISSING_TABLE),
        (b'"1605339516000000004"', b"null", Reason.MISSING_POSITION),
        (b'"1605339516000000004"', b'"16x"', Reason.BAD_POSITION),
        (b"1605339932000", b'"now"', Reason.BAD_POSITION),
    ],
)
def test_29_a_record_of_another_shape_is_quarantined_with_a_field_level_reason(
    old: bytes, new: bytes, reason: Reason
) -> None:
    assert reason_of("datahub_tuple", record(GOOD).replace(old, new)) is reason


def test_29_a_message_of_another_format_is_quarantined() -> None:
    assert reason_of("datahub_blob", record(GOOD)) is Reason.WRONG_SHAPE
    assert reason_of("datahub_tuple", blob(GOOD)) is Reason.MISSING_TABLE
    assert (
        reason_of("datahub_blob", b'{"payload":{"op":"c","after":{"id":1},"source":{"db":"shop"}}}')
        is Reason.UNKNOWN_OP
    )


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (b"LONG", b'"abc"', "abc"),
        (b"LONG", b"true", "true"),
        (b"DOUBLE", b'"much"', "much"),
        (b"BYTES", b'"not base64!"', "not base64!"),
        (b"DATE", b'"0000-00-00"', "0000-00-00"),
        (b"BOOLEAN", b'"yes"', "yes"),
    ],
)
def test_30_a_value_of_the_wrong_type_stays_as_its_text(kind: bytes, value: bytes, text: str) -> None:
    message = blob(b'"id":1,"note":' + value).replace(
        b'"note","type":"STRING"', b'"note","type":"' + kind + b'"'
    )
    assert image("datahub_blob", message)["note"] == text


@pytest.mark.parametrize(
    ("raw", "token", "text"),
    [
        (b'"007"', Token.TEXT, "007"),
        (b"1.10", Token.NUMBER, "1.10"),
        (b"-1E-2", Token.NUMBER, "-1E-2"),
        (b"true", Token.BOOLEAN, "true"),
        (b"null", Token.NULL, None),
        (b'{"b": 1.10, "a": 1e400}', Token.JSON, '{"b": 1.10, "a": 1e400}'),
        (b"[1,2]", Token.JSON, "[1,2]"),
    ],
)
def test_a_scalar_is_its_token_and_its_exact_text(raw: bytes, token: Token, text: str | None) -> None:
    assert scalar(raw) == (token, text)


@pytest.mark.parametrize(
    ("raw", "number"),
    [
        (b"18446744073709551616", 18446744073709551616),
        (b'"0018"', 18),
        (b'" 7 "', 7),
        (b"null", None),
        (None, None),
    ],
)
def test_a_position_may_be_a_number_or_text_and_may_be_missing(raw: bytes | None, number: int | None) -> None:
    assert number_of(None if raw is None else Raw(raw), "sequenceId") == number


@pytest.mark.parametrize(
    ("raw", "unit", "micros"),
    [
        (b"1605339932736", "ms", 1_605_339_932_736_000),
        (b'"1605339932.5"', "s", 1_605_339_932_500_000),
        (b"-1", "ms", -1000),
        (b"null", "ms", None),
    ],
)
def test_an_event_time_is_microseconds(raw: bytes, unit: str, micros: int | None) -> None:
    assert time_of(Raw(raw), "eventTime", unit) == micros


@pytest.mark.parametrize("seconds", [b"-62135596800", b"253402300799", b"99999999999999"])
def test_an_event_time_at_the_ends_of_the_calendar_is_refused(seconds: bytes) -> None:
    with pytest.raises(Malformed) as caught:
        time_of(Raw(seconds), "eventTime", "s")
    assert caught.value.reason is Reason.BAD_POSITION


def test_a_member_that_is_missing_has_no_text() -> None:
    assert optional_text(None) is None
    assert optional_text(Raw()) is None
    assert optional_text(Raw(b'"x"')) == "x"


def test_key_names_are_listed_once_and_none_is_null() -> None:
    assert checked_keys(["a", "b", "a"], {"a": "1", "b": None}, None) == ("a", "b")
    assert checked_keys([], {"a": "1"}) is None
    assert checked_keys(None) is None


def test_a_key_that_is_in_no_image_is_refused() -> None:
    with pytest.raises(Malformed) as caught:
        checked_keys(["a", "c"], None, {"a": "1"})
    assert caught.value.reason is Reason.KEY_NOT_IN_IMAGE


def test_a_key_that_one_of_two_images_has_is_enough() -> None:
    assert checked_keys(["a"], {"b": "1"}, {"a": "1", "b": "2"}) == ("a",)


def test_an_image_has_at_most_ten_thousand_columns() -> None:
    checked_width(dict.fromkeys(map(str, range(MAX_COLUMNS))))
    with pytest.raises(Malformed) as caught:
        checked_width(dict.fromkeys(map(str, range(MAX_COLUMNS + 1))))
    assert caught.value.reason is Reason.TOO_MANY_COLUMNS


def test_one_document_is_read_and_numbers_stay_text() -> None:
    assert {name: bytes(raw) for name, raw in read_json(ANY, b'{"a": 1.10, "b": "x"}').items()} == {
        "a": b"1.10",
        "b": b'"x"',
    }


def test_json_behind_a_schema_id_is_read_and_anything_else_there_is_named() -> None:
    mark = b"\x00\x00\x00\x00\x07"
    assert read_json(ANY, mark + b'{"a": 1.50}') == {"a": Raw(b"1.50")}
    for behind in (b"\x02\x06Ann", b'{"a"', b"{\xff}"):
        with pytest.raises(Malformed) as refused:
            read_json(ANY, mark + behind)
        assert refused.value.reason is Reason.SCHEMA_REGISTRY
        assert "schema id 7" in refused.value.detail
