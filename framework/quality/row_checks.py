"""Measures the rules of one table in one pass over it, and finds the failing keys of those that fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import cache, reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from framework.config.quality import ROW_KINDS, Bound, Value
from framework.contracts.expectations import Finding, Measurement, MeasurementContext, Rule
from framework.contracts.quality import MOST_KEYS
from framework.naming import quoted
from framework.quality.bounds import order_to
from framework.quality.exact_numbers import is_one_of
from framework.text.formatting import quantity

PASS_KINDS = (*ROW_KINDS, "unique", "sql")
"""Kinds that the one pass measures."""


def row_measurement(
    rows: Callable[[], DataFrame], rules: Sequence[Rule], keys: Sequence[str], context: MeasurementContext
) -> Measurement:
    """The measurement of a table's rules; its first count is that of the rows.

    A second job finds the keys of a rule that fails. `keys` are the columns that name a row.
    """
    rows = cache(rows)

    def frame() -> DataFrame:
        found = rows()
        counts = [F.count("*"), *(_failed(rule) for rule in rules if not _missing(found, rule))]
        names = {
            name.lower(): F.col(quoted(name))
            for rule in rules
            for name in rule.columns
            if not _missing(found, rule)
        }
        needed = found if any(rule.kind == "sql" for rule in rules) else found.select(*names.values())
        return context.whole(needed).agg(F.array(*counts))

    def answer(counts: Sequence[int]) -> Sequence[Finding]:
        found, total, rest = rows(), counts[0], iter(counts[1:])
        return [
            _finding(found, rule, total, None if _missing(found, rule) else next(rest), keys)
            for rule in rules
        ]

    parts = tuple(row_measurement(rows, (rule,), keys, context) for rule in rules) if len(rules) > 1 else ()
    return Measurement(tuple(rules), frame, answer, parts)


def _missing(rows: DataFrame, rule: Rule) -> list[str]:
    have = {name.lower() for name in rows.columns}
    return [name for name in rule.columns if name.lower() not in have]


def _finding(rows: DataFrame, rule: Rule, total: int, failed: int | None, keys: Sequence[str]) -> Finding:
    if failed is None:
        missing = ", ".join(_missing(rows, rule))
        detail = f"it has {', '.join(rows.columns)}"[:500]
        return Finding(rule, total, 1, observed=f"no column {missing}", detail=detail, is_measured=False)
    if not failed:
        return passed(rule, total)
    return Finding(
        rule, total, failed, failing_keys(rows, rule, keys), f"{failed:,} of {quantity(total, 'row')}"
    )


def passed(rule: Rule, total: int) -> Finding:
    """The finding of a rule that all rows hold."""
    return Finding(rule, total, 0, (), f"0 of {quantity(total, 'row')}")


def failing_keys(rows: DataFrame, rule: Rule, keys: Sequence[str]) -> tuple[str, ...]:
    """Some of the keys that break a rule, smallest first."""
    if rule.kind == "unique":
        whole = rows.where(_is_compared(rule)).groupBy(*map(_cell, rule.columns)).count()
        frame = whole.where("count > 1").select(key_text(rule.columns).alias("key"))
    else:
        frame = rows.where(is_broken(rule, _cell)).select(key_text(keys or rows.columns[:3]).alias("key"))
    return tuple(row[0] for row in frame.orderBy("key").limit(MOST_KEYS).collect())


def key_text(keys: Iterable[str]) -> Column:
    """A key for people: `id=7, line=2`; null is written as such."""
    return named_texts({name: _text(F.col(quoted(name))) for name in keys})


def named_texts(texts: Mapping[str, Column]) -> Column:
    """Texts with their names, as in a key for people."""
    parts = [F.concat(F.lit(f"{name}="), F.coalesce(text, F.lit("null"))) for name, text in texts.items()]
    return F.concat_ws(", ", *parts)


def _text(value: Column) -> Column:
    return value.cast("string")


def is_broken(rule: Rule, cell: Callable[[str], Column]) -> Column:
    """Whether a row breaks a rule; `cell` returns the value of a column, typed or as text."""
    if rule.kind == "sql":
        # in parentheses, a word after the condition is no name for it
        return ~F.coalesce(F.expr(f"({rule.text or 'true'}\n)").cast("boolean"), F.lit(True))
    if rule.kind == "not_null":
        return reduce(lambda a, b: a | b, (cell(name).isNull() for name in rule.columns))
    value = cell(rule.columns[0])
    if rule.kind == "accepted":
        holds = _is_one_of(value, rule.values)
    elif rule.kind == "range":
        holds = _is_between(value, rule.low, rule.high)
    elif rule.kind == "length":
        holds = _is_between(F.length(_text(value)), rule.low, rule.high)
    else:
        holds = _text(value).rlike(rf"^(?:{rule.pattern})\z")
    return value.isNotNull() & ~F.coalesce(holds, F.lit(False))


def is_broken_where_there(
    rule: Rule, cell: Callable[[str], Column], is_there: Callable[[str], Column]
) -> Column:
    """Whether a row breaks a rule of ROW_KINDS in a column that is there; other columns are not checked."""
    tests = (is_there(name) & is_broken(replace(rule, columns=(name,)), cell) for name in rule.columns)
    return reduce(lambda a, b: a | b, tests)


def _failed(rule: Rule) -> Column:
    if rule.kind == "unique":
        values = F.when(_is_compared(rule), F.struct(*map(_cell, rule.columns)))
        return F.count(values) - F.count_distinct(values)
    return F.count_if(is_broken(rule, _cell))


def _is_compared(rule: Rule) -> Column:
    """Whether a row can equal another: one with a null only can where the rule takes nulls as equal."""
    if rule.nulls_equal:
        return F.lit(True)
    return reduce(lambda a, b: a & b, (_cell(name).isNotNull() for name in rule.columns))


def _cell(name: str) -> Column:
    return F.col(quoted(name))


def _is_one_of(value: Column, values: Sequence[Value]) -> Column:
    text = _text(value)
    numbers = [Decimal(str(v)) for v in values if not isinstance(v, (bool, str))]
    texts = [str(v).lower() if isinstance(v, bool) else str(v) for v in values]
    texts += [str(number) for number in numbers if not number.is_finite()]
    finite = [number for number in numbers if number.is_finite()]
    holds = text.isin(*texts)
    return holds | F.coalesce(is_one_of(text, finite), F.lit(False)) if finite else holds


def _is_between(value: Column, low: Bound | None, high: Bound | None) -> Column:
    holds = F.lit(True)
    if low is not None:
        holds = holds & (order_to(value, low) >= 0)
    if high is not None:
        holds = holds & (order_to(value, high) <= 0)
    return holds
