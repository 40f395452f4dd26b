from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from framework.contracts.events import Column, Event, Half, Op, RowChange, Token
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.decoding.format import Context, Options
from silver.formats.datahub_tuple import FORMAT, TupleOptions

KEYLESS = Context("feed", Options(), "UTC", lambda database, schema, table: None)
KEYED = Context(
    "feed",
    TupleOptions(database="shop"),
    "UTC",
    lambda database, schema, table: ("id",) if database == "shop" else None,
)


def record(
    op: str,
    before: str,
    after: str,
    cells: str = '"id":1,"name":"joe"',
    sequence: str = '"1649991610688000001"',
) -> bytes:
    return (
        f'{{"_sequence_id_":{sequence},"_operation_type_":"{op}","_excute_time_":"1649991756000","_source_table_":"orders",'
        f'"_before_image_":"{before}","_after_image_":"{after}"{"," if cells else ""}{cells}}}'
    ).encode()


def decode(value: bytes, context: Context = KEYED) -> Sequence[Event]:
    return FORMAT.decode(RawMessage("feed", "orders", 0, 0, None, None, value), context)


def row(value: bytes, context: Context = KEYED) -> RowChange:
    (event,) = decode(value, context)
    assert isinstance(event, RowChange)
    return event


def reason(value: bytes) -> Reason:
    with pytest.raises(Malformed) as caught:
        decode(value)
    return caught.value.reason


def test_an_insert_is_the_whole_row_under_the_configured_database_and_key() -> None:
    assert row(record("I", "N", "Y")) == RowChange(
        op=Op.INSERT,
        database="shop",
        schema=None,
        table="orders",
        keys=("id",),
        before=None,
        after={"id": "1", "name": "joe"},
        columns={"id": Column(token=Token.NUMBER), "name": Column(token=Token.TEXT)},
        position=(1649991610688000001,),
        event_time=1_649_991_756_000_000,
    )


@pytest.mark.parametrize(
    ("op", "before", "after", "change", "half", "is_before"),
    [
        ("I", "N", "Y", Op.INSERT, None, False),
        ("U", "Y", "N", Op.UPDATE, Half.BEFORE, True),
        ("U", "N", "Y", Op.UPDATE, Half.AFTER, False),
        ("D", "Y", "N", Op.DELETE, None, True),
    ],
)
def test_operation_and_flags_tell_the_change(
    op: str, before: str, after: str, change: Op, half: Half | None, is_before: bool
) -> None:
    event = row(record(op, before, after))
    assert (event.op, event.half) == (change, half)
    assert (event.before is not None, event.after is not None) == (is_before, not is_before)


@pytest.mark.parametrize("flags", ["YY", "NN", "yn", "  "])
def test_an_update_whose_flags_tell_no_side_is_quarantined(flags: str) -> None:
    assert reason(record("U", flags[0], flags[1])) is Reason.WRONG_SHAPE


def test_flags_that_contradict_the_operation_are_quarantined() -> None:
    assert reason(record("I", "Y", "N")) is Reason.WRONG_SHAPE
    assert reason(record("D", "N", "Y")) is Reason.WRONG_SHAPE


@pytest.mark.parametrize("op", ["i", "X", "", "INSERT"])
def test_operation_words_are_exact(op: str) -> None:
    assert reason(record(op, "N", "Y")) is Reason.UNKNOWN_OP


def test_a_feed_without_options_takes_the_source_for_the_database_and_has_no_key() -> None:
    event = row(record("I", "N", "Y"), KEYLESS)
    assert (event.database, event.keys) == ("feed", None)


def test_a_configured_key_that_the_row_lacks_is_quarantined() -> None:
    assert reason(record("I", "N", "Y", '"name":"joe"')) is Reason.KEY_NOT_IN_IMAGE


@pytest.mark.parametrize(
    ("wire", "token", "text"),
    [
        ("1.10", Token.NUMBER, "1.10"),
        ("1.5E2", Token.NUMBER, "150"),
        ("18446744073709551615", Token.NUMBER, "18446744073709551615"),
        ('"007"', Token.TEXT, "007"),
        ('""', Token.TEXT, ""),
        ("true", Token.BOOLEAN, "true"),
        ("null", Token.NULL, None),
        ('{"a": 1.10}', Token.JSON, '{"a": 1.10}'),
        ("[1]", Token.JSON, "[1]"),
    ],
)
def test_values_are_undeclared_and_exact(wire: str, token: Token, text: str | None) -> None:
    event = row(record("I", "N", "Y", f'"id":1,"v":{wire}'))
    assert event.after == {"id": "1", "v": text}
    assert event.columns["v"] == Column(token=token)


def test_metadata_are_no_columns_and_a_row_may_have_none() -> None:
    event = row(record("I", "N", "Y", ""), KEYLESS)
    assert (event.after, event.columns) == ({}, {})


@pytest.mark.parametrize("wire", ["1649991610688000001", '"1649991610688000001"'])
def test_a_position_is_a_number_or_text(wire: str) -> None:
    assert row(record("I", "N", "Y", sequence=wire)).position == (1649991610688000001,)


@pytest.mark.parametrize(
    ("wire", "why"),
    [("null", Reason.MISSING_POSITION), ('"x"', Reason.BAD_POSITION), ("-2", Reason.BAD_POSITION)],
)
def test_a_record_without_a_position_is_quarantined(wire: str, why: Reason) -> None:
    assert reason(record("I", "N", "Y", sequence=wire)) is why


@pytest.mark.parametrize("wire", ["-1", '"-1"'])
def test_a_row_of_the_full_load_has_no_position(wire: str) -> None:
    value = record("I", "N", "Y", sequence=wire)
    loaded = row(value)
    assert (loaded.op, loaded.position, loaded.after) == (Op.READ, None, {"id": "1", "name": "joe"})
    assert loaded.event_time == 1_649_991_756_000_000
    assert row(value.replace(b'"1649991756000"', b'"-1"')).event_time is None


@pytest.mark.parametrize("flags", [("U", "Y", "N"), ("U", "N", "Y"), ("D", "Y", "N")])
def test_only_an_insert_can_be_of_the_full_load(flags: tuple[str, str, str]) -> None:
    assert reason(record(*flags, sequence='"-1"')) is Reason.BAD_POSITION


@pytest.mark.parametrize("name", ["_operation_type_", "_before_image_", "_after_image_"])
def test_a_record_without_its_flags_is_quarantined(name: str) -> None:
    assert reason(record("I", "N", "Y").replace(name.encode(), b"other")) is Reason.WRONG_SHAPE


WITHOUT_TABLE = [
    record("I", "N", "Y").replace(b'"orders"', b"null"),
    record("I", "N", "Y").replace(b'"_source_table_":"orders",', b""),
]


@pytest.mark.parametrize("value", WITHOUT_TABLE)
def test_a_record_without_a_table_is_quarantined_with_the_setting_that_names_it(value: bytes) -> None:
    with pytest.raises(Malformed) as caught:
        decode(value)
    assert caught.value.reason is Reason.MISSING_TABLE
    assert "`table`" in caught.value.detail


@pytest.mark.parametrize("value", WITHOUT_TABLE)
def test_the_configured_table_stands_in_for_a_missing_one(value: bytes) -> None:
    context = replace(KEYED, options=TupleOptions(database="shop", table="prices"))
    assert row(value, context).table == "prices"
    assert row(record("I", "N", "Y"), context).table == "orders"


def test_the_newer_spelling_of_the_time_is_metadata_too() -> None:
    found = row(record("I", "N", "Y").replace(b"_excute_time_", b"_execute_time_"))
    assert (found.after, found.event_time) == ({"id": "1", "name": "joe"}, 1_649_991_756_000_000)


def test_updates_come_in_halves_at_unique_positions() -> None:
    assert (FORMAT.name, FORMAT.halves, FORMAT.positions_are_unique) == ("datahub_tuple", True, True)
    assert FORMAT.options is TupleOptions


@pytest.mark.parametrize("time", ['"-1"', "-1"])
@pytest.mark.parametrize("name", ["_excute_time_", "_execute_time_"])
def test_a_time_of_minus_one_is_no_time(name: str, time: str) -> None:
    value = record("I", "N", "Y").replace(b'"_excute_time_":"1649991756000"', f'"{name}":{time}'.encode())
    assert row(value).event_time is None
