from __future__ import annotations

import base64

import pytest

from framework.contracts.events import Column, Token
from silver.envelopes.connect.column_types import Field, column_of, decimal_text, value_of
from silver.envelopes.connect.temporal import ANY_TIMESTAMP

CONNECT, TIME, DATA = "org.apache.kafka.connect.data.", "io.debezium.time.", "io.debezium.data."


@pytest.mark.parametrize(
    ("wire_type", "name", "text", "canonical", "expected"),
    [
        ("int32", TIME + "Date", "-1", "date", "1969-12-31"),
        ("int32", CONNECT + "Date", "2932896", "date", "9999-12-31"),
        ("string", TIME + "IsoDate", "2020-02-29Z", "date", "2020-02-29"),
        ("int64", TIME + "MicroTime", "1880000000", "string", "00:31:20"),
        ("int64", TIME + "MicroTime", "-3020399500000", "string", "-838:59:59.500000"),
        ("int32", TIME + "Time", "1500", "string", "00:00:01.500"),
        ("int64", TIME + "Timestamp", "-1", "timestamp_ntz", "1969-12-31T23:59:59.999"),
        ("int64", TIME + "NanoTimestamp", "1000000001", "timestamp_ntz", "1970-01-01T00:00:01.000000001"),
        ("string", TIME + "IsoTimestamp", "2020-02-29T10:00:00.5Z", "timestamp_ntz", "2020-02-29T10:00:00.5"),
        (
            "string",
            TIME + "ZonedTimestamp",
            "2020-02-29T10:00:00.1234567+08:00",
            "timestamp",
            "2020-02-29T02:00:00.1234567Z",
        ),
        ("string", TIME + "ZonedTimestamp", "2020-02-29 10:00:00.5Z", "timestamp", "2020-02-29T10:00:00.5Z"),
        (
            "string",
            TIME + "ZonedTimestamp",
            "1900-01-01T00:00:00+00:19:32",
            "timestamp",
            "1899-12-31T23:40:28Z",
        ),
        ("string", TIME + "ZonedTimestamp", "infinity", "timestamp", "infinity"),
        ("int32", TIME + "Year", "2024", "int", "2024"),
        ("int32", TIME + "Year", "1900", "int", "0"),
        ("int64", TIME + "MicroDuration", "5", "bigint", "5"),
        ("bytes", DATA + "Bits", "AgE=", "decimal(20,0)", "258"),
        ("string", DATA + "Json", '{"a": 1}', "string", '{"a": 1}'),
        ("bytes", None, "AAEC", "binary", "AAEC"),
    ],
)
def test_logical_types(wire_type: str, name: str | None, text: str, canonical: str, expected: str) -> None:
    field = Field(type=wire_type, name=name)
    token = Token.NUMBER if wire_type.startswith("int") else Token.TEXT
    assert column_of(field).type == canonical
    assert value_of(field, token, text) == expected


@pytest.mark.parametrize(
    ("length", "canonical", "expected"), [("64", "decimal(20,0)", "258"), ("2147483647", "binary", "AgE=")]
)
def test_bits_beyond_a_number_are_bytes(length: str, canonical: str, expected: str) -> None:
    field = Field(
        type="bytes", name=DATA + "Bits", parameters={"length": length}
    )  # 2147483647: PostgreSQL's bit varying
    assert (column_of(field).type, value_of(field, Token.TEXT, "AgE=")) == (canonical, expected)


def base64_of(number: int) -> str:
    return base64.b64encode(number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)).decode()


def decimal(scale: str, precision: str | None) -> Field:
    parameters = (
        {"scale": scale} if precision is None else {"scale": scale, "connect.decimal.precision": precision}
    )
    return Field(type="bytes", name=CONNECT + "Decimal", parameters=parameters)


@pytest.mark.parametrize(
    ("precision", "scale", "wire", "canonical", "expected"),
    [
        ("12", "2", "/CI=", "decimal(12,2)", "-9.90"),
        ("20", "0", "AI3gtrOnY//+", "decimal(20,0)", "10223372036854775806"),
        ("5", "-2", "Bw==", "decimal(7,0)", "700"),
        ("65", "2", "AQ==", "string", "0.01"),
        (None, "2", "AN4=", None, "2.22"),
        ("6", "2046", base64_of(-99900 * 10**2046), "decimal(8,0)", "-99900"),
    ],
)
def test_decimals_are_unscaled_bytes(
    precision: str | None, scale: str, wire: str, canonical: str | None, expected: str
) -> None:
    field = decimal(scale, precision)
    assert column_of(field).type == canonical
    assert value_of(field, Token.TEXT, wire) == expected


def test_decimal_of_a_feed_that_writes_text_is_not_taken_for_base64() -> None:
    assert value_of(decimal("2", "12"), Token.TEXT, "1234", numbers_as_text=True) == "1234"
    assert value_of(decimal("2", "12"), Token.NUMBER, "1234") == "1234"


def test_a_boolean_in_a_column_of_decimals_is_not_taken_for_base64() -> None:
    assert value_of(decimal("0", "1"), Token.BOOLEAN, "true") == "true"


def test_decimal_with_its_own_scale_is_undeclared() -> None:
    field = Field(type="struct", name=DATA + "VariableScaleDecimal")
    assert column_of(field) == Column(declared=DATA + "VariableScaleDecimal", token=Token.NUMBER)
    assert value_of(field, Token.JSON, '{"scale": 3, "value": "BNI="}') == "1.234"
    assert value_of(field, Token.JSON, '{"scale": "x"}') == '{"scale": "x"}'


@pytest.mark.parametrize(("digits", "scale"), [(7_201, 1), (131_072, 0), (3, 5_000), (16_383, 16_383)])
def test_decimal_with_its_own_scale_has_all_digits_that_postgresql_can_hold(digits: int, scale: int) -> None:
    unscaled = -7 * (10**digits // 9)
    data = base64.b64encode(unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)).decode()
    text = (
        "7" * digits if scale == 0 else f"{'7' * (digits - scale) or '0'}.{('7' * digits)[-scale:]:0>{scale}}"
    )
    field = Field(type="struct", name=DATA + "VariableScaleDecimal")
    assert value_of(field, Token.JSON, f'{{"scale": {scale}, "value": "{data}"}}') == "-" + text


def test_decimal_text_pads_small_numbers() -> None:
    assert [decimal_text(5, 3), decimal_text(-5, 0), decimal_text(0, 2), decimal_text(0, -2)] == [
        "0.005",
        "-5",
        "0.00",
        "0",
    ]


@pytest.mark.parametrize(
    ("text", "expected"), [("ü\\,x", "ü,x"), ("ü,x", "ü,x"), ("a\\b", "a\\b"), ("new", "new")]
)
def test_a_label_of_an_enum_has_no_backslash_before_its_comma(text: str, expected: str) -> None:
    field = Field(type="string", name=DATA + "Enum", parameters={"allowed": "new,ü\\,x,a\\b"})
    assert value_of(field, Token.TEXT, text) == expected


@pytest.mark.parametrize(
    ("items", "wire", "expected"),
    [
        (decimal("2", "6"), '["AN4=", null, "/CI="]', "[2.22,null,-9.90]"),
        (Field(type="int32", name=TIME + "Date"), "[19782,null]", '["2024-02-29",null]'),
        (
            Field(type="string", name=TIME + "ZonedTimestamp"),
            '["2024-02-29T10:00:00Z"]',
            '["2024-02-29T10:00:00Z"]',
        ),
        (Field(type="struct", name=DATA + "VariableScaleDecimal"), '[{"scale":1,"value":"Cw=="}]', "[1.1]"),
        (Field(type="int32"), "[1, null]", "[1, null]"),
    ],
)
def test_elements_of_an_array_are_read_by_their_own_type(items: Field, wire: str, expected: str) -> None:
    assert value_of(Field(type="array", items=items), Token.JSON, wire) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1709200800123", "2024-02-29T10:00:00.123"),
        ("1709200800123456", "2024-02-29T10:00:00.123456"),
        ("253402300799999999", "9999-12-31T23:59:59.999999"),
        ("253402300799000", "9999-12-31T23:59:59.000"),
        ("1709200800123456789", "2024-02-29T10:00:00.123456789"),
        ("978307200000000000", "2001-01-01T00:00:00.000000000"),
        ("-1000", "1969-12-31T23:59:59.000"),
    ],
)
def test_the_size_of_a_wall_time_without_a_schema_shows_its_unit(text: str, expected: str) -> None:
    assert value_of(Field(name=ANY_TIMESTAMP), Token.NUMBER, text) == expected


def test_times_beyond_the_nanoseconds_that_a_count_holds_are_no_times() -> None:
    field = Field(type="int64", name="io.debezium.time.NanoTimestamp")
    last, cut = (
        str((1 << 63) - 1),
        str(-(1 << 63) + 86_399_000_000_000 - 1),
    )  # 9999-12-31 at 00:00:00 and at 23:59:59
    assert [value_of(field, Token.NUMBER, text) for text in (last, cut)] == [last, cut]
    assert value_of(field, Token.NUMBER, "9214646400000000000") == "2262-01-01T00:00:00.000000000"
