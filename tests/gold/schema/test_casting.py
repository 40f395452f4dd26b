"""A cell is good only if its text is canonical for its type and the typed value loses no digit;
else it says why.
"""

from __future__ import annotations

import math
import random
from decimal import Decimal
from struct import pack, unpack
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from gold.changes.effects import effects
from gold.schema.casting import fault, may_be_imprecise, typed, typed_key
from gold.schema.columns import TableColumn
from gold.schema.kept_digits import FEW_DIGITS
from gold.writing.certain_fit import certainly_fits

BAD, CUT = "bad_value", "precision"
MICROS = "2024-02-29 10:00:00.123456"

# kind → text → typed value; times as Spark prints them
GOOD: dict[str, dict[str, Any]] = {
    "string": {"": "", "007": "007", " x\n": " x\n", "数量 🦊": "数量 🦊", "NULL": "NULL",
        "0000-00-00": "0000-00-00"},
    "boolean": {"true": True, "false": False},
    "tinyint": {"-128": -128, "127": 127, "0": 0},
    "smallint": {"-32768": -32768, "32767": 32767},
    "int": {"-2147483648": -(2**31), "2147483647": 2**31 - 1, "5.00": 5},
    "bigint": {"-9223372036854775808": -(2**63), "9223372036854775807": 2**63 - 1,
        "9007199254740993": 2**53 + 1},
    "decimal(10,2)": {
        "9.99": Decimal("9.99"), "-9.9": Decimal("-9.90"), "7": Decimal("7.00"), "9.9900": Decimal("9.99"),
        "99999999.99": Decimal("99999999.99"), "-0.01": Decimal("-0.01"),
    },
    "decimal(20,0)": {"18446744073709551615": Decimal(2**64 - 1), "5.0": Decimal(5)},
    "decimal(38,0)": {"9" * 38: Decimal("9" * 38), "-" + "9" * 38: Decimal("-" + "9" * 38)},
    "decimal(38,38)": {"0." + "1" * 38: Decimal("0." + "1" * 38)},
    "float": {"1.5": 1.5, "3.4028235E38": 3.4028234663852886e38, "NaN": math.nan, "Infinity": math.inf,
        "0.0": 0.0},
    "double": {
        "0.1": 0.1, "-1.7976931348623157e308": -1.7976931348623157e308, "4.9E-324": 5e-324, "10": 10.0,
        "0": 0.0, "0E10": 0.0,
        "NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf,
    },
    "date": {"2024-02-29": "2024-02-29", "0001-01-01": "0001-01-01", "9999-12-31": "9999-12-31",
        "1582-10-10": "1582-10-10"},
    "timestamp": {
        "2024-02-29T10:00:00Z": "2024-02-29 10:00:00", "2024-02-29T10:00:00.123456Z": MICROS,
        "2024-02-29T10:00:00.1Z": "2024-02-29 10:00:00.1",
        "2024-02-29T10:00:00.123456000Z": MICROS, "0001-01-01T00:00:00Z": "0001-01-01 00:00:00",
        "9999-12-31T23:59:59.999999Z": "9999-12-31 23:59:59.999999",
        "1582-10-10T00:00:00Z": "1582-10-10 00:00:00",
    },
    "timestamp_ntz": {
        "2024-02-29T10:00:00": "2024-02-29 10:00:00", "2024-02-29T10:00:00.1234560": MICROS,
        "2024-03-31T02:30:00": "2024-03-31 02:30:00",
        "0001-01-01T00:00:00": "0001-01-01 00:00:00",
        "9999-12-31T23:59:59.999999": "9999-12-31 23:59:59.999999",
    },
    "binary": {"": b"", "AQI=": b"\x01\x02", "/wD+": b"\xff\x00\xfe",
        "AQID\nBAUG": b"\x01\x02\x03\x04\x05\x06"},
}  # fmt: skip

# kind → texts that give null
REFUSED: dict[str, list[str]] = {
    "boolean": ["TRUE", "yes", "1", "0", "t", "", " true", "true\n"],
    "tinyint": ["128", "-129", "1.5"],
    "smallint": ["32768", "1e2"],
    "int": ["2147483648", "abc", "", " 1", "1 ", "1\n", "+1", "1.01", "0x1F", "1e3", "--1", "-", "١٢", "NaN",
        "1,000"],
    "bigint": ["9223372036854775808", "-9223372036854775809", "9" * 40, "1_000", "5L"],
    "decimal(10,2)": ["9.999", "0.001", "100000000", "1e2", "abc", "", "-", ".", "-.", "+1", " 1.00",
        "1.00\n", "NaN", "1,5"],
    "decimal(20,0)": ["100000000000000000000", "1.5"],
    "decimal(38,0)": ["1" + "0" * 38],
    "decimal(38,38)": ["1", "0." + "1" * 39],
    "float": ["1e39", "abc", "", "1e-60", "1f", "inf", "nan", "+Infinity"],
    "double": ["1e400", "-1e400", "1e-400", "abc", "", "1d", "0x1p3", " 1", "1\n", "NaN\n", "-NaN",
        "infinity", "1e", "Inf"],
    "date": ["0000-00-00", "2024", "2024-02", "2024-02-30", "2023-02-29", "2024-2-9", "10000-01-01",
        "2024-02-29 ", "2024-02-29\n",
             "2024-02-29T00:00:00", "now", "today", "-0001-01-01", "", "0000-12-31"],
    "timestamp": ["2024-02-29T10:00:00", "2024-02-29 10:00:00Z", "2024-02-29T10:00Z", "2024-02-29T24:00:00Z",
        "2024-02-29T10:00:60Z",
                  "2024-02-30T10:00:00Z", "0000-00-00 00:00:00", "2024-02-29T10:00:00.Z",
                  "2024-02-29T10:00:00+02:00", "2024", "now", "",
                  "0000-12-31T23:59:59Z", "2024-02-29T10:00:00Z\n", "10:00:00Z"],
    "timestamp_ntz": ["2024-02-29T10:00:00Z", "2024-02-29 10:00:00", "2024-02-29T10:00", "2024-02-29",
        "0000-00-00T00:00:00", "now",
                      "2024-02-30T10:00:00", "2024-02-29T25:00:00", "2024-02-29T10:00:00\n", ""],
    "binary": ["A", "!!!!", "AQI=AQI=", "=AQI", "_-_-", "AQI=!", "AQI", "0x0102", "AQID\nBA",
               "hex:0102"],
}  # fmt: skip

# kind → text → typed value with digits beyond microseconds cut off
PRECISION = {
    "timestamp": {"2024-02-29T10:00:00.1234567Z": MICROS, "2024-02-29T10:00:00.123456001Z": MICROS},
    "timestamp_ntz": {"2024-02-29T10:00:00.123456789": MICROS},
}

CASES = [
    *((kind, text, value, None) for kind, texts in GOOD.items() for text, value in texts.items()),
    *((kind, text, None, BAD) for kind, texts in REFUSED.items() for text in texts),
    *((kind, text, value, CUT) for kind, texts in PRECISION.items() for text, value in texts.items()),
    *((kind, None, None, None) for kind in GOOD),
]


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> dict[int, tuple[Any, str | None]]:
    """Value and reason of every case, out of one job."""
    frame = spark.createDataFrame(
        [(n, kind, text) for n, (kind, text, _, _) in enumerate(CASES)], "n int, kind string, text string"
    )
    columns = []
    for kind in GOOD:
        value = typed(F.col("text"), kind)
        shown = value.cast("string") if kind in ("date", "timestamp", "timestamp_ntz") else value
        columns += [
            F.when(F.col("kind") == kind, shown).alias(kind),
            F.when(F.col("kind") == kind, fault(F.col("text"), kind)).alias(f"why {kind}"),
        ]
    rows = frame.repartition(2).select("n", "kind", *columns).collect()
    return {row["n"]: (row[row["kind"]], row[f"why {row['kind']}"]) for row in rows}


def test_every_case_is_typed_as_expected(found: dict[int, tuple[Any, str | None]]) -> None:
    wrong = []
    for n, (kind, text, value, reason) in enumerate(CASES):
        got, why = found[n]
        got = bytes(got) if isinstance(got, bytearray) else got
        is_same = (
            math.isnan(got)
            if isinstance(value, float) and math.isnan(value) and got is not None
            else (type(got), got) == (type(value), value)
        )
        if not is_same or why != reason:
            wrong.append(f"{text!r} as {kind}: {got!r} ({why}), expected {value!r} ({reason})")
    assert not wrong, "\n".join(wrong)


def test_types_are_the_ones_asked_for(spark: SparkSession) -> None:
    one = spark.range(1).select(F.lit(None).cast("string").alias("text"))
    kinds = one.select(*(typed(F.col("text"), kind).alias(str(i)) for i, kind in enumerate(GOOD))).schema
    assert [field.dataType.simpleString() for field in kinds] == list(GOOD)


def test_what_is_no_canonical_type_is_a_bug(spark: SparkSession) -> None:
    with pytest.raises(ValueError, match="no canonical type: varchar"):
        typed(F.lit("x"), "varchar")


@pytest.mark.parametrize(("kind", "zone"), [("timestamp", "Z"), ("timestamp_ntz", "")])
def test_a_time_with_digits_beyond_microseconds_is_no_key(spark: SparkSession, kind: str, zone: str) -> None:
    second = "2024-02-29T10:00:00"
    texts = [".123456", ".1234560", ".1234567", ".1234560001", "", None]
    frame = spark.createDataFrame([(None if t is None else f"{second}{t}{zone}",) for t in texts], "t string")
    found = [row[0] for row in frame.select(typed_key(F.col("t"), kind).isNotNull()).collect()]
    assert found == [True, True, False, False, True, False]


def test_a_change_whose_key_does_not_fit_has_no_effect(spark: SparkSession) -> None:
    images = [
        ("good", {"id": "7", "day": "2024-02-29"}),
        ("null is a key", {"id": None, "day": "2024-02-29"}),
        ("no number", {"id": "abc", "day": "2024-02-29"}),
        ("rounded", {"id": "7.5", "day": "2024-02-29"}),
        ("no day", {"id": "7", "day": "2024-02-30"}),
        ("too large", {"id": "99999999999", "day": "2024-02-29"}),
        ("half a key", {"id": "7"}),
    ]  # fmt: skip
    schema = (
        "sequence string, event_time timestamp, change_id string, transaction_id string, op string, "
        "partial boolean, half string, "
        "before map<string,string>, after map<string,string>"
    )
    rows: list[tuple[Any, ...]] = [
        (f"01{n}", None, name, None, "insert", False, None, None, image)
        for n, (name, image) in enumerate(images)
    ]
    rows += [
        (f"02{n}", None, f"{name}, deleted", None, "delete", False, None, image, None)
        for n, (name, image) in enumerate(images)
    ]
    rows.append(("030", None, "from a bad key", None, "update", False, None, images[2][1], images[0][1]))
    rows.append(("031", None, "to a bad key", None, "update", False, None, images[0][1], images[2][1]))

    kept = effects(
        spark.createDataFrame(rows, schema),
        [TableColumn("id", "int", None), TableColumn("day", "date", None)],
    ).collect()

    day = "2024-02-29"
    assert sorted((row["change_id"], row["k0"], str(row["k1"]), row["is_upsert"]) for row in kept) == [
        ("from a bad key", 7, day, True),
        ("good", 7, day, True),
        ("good, deleted", 7, day, False),
        ("null is a key", None, day, True),
        ("null is a key, deleted", None, day, False),
    ]


def _kept_numbers() -> dict[str, set[str]]:
    """Texts that writers make of floats and doubles."""
    source = random.Random("digits")
    doubles = [source.uniform(-1, 1) * 10.0 ** source.randint(-30, 40) for _ in range(1_500)]
    doubles += [2.0**-44, 2e23, 2.0**53, 9007199254740994.0, 1e22, 5e-324, 1.7976931348623157e308]
    singles = [unpack("f", pack("f", number))[0] for number in doubles if 1e-37 < abs(number) < 1e37]
    shortest = {next(t for n in range(6, 10) if unpack("f", pack("f", float(t := f"{s:.{n}g}")))[0] == s)
        for s in singles}  # fmt: skip
    usual = {f"{source.uniform(-1, 1) * 10.0 ** source.randint(-5, 9):.12f}"[:15] for _ in range(500)}
    plain = {format(Decimal(repr(number)), "f") for number in doubles if 1e-6 < abs(number) < 1e25}
    return {
        "double": {
            *map(repr, doubles),
            *(f"{number:.17g}" for number in doubles),
            *usual,
            *plain,
            "1.50" + "0" * 30,
        },
        "float": {
            *shortest,
            *map(repr, singles),
            *(f"{s:.6g}" for s in singles),
            "16777216",
            "0.1000000000000",
        },
    }


def test_numbers_keep_their_digits_or_are_listed_and_are_no_key(spark: SparkSession) -> None:
    rounded = {
        "double": ("99999999999999.99", "-99999999999999.99", "9007199254740993", "0.12345678901234567",
            "1234567890123456.7", "9.0071992547409931e15", "12345678901234567890", "0.1000000000000000055"),
        "float": ("16777217", "1234.56789", "0.1234567891", "99999.999"),
    }  # fmt: skip
    for kind, kept in _kept_numbers().items():
        rows = [(text, True) for text in sorted(kept)] + [(text, False) for text in rounded[kind]]
        column = F.col("text")
        found = spark.createDataFrame(rows, "text string, kept boolean").select(
            "text", "kept", fault(column, kind), typed(column, kind).isNotNull(),
            typed_key(column, kind).isNotNull(), may_be_imprecise(column, kind),
        ).collect()  # fmt: skip
        assert [row for row in found if tuple(row[1:5]) not in (
            (True, None, True, True), (False, CUT, True, False)
        )] == []  # fmt: skip
        assert all(may_be for *_, is_kept, _, _, _, may_be in found if not is_kept)
        assert not any(may_be for text, *_, may_be in found if len(text) <= FEW_DIGITS[kind])
        sure = [row[0] for row in found if certainly_fits(row[0], kind)]
        assert (len(sure) > 100, set(sure) <= kept) == (True, True)
