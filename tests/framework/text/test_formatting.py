from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.contracts.ddl_actions import (
    AddColumn,
    DropColumn,
    NoEffect,
    RenameColumn,
    RenameTable,
    SetKeys,
    TableName,
)
from framework.lakehouse.lakehouse import Lakehouse
from framework.report.collect import describe_lakehouse, without_credentials
from framework.report.excerpts import excerpt
from framework.report.schema_text import column_difference, describe_actions
from framework.text.formatting import (
    byte_size,
    number,
    one_line,
    pieces,
    quantity,
    short_number,
    span,
)


@pytest.mark.parametrize(
    ("count", "words", "expected"),
    [
        (2, ("file",), "2 files"),
        (1, ("file",), "1 file"),
        (0, ("file",), "0 files"),
        (1_204, ("file",), "1,204 files"),
        (1, ("half", "halves"), "1 half"),
        (2, ("half", "halves"), "2 halves"),
        (1, ("message waits", "messages wait"), "1 message waits"),
        (2, ("message waits", "messages wait"), "2 messages wait"),
        (None, ("row",), "– rows"),
    ],
)
def test_a_quantity_has_the_noun_that_fits_it(
    count: int | None, words: tuple[str, ...], expected: str
) -> None:
    assert quantity(count, *words) == expected


@given(st.text())
def test_pieces_tell_every_character(text: str) -> None:
    restored = "".join(chr(int(piece[2:], 16)) if is_name else piece for piece, is_name in pieces(text))
    assert restored == text


@pytest.mark.parametrize(
    "character", ["\x00", "\x7f", "\u202e", "\u2066", "\u2028", "\u200b", "\ufeff", "\ud800"]
)
def test_what_cannot_be_seen_is_named(character: str) -> None:
    assert list(pieces(f"a{character}b")) == [("a", False), (f"U+{ord(character):04X}", True), ("b", False)]
    assert one_line(f"a{character}") == f"a⟨U+{ord(character):04X}⟩"


@pytest.mark.parametrize("text", ["Zoë", "שלום", "注文", "👩‍👩‍👧", "a\nb\tc"])
def test_what_can_be_seen_stays(text: str) -> None:
    assert list(pieces(text)) == [(text, False)]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (3.14, "3.1 s"),
        (61, "1 min 1 s"),
        (3_600, "1 h"),
        (3_660, "1 h 1 min"),
        (200_000, "2 d 7 h"),
        (-90, "−1 min 30 s"),
    ],
)
def test_spans_have_their_two_greatest_units(seconds: float, text: str) -> None:
    assert span(timedelta(seconds=seconds)) == text
    assert span(None) == "–"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1_000, "1 k"),
        (1_204, "1.2 k"),
        (45_600, "45.6 k"),
        (999_999, "1000 k"),
        (34e6, "34 M"),
        (2.5, "2.5"),
    ],
)
def test_short_numbers(value: float, text: str) -> None:
    assert short_number(value) == text


def test_numbers_and_sizes() -> None:
    assert (number(1_204), number(None)) == ("1,204", "–")
    assert (byte_size(1), byte_size(2_048), byte_size(3 * 1024**2)) == ("1 byte", "2.0 KiB", "3.0 MiB")


def test_an_excerpt_that_cuts_a_character_leaves_it_out() -> None:
    found = excerpt("Zoë".encode()[:-1], 900)
    assert found is not None
    assert (found.text, found.is_cut, found.is_text, found.byte_count) == ("Zo", True, True, 900)


def test_an_excerpt_of_bytes_tells_each_byte() -> None:
    found = excerpt(bytearray(b"\x1f\x8bab"), None)
    assert found is not None
    assert (found.text, found.is_cut, found.is_text) == ("\x1f\\x8bab", False, False)
    assert excerpt(None, None) is None


def test_a_whole_value_that_ends_inside_a_character_is_no_text() -> None:
    found = excerpt("Zoë".encode()[:-1], 3)
    assert found is not None
    assert (found.text, found.is_text) == ("Zo\\xc3", False)


def test_columns_that_come_go_and_change_are_described() -> None:
    former, now = (
        {"id": "int", "price": "decimal(10,2)", "note": "string"},
        {"id": "bigint", "price": "decimal(10,2)", "city": "string"},
    )
    assert (
        column_difference(former, now)
        == "column city string added; column note gone; column id: int → bigint"
    )
    assert column_difference({"a": "int", "b": "int"}, {"b": "int", "a": "int"}) == "columns in another order"


def test_statements_are_described_by_their_actions() -> None:
    actions = (
        AddColumn("note", "string", "varchar(80)"),
        DropColumn("old"),
        RenameColumn("a", "b"),
        SetKeys(("id",)),
        NoEffect("an index"),
    )
    assert (
        describe_actions(actions)
        == "column note string added; column old dropped; column a renamed b; key is id; no effect: an index"
    )
    assert describe_actions((RenameTable(TableName("shop", None, "orders")),)) == "table renamed shop.orders"
    assert describe_actions(()) == "no effect on columns"
    assert describe_actions([DropColumn(str(at)) for at in range(15)]).endswith("; 3 more")


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ("/srv/lake house", "/srv/lake house"),
        ("s3a://AKIA:secret@bucket/lake", "s3a://bucket/lake"),
        ("abfss://box@account.example/lake?sig=secret", "abfss://box@account.example/lake"),
        ("s3://bucket/lake", "s3://bucket/lake"),
    ],
)
def test_a_place_is_shown_without_its_secrets(place: str, shown: str) -> None:
    assert without_credentials(place) == shown


def test_a_lakehouse_in_a_catalog_is_shown_by_its_names_and_not_by_its_checkpoints() -> None:
    assert describe_lakehouse(Lakehouse("/cp", "main", "shop_")) == "main.shop_…"
    assert describe_lakehouse(Lakehouse("s3://me:secret@bucket/lake?key=1")) == "s3://bucket/lake"
