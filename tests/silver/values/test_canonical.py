from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.contracts.events import Token
from silver.values.canonical import (
    FIRST_SECOND,
    LAST_SECOND,
    date_text,
    declared_text,
    epoch_parts,
    instant_of_epoch,
    instant_of_wall,
    micros_of_epoch,
    micros_of_instant,
    number_text,
    undeclared_text,
    wall_of_epoch,
    wall_of_text,
)


@pytest.mark.parametrize(
    ("wire", "plain"),
    [
        ("0", "0"),
        ("7", "7"),
        ("9.90", "9.90"),
        ("1.10", "1.10"),
        ("-5.00", "-5.00"),
        ("+5", "5"),
        ("00012", "12"),
        ("-007.10", "-7.10"),
        ("5.", "5"),
        ("1.50E2", "150"),
        ("1.505e2", "150.5"),
        ("15e-3", "0.015"),
        ("-1E-2", "-0.01"),
        ("0E5", "0"),
        ("-0", "0"),
        ("-0.00", "0.00"),
        ("18446744073709551615", "18446744073709551615"),
        ("12345678901234567890123456789012345678", "12345678901234567890123456789012345678"),
    ],
)
def test_numbers_are_plain_digits_that_keep_their_scale(wire: str, plain: str) -> None:
    assert number_text(wire) == plain


@pytest.mark.parametrize(
    "wire",
    ["1234567890123456789012345678901234567890", "1e400", "1e-400", "1e99999", "9." + "9" * 38, "1e38"],
)
def test_numbers_of_more_than_38_digits_stay_as_sent(wire: str) -> None:
    assert number_text(wire) == wire


@pytest.mark.parametrize(
    "wire", ["", " ", "abc", "NaN", "1,5", ".5", "0x10", "1e", "--1", "1 2", "٣", "１２", "²"]
)
def test_text_that_is_no_number_stays_as_sent(wire: str) -> None:
    assert number_text(wire) == wire


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**18), max_value=10**18, places=6))
def test_plain_text_of_a_number_is_the_same_number(number: object) -> None:
    assert float(number_text(str(number))) == float(str(number))
    assert "e" not in number_text(str(number)).lower()


@pytest.mark.parametrize(
    ("kind", "token", "wire", "text"),
    [
        ("bigint", Token.NUMBER, "5.00", "5"),
        ("bigint", Token.TEXT, " 5 ", "5"),
        ("int", Token.NUMBER, "5.5", "5.5"),
        ("int", Token.TEXT, "abc", "abc"),
        ("bigint", Token.NUMBER, "1e3", "1000"),
        ("decimal(10,2)", Token.NUMBER, "9.999", "9.999"),
        ("decimal(10,2)", Token.TEXT, "9.90", "9.90"),
        ("double", Token.NUMBER, "1.0E-308", "1.0E-308"),
        ("double", Token.TEXT, "NaN", "NaN"),
        ("boolean", Token.BOOLEAN, "true", "true"),
        ("boolean", Token.TEXT, "FALSE", "false"),
        ("boolean", Token.NUMBER, "1", "true"),
        ("boolean", Token.TEXT, "yes", "yes"),
        ("string", Token.NUMBER, "1.50E2", "1.50E2"),
        ("string", Token.TEXT, " 007 ", " 007 "),
        ("binary", Token.TEXT, "AQI=", "AQI="),
    ],
)
def test_declared_values_take_their_types_text_or_stay_as_sent(
    kind: str, token: Token, wire: str, text: str
) -> None:
    assert declared_text(kind, token, wire) == text


def test_null_has_no_text() -> None:
    assert declared_text("bigint", Token.NULL, None) is None
    assert undeclared_text(Token.NULL, None) is None


def test_undeclared_text_that_looks_like_a_number_stays_text() -> None:
    assert undeclared_text(Token.TEXT, "007") == "007"
    assert undeclared_text(Token.NUMBER, "1.50E2") == "150"


@pytest.mark.parametrize(
    ("text", "unit", "parts"),
    [
        ("1605339932736", "ms", (1605339932, "736")),
        ("1605339932", "s", (1605339932, "")),
        ("1605339932.25", "s", (1605339932, "25")),
        ("1605339932736123456", "ns", (1605339932, "736123456")),
        ("1605339932736.5", "ms", (1605339932, "7365")),
        ("0", "ms", (0, "000")),
        ("5", "us", (0, "000005")),
        ("-1", "ms", (-1, "999")),
        ("-1000", "ms", (-1, "000")),
        ("-1001", "ms", (-2, "999")),
        ("-0.5", "s", (-1, "5")),
        ("-0.0625", "s", (-1, "9375")),
        ("-86400", "s", (-86400, "")),
    ],
)
def test_an_epoch_is_whole_seconds_and_all_digits_of_the_fraction(
    text: str, unit: str, parts: tuple[int, str]
) -> None:
    assert epoch_parts(text, unit) == parts


@pytest.mark.parametrize("text", ["", "-", "1e3", "abc", "2020-01-01", "+5", "1.", "１２", "1" * 21])
def test_text_that_is_no_count_is_no_epoch(text: str) -> None:
    assert epoch_parts(text, "ms") is None
    assert instant_of_epoch(text, "ms") == text
    assert micros_of_epoch(text, "ms") is None


@given(st.integers(-62_135_596_800_000, 253_402_300_799_999))
def test_microseconds_of_milliseconds_are_exact(millis: int) -> None:
    assert micros_of_epoch(str(millis), "ms") == millis * 1000
    is_event_time = FIRST_SECOND <= millis // 1000 <= LAST_SECOND
    assert micros_of_instant(instant_of_epoch(str(millis), "ms")) == (
        millis * 1000 if is_event_time else None
    )


@pytest.mark.parametrize(
    ("text", "unit", "instant"),
    [
        ("1605339932736", "ms", "2020-11-14T07:45:32.736Z"),
        ("1709200800", "s", "2024-02-29T10:00:00Z"),
        ("-1", "ms", "1969-12-31T23:59:59.999Z"),
        ("253402300799999", "ms", "9999-12-31T23:59:59.999Z"),
        ("253402300800000", "ms", "253402300800000"),
        ("-62135596800000", "ms", "0001-01-01T00:00:00.000Z"),
        ("-62135596800001", "ms", "-62135596800001"),
        ("99999999999999999999", "s", "99999999999999999999"),
    ],
)
def test_instants_lie_in_the_years_1_to_9999_or_stay_as_sent(text: str, unit: str, instant: str) -> None:
    assert instant_of_epoch(text, unit) == instant


def test_wall_time_of_an_epoch_carries_no_zone() -> None:
    assert wall_of_epoch("1709200800123456", "us") == "2024-02-29T10:00:00.123456"
    assert wall_of_epoch("x", "us") == "x"


def test_dates_of_days() -> None:
    assert [date_text(d) for d in (0, -1, 19782, -719162, 2932896)] == [
        "1970-01-01",
        "1969-12-31",
        "2024-02-29",
        "0001-01-01",
        "9999-12-31",
    ]
    assert [date_text(d) for d in (-719163, 2932897, 10**15)] == [None, None, None]


@pytest.mark.parametrize(
    ("text", "wall"),
    [
        ("2024-02-29 10:00:00", "2024-02-29T10:00:00"),
        ("2024-02-29T10:00:00.1234567", "2024-02-29T10:00:00.1234567"),
        ("2024-2-9 1:05", "2024-02-09T01:05:00"),
        ("2024-02-29", "2024-02-29T00:00:00"),
        ("0001-01-01 00:00:00", "0001-01-01T00:00:00"),
        ("2023-02-29 10:00:00", "2023-02-29 10:00:00"),
        ("0000-00-00 00:00:00", "0000-00-00 00:00:00"),
        ("2024-02-31", "2024-02-31"),
        ("2024-01-01 24:00:00", "2024-01-01 24:00:00"),
        ("10000-01-01", "10000-01-01"),
        ("noon", "noon"),
    ],
)
def test_wall_times_are_canonical_or_stay_as_sent(text: str, wall: str) -> None:
    assert wall_of_text(text) == wall


@pytest.mark.parametrize(
    ("text", "zone", "instant"),
    [
        ("2024-02-29 10:00:00", "Asia/Shanghai", "2024-02-29T02:00:00Z"),
        ("2024-02-29 10:00:00.5", "UTC", "2024-02-29T10:00:00.5Z"),
        ("2024-10-27 02:30:00", "Europe/Berlin", "2024-10-27T00:30:00Z"),
        ("2024-03-31 02:30:00", "Europe/Berlin", "2024-03-31T01:30:00Z"),
        ("0001-01-01 00:00:00", "Asia/Shanghai", "0001-01-01 00:00:00"),
        ("0000-00-00 00:00:00", "UTC", "0000-00-00 00:00:00"),
        ("soon", "UTC", "soon"),
    ],
)
def test_wall_time_of_a_zone_becomes_an_instant_the_earlier_where_clocks_go_back(
    text: str, zone: str, instant: str
) -> None:
    assert instant_of_wall(text, zone) == instant


def test_microseconds_of_an_instant_cut_further_digits() -> None:
    assert micros_of_instant("1970-01-01T00:00:00.1234569Z") == 123456
    assert micros_of_instant("1969-12-31T23:59:59.5Z") == -500_000
    assert micros_of_instant("1970-01-01T00:00:00") is None
    assert micros_of_instant("soonZ") is None
