"""Texts of numbers, compared with a number digit by digit: no cast rounds what is compared."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from pyspark.sql import Column
from pyspark.sql import functions as F

_WIDE, _SCALE, _LIMIT = "decimal(38,12)", 12, Decimal(10) ** 26
_NUMBER = r"^\s*([+-]?)(?=\.?[0-9])([0-9]*)\.?([0-9]*)(?:[eE]([+-]?[0-9]{1,9}))?\s*\z"


@dataclass(frozen=True, slots=True)
class _Parts:
    """A number: its sign (-1, 0, 1) and 0.`digits` times ten to the `power`, without zeros at either end."""

    sign: Column
    digits: Column
    power: Column


def order(text: Column, bound: Decimal) -> Column:
    """-1, 0 or 1: whether a number is below, at or above a bound; null where the text is no number.

    Infinity and NaN have the order of doubles, in which NaN is above all else.
    """
    value = text.try_cast("double")
    exact = compared(value, F.lit(float(bound)))
    if not bound.is_finite():
        return exact
    exact = F.when(text.rlike(_NUMBER), _order_of(_parts(text), bound)).otherwise(exact)
    if abs(bound) >= _LIMIT or _decimals(bound) > _SCALE:
        return exact
    # rounding keeps the order: only a value that is rounded to the bound may be on its other side
    near, limit = text.try_cast(_WIDE), F.lit(f"{bound:f}").cast(_WIDE)
    may_be_rounded = (F.length(text) > _SCALE + 1) | F.contains(F.lower(text), F.lit("e"))
    found = F.when(near < limit, F.lit(-1)).when(near > limit, F.lit(1))
    return found.when((near == limit) & ~may_be_rounded, F.lit(0)).otherwise(exact)


def is_one_of(text: Column, numbers: Iterable[Decimal]) -> Column:
    """Whether a text is one of these finite numbers, however it is written; null where it is no number."""
    return _plain(text).isin(*(_text_of(number) for number in numbers))


def is_same(text: Column, other: Column) -> Column:
    """Whether two texts are the same finite number, however it is written; null where one is no number."""
    return F.when(text == other, F.lit(True)).otherwise(_plain(text) == _plain(other))


def _plain(text: Column) -> Column:
    """The one text of a finite number, as `_text_of` writes it; null where a text is no number."""
    parts = _parts(text)
    own = F.concat_ws(" ", parts.sign, parts.digits, F.when(parts.sign != 0, parts.power))
    return F.when(text.rlike(_NUMBER), own)


def compared(one: Column, other: Column) -> Column:
    """-1, 0 or 1: whether one value is below, at or above another; null where one is null."""
    return F.when(one < other, F.lit(-1)).when(one > other, F.lit(1)).when(one == other, F.lit(0))


def _parts(text: Column) -> _Parts:
    minus, whole, fraction, exponent = (F.regexp_extract(text, _NUMBER, i) for i in range(1, 5))
    all_digits = F.concat(whole, fraction)
    digits = F.ltrim(all_digits, F.lit("0"))
    power = (
        F.length(whole)
        - (F.length(all_digits) - F.length(digits))
        + F.coalesce(exponent.try_cast("int"), F.lit(0))
    )
    sign = F.when(digits == "", F.lit(0)).when(minus == "-", F.lit(-1)).otherwise(F.lit(1))
    return _Parts(sign, F.rtrim(digits, F.lit("0")), power)


def _order_of(parts: _Parts, bound: Decimal) -> Column:
    sign, digits, power = _parts_of(bound)
    size = compared(
        F.struct(parts.power.alias("power"), parts.digits.alias("digits")),
        F.struct(F.lit(power).alias("power"), F.lit(digits).alias("digits")),
    )
    return F.when(parts.sign == sign, size * sign if sign else F.lit(0)).otherwise(
        compared(parts.sign, F.lit(sign))
    )


def _parts_of(number: Decimal) -> tuple[int, str, int]:
    minus, digits, exponent = number.as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    sign = 0 if not text else -1 if minus else 1
    return sign, text.rstrip("0"), len(text) + int(exponent)


def _text_of(number: Decimal) -> str:
    sign, digits, power = _parts_of(number)
    return f"{sign} {digits} {power}" if sign else "0 "


def _decimals(number: Decimal) -> int:
    _, digits, power = _parts_of(number)
    return len(digits) - power
