"""Whether a float or double keeps all digits of its text: rounded back to as many, it has the same ones."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

FEW_DIGITS = {"float": 6, "double": 15}
"""So many digits every number keeps."""
MOST_DIGITS, EXACT_POWERS = 18, 22
"""Longer numbers are not kept. Of 10, the powers up to this one are doubles."""


def is_rounded(text: Column, kind: str) -> Column:
    """Whether a number in text has digits that the type does not keep; null where the text is null.

    The number is digits * 10^power. The value times 10^-power may differ from its digits by less than half of
    the last one, or by half where that one is even. Beyond the exact powers of 10, the digits that the
    shortest text of a value may have count as kept. A float also keeps the digits that its value has as a
    double.
    """
    mantissa = F.regexp_extract(text, r"^-?(\d+\.?\d*)", 1)
    exponent = F.coalesce(F.regexp_extract(text, r"[eE]([+-]?\d+)\z", 1).try_cast("int"), F.lit(0))
    written = F.regexp_replace(mantissa, r"\.", "")
    digits = F.regexp_replace(written, "^0+|0+$", "")
    zeros = F.length(written) - F.length(F.regexp_replace(written, "0+$", ""))
    power = exponent - F.length(F.regexp_extract(mantissa, r"\.(\d*)", 1)) + zeros
    value = text.try_cast(kind)
    size = F.abs(value.cast("double"))
    scale = F.concat(F.lit("1E"), F.abs(power).cast("string")).try_cast("double")
    number = digits.try_cast("bigint")
    off = F.when(power > 0, _above(number, size, scale)).otherwise(_below(number, size, scale))
    is_kept = (
        F.when(F.length(digits) > MOST_DIGITS, F.lit(False))
        .when(F.abs(power) > EXACT_POWERS, F.length(digits) < MOST_DIGITS)
        .otherwise((F.abs(off) < 0.5) | ((F.abs(off) == 0.5) & (number % 2 == 0)))
    )
    if kind == "float":
        is_kept = is_kept | (text.try_cast("double") == value.cast("double"))
    few = FEW_DIGITS[kind]
    return (
        F.when(F.length(text) <= few, F.lit(False))
        .when(value.cast("string") == text, F.lit(False))
        .when(F.length(digits) <= few, F.lit(False))
        .otherwise(~F.coalesce(is_kept, F.lit(True)))
    )


def may_be_rounded(text: Column, kind: str) -> Column:
    """Whether `is_rounded` has to look: nearly all numbers that it does not know are as writers print them.

    Its exact comparison is too much code for the pass over all changes, which would run far slower.
    """
    few = FEW_DIGITS[kind]
    digits = F.regexp_replace(text, r"^-?[0.]+|\.|[eE].*$", "")
    return (F.length(text) > few) & (text.try_cast(kind).cast("string") != text) & (F.length(digits) > few)


def _below(number: Column, size: Column, scale: Column) -> Column:
    """The digits less the value times the power: these two as the exact sum of two doubles."""
    product, rest = _product(size, scale)
    whole = F.floor(product).try_cast("bigint")
    return (F.try_subtract(number, whole)).cast("double") - (product - whole.cast("double")) - rest


def _above(number: Column, size: Column, scale: Column) -> Column:
    near = number.cast("double")
    product, rest = _product(near, scale)
    left = F.try_subtract(number, near.try_cast("bigint")).cast("double")
    return ((product - size) + rest + left * scale) / scale


def _product(a: Column, b: Column) -> tuple[Column, Column]:
    """The product of two doubles, and what rounding took from it (Dekker)."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _halves(number: Column) -> tuple[Column, Column]:
    """A double as the sum of two with half of its bits each."""
    spread = number * F.lit(2.0**27 + 1)
    high = spread - (spread - number)
    return high, number - high
