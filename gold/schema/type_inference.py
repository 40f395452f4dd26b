"""The type of a column, inferred from what the feed declares and what its values look like.

Everything here is a pure function of the evidence, and the evidence of two sets of changes joins in any
order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from framework.contracts.events import Token

INTEGERS = ("tinyint", "smallint", "int", "bigint")
_INTEGER_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
MAX_DIGITS = 38
LEAST_DIGITS = 20
"""The digits before the point that a decimal has at least, if its digits are not declared."""
_PLAIN = re.compile(r"-?(\d+)(?:\.(\d+))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class ColumnEvidence:
    """What rows of one naming show of one column, under its name at that time.

    Attributes:
        types: The canonical types that the feed declares.
        declared: The source's type texts that the feed declares.
        tokens: The kinds of JSON values that undeclared columns have.
        digits: The most digits before the point among plain numbers.
        scale: The most digits after the point among plain numbers.
        low: The lowest whole number, at most 0.
        high: The highest whole number, at least 0.
        has_others: Whether a value is no plain number of at most 38 digits.
    """

    types: frozenset[str] = frozenset()
    declared: frozenset[str] = frozenset()
    tokens: frozenset[str] = frozenset()
    digits: int = 0
    scale: int = 0
    low: int = 0
    high: int = 0
    has_others: bool = False

    @property
    def is_numeric(self) -> bool:
        """Whether the column has integers, or numbers of no declared type: their widths decide its type."""
        return bool(self.types & set(INTEGERS)) or Token.NUMBER in self.tokens

    def rounded(self) -> ColumnEvidence:
        """Evidence that leads to the same types, alone or with more, and is the same for more columns.

        The widths of numbers count only by the types that hold them.
        """
        return replace(
            self,
            digits=max(LEAST_DIGITS, self.digits) if self.digits else 0,
            low=-_bound(-self.low - 1) - 1 if self.low else 0,
            high=_bound(self.high) if self.high else 0,
        )

    def __or__(self, other: ColumnEvidence) -> ColumnEvidence:
        return ColumnEvidence(
            self.types | other.types,
            self.declared | other.declared,
            self.tokens | other.tokens,
            max(self.digits, other.digits),
            max(self.scale, other.scale),
            min(self.low, other.low),
            max(self.high, other.high),
            self.has_others or other.has_others,
        )


def _bound(number: int) -> int:
    """The highest number of the narrowest type that holds this one, or the first that fits in none."""
    bounds = ((1 << (bits - 1)) - 1 for bits in _BITS.values())
    return next((bound for bound in bounds if number <= bound), 1 << (max(_BITS.values()) - 1))


def widths_of(texts: Iterable[str]) -> ColumnEvidence:
    """The widths of numbers; other texts are only known to be there."""
    digits, scale, has_others, whole = 0, 0, False, list[int]()
    for text in texts:
        match = _PLAIN.fullmatch(text)
        if match is None:
            has_others = True
            continue
        own, fraction = len(match[1].lstrip("0")) or 1, len(match[2] or "")
        digits, scale = max(digits, own), max(scale, fraction)
        has_others |= own + fraction > MAX_DIGITS
        if match[2] is None and len(match[1]) <= MAX_DIGITS:
            whole.append(int(text))
    return ColumnEvidence(
        digits=digits,
        scale=scale,
        low=min(whole, default=0),
        high=max(whole, default=0),
        has_others=has_others,
    )


def is_plain_number(text: str) -> bool:
    """Whether the text is a number without an exponent."""
    return _PLAIN.fullmatch(text) is not None


def is_decimal(kind: str) -> bool:
    """Whether a canonical type is a decimal."""
    return _DECIMAL.fullmatch(kind) is not None


def infer_type(evidence: ColumnEvidence) -> str:
    """The narrowest canonical type that holds every value of a column without loss."""
    types = {_wide_enough(kind, evidence) if kind in INTEGERS else kind for kind in evidence.types}
    tokens = evidence.tokens - {Token.NULL}
    if tokens:
        types.add(_inferred(tokens, evidence))
    common: str | None = None
    for kind in sorted(types):
        common = kind if common is None else common_type(common, kind)
    return common or "string"


def _wide_enough(kind: str, evidence: ColumnEvidence) -> str:
    """The integer type, or a wider one for larger numbers: feeds declare `bigint` for unsigned columns."""
    for wider in INTEGERS[INTEGERS.index(kind) :]:
        limit = 1 << (_BITS[wider] - 1)
        if -limit <= evidence.low and evidence.high < limit:
            return wider
    return _decimal(max(LEAST_DIGITS, evidence.digits), 0)


def _inferred(tokens: frozenset[str] | set[str], evidence: ColumnEvidence) -> str:
    if tokens == {Token.NUMBER}:
        if evidence.has_others:
            return "string"
        if evidence.scale == 0:
            return _wide_enough("bigint", evidence)
        return _decimal(max(LEAST_DIGITS, evidence.digits) + evidence.scale, evidence.scale)
    if tokens == {Token.BOOLEAN}:
        return "boolean"
    return "string"


def _decimal(precision: int, scale: int) -> str:
    return f"decimal({precision},{scale})" if precision <= MAX_DIGITS else "string"


def common_type(one: str, other: str) -> str:
    """The narrowest type that holds the values of both types; `string` where no other type does."""
    if one == other:
        return one
    if one in INTEGERS and other in INTEGERS:
        return max(one, other, key=INTEGERS.index)
    a, b = digits_of(one), digits_of(other)
    if a is not None and b is not None:
        scale = max(a[1], b[1])
        return _decimal(max(a[0], b[0]) + scale, scale)
    if {one, other} == {"float", "double"}:
        return "double"
    if {one, other} == {"date", "timestamp_ntz"}:
        return "timestamp_ntz"  # databases convert a date to its midnight
    return "string"


def digits_of(kind: str) -> tuple[int, int] | None:
    """The most digits before and after the point of an exact type; None for other types."""
    if kind in INTEGERS:
        return _INTEGER_DIGITS[kind] + (1 if kind == "bigint" else 0), 0
    match = _DECIMAL.fullmatch(kind)
    return None if match is None else (int(match[1]) - int(match[2]), int(match[2]))


def can_widen(old: str, new: str) -> bool:
    """Whether Delta can change the column's type without rewriting the table, and each value stays exact.

    A float that became a double would keep the digits that the source did not send: 0.1 is 0.10000000149.
    """
    if old in INTEGERS and new in INTEGERS:
        return INTEGERS.index(old) < INTEGERS.index(new)
    a, b = digits_of(old), digits_of(new)
    if a is None or b is None or new in INTEGERS:
        return False
    if old in INTEGERS:
        return b[0] >= (20 if old == "bigint" else 10) and old in ("int", "bigint", "smallint", "tinyint")
    return b[0] >= a[0] and b[1] >= a[1]
