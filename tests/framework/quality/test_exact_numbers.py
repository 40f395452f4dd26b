"""Texts are compared with numbers digit by digit: Python's decimals, which are exact, give the same order."""

from __future__ import annotations

import random
from decimal import Decimal

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from framework.quality.exact_numbers import is_one_of, order

BOUNDS = [
    *(
        0,
        1,
        -1,
        10,
        100,
        -10,
        0.1,
        -0.1,
        1e-13,
        -1e-13,
        1e26,
        1e30,
        -1e26,
        12345.678,
        10**30 + 1,
        10**40,
        1e308,
    ),
    *(10**26 - 1, 1e-300, 2**63, 0.5, 99.99),
]
TEXTS = [
    *(
        "0",
        "-0",
        "0.0",
        "-0.00",
        "1",
        "1.0",
        "01",
        "+1",
        ".5",
        "5.",
        "  1 ",
        "1.0000000000004",
        "-1.0000000000004",
    ),
    *("-0.000000000000000001", "0.000000000000000001", "9.9999999999999999999999999999999999999"),
    *("100000000000000000000000000", "99999999999999999999999999.999999999999", "1E26", "1.0E26", "1e-13"),
    *("-1e-13", "1.00000000000001e-13", "0.0000000000001", "1000000000000000000000000000001", "1" + "0" * 40),
    *(
        "1.00" + "0" * 50 + "1",
        "12345.678",
        "12345.6780",
        "1.2345678E4",
        "9223372036854775808",
        "1e308",
        "1e400",
    ),
    *("-1e400", "1e-300", "0.10", "0.1000000000000000055511151231257827", "0e5", "1E+1", "10E-1", "99.99"),
]
NO_NUMBERS = ["", " ", ".", "abc", "1 2", "0x1", "1,5", "--1", "1e", "e5", "1\n2"]


def random_texts(source: random.Random) -> list[str]:
    """Numbers around the bounds, with up to 45 digits."""
    found = []
    for _ in range(300):
        near = Decimal(str(source.choice(BOUNDS)))
        step = Decimal(source.randint(-3, 3)).scaleb(-source.choice([0, 1, 2, 11, 12, 13, 18, 30, 37]))
        text = f"{near:f}" if abs(near.adjusted()) < 50 else f"{near}"
        found.append(source.choice([f"{near + step}", f"{near + step:f}", text]))
    return found


def test_numbers_are_compared_as_python_compares_decimals(spark: SparkSession) -> None:
    texts = [*TEXTS, *random_texts(random.Random(7))]
    rows = spark.createDataFrame([(text,) for text in [*texts, *NO_NUMBERS]], "v string")
    numbers = [Decimal(str(bound)) for bound in BOUNDS]
    columns = [order(F.col("v"), number) for number in numbers]
    for row in rows.select("v", F.array(*columns), is_one_of(F.col("v"), numbers)).collect():
        if row[0] in NO_NUMBERS:
            assert (row[0], [*row[1]], row[2]) == (row[0], [None] * len(numbers), None)
            continue
        value = Decimal(row[0])
        wanted = [(value > number) - (value < number) for number in numbers]
        assert (row[0], [*row[1]]) == (row[0], wanted)
        assert (row[0], row[2]) == (row[0], 0 in wanted)


def test_what_is_no_finite_number_is_ordered_as_spark_orders_it(spark: SparkSession) -> None:
    rows = spark.createDataFrame([("NaN",), ("Infinity",), ("-Infinity",), ("1",)], "v string")
    bounds = [Decimal(5), Decimal("Infinity"), Decimal("-Infinity"), Decimal("NaN")]
    found = rows.select(*(order(F.col("v"), bound) for bound in bounds)).collect()
    assert [tuple(row) for row in found] == [(1, 1, 1, 0), (1, 0, 1, -1), (-1, -1, 0, -1), (-1, -1, 1, -1)]
