"""Exact casts from canonical text to typed values: a cell that does not fit is null, and has a reason.

Spark's own casts round, truncate and guess. Here a text must have its type's canonical form, and the typed
value must keep every digit. There are two exceptions: fractions of a second beyond microseconds are
truncated, and digits that a float or double does not hold are rounded. Both are listed as `precision`; a key
with such digits does not fit.
"""

from __future__ import annotations

import re

from pyspark.sql import Column
from pyspark.sql import functions as F

from gold.schema.kept_digits import FEW_DIGITS, is_rounded, may_be_rounded

TIMES = ("timestamp", "timestamp_ntz")
IMPRECISE = (*TIMES, *FEW_DIGITS)
"""The types whose cells may be listed although they fit (`is_imprecise`)."""
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
# Patterns end in \z: in Java, $ also matches before a line break at the end, which Spark's casts then trim.
_FLOAT = r"^(-?(\d+(\.\d*)?([eE][+-]?\d+)?|Infinity)|NaN)\z"
_LONGEST_STAMP = len("2024-02-29T10:00:00.123456")
_STAMP = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?"


def typed(text: Column, kind: str) -> Column:
    """The value of a canonical text in a type; null where the text is null or does not fit.

    A value whose own text is the text surely fits: patterns cost several times as much as that comparison.
    """
    if kind == "string":
        return text
    if kind == "boolean":
        return F.when(text == "true", F.lit(True)).when(text == "false", F.lit(False))
    if kind in TIMES:
        zone = "Z" if kind == "timestamp" else ""
        is_longer = F.length(text) > _LONGEST_STAMP + len(zone)
        cut = F.when(is_longer, F.regexp_replace(text, r"(\.\d{6})\d+", "$1")).otherwise(text)
        return F.when(text.rlike(_STAMP + zone + r"\z") & (text >= "0001"), cut.try_cast(kind))
    if kind == "binary":
        # Spark also reads base64 that is not padded; so `0x0102` would be bytes
        is_whole = F.octet_length(F.regexp_replace(text, r"\s", "")) % 4 == 0
        return F.when(text.endswith("=") | is_whole, F.try_to_binary(text, F.lit("base64")))
    if kind == "date":
        day = text.try_cast("date")
        return F.when((day.cast("string") == text) & (text >= "0001"), day)
    of_pattern = _of_pattern(text, kind)
    value = text.try_cast(kind)
    return F.when(value.cast("string") == text, value).otherwise(of_pattern)


def typed_key(text: Column, kind: str) -> Column:
    """The value of a text in a column of the key; null also where it keeps not every digit.

    A time that is cut to microseconds, or a number that is rounded, would be the key of another row.
    """
    value = typed(text, kind)
    return F.when(~is_imprecise(text, kind), value) if kind in IMPRECISE else value


def _of_pattern(text: Column, kind: str) -> Column:
    """The number that a canonical text says, which need not be the text that Spark writes for it."""
    if kind in ("tinyint", "smallint", "int", "bigint"):
        return F.when(text.rlike(r"^-?\d+(\.0+)?\z"), F.regexp_replace(text, r"\.0+$", "").try_cast(kind))
    if kind in ("float", "double"):
        value = F.when(text.rlike(_FLOAT), text.try_cast(kind))
        is_too_large = (F.abs(value) == F.lit(float("inf")).cast(kind)) & ~text.rlike("Infinity")
        is_too_small = (value == 0) & text.rlike(r"^-?[0.]*[1-9]")
        return F.when(~is_too_large & ~is_too_small, value)
    return _decimal(text, kind)


def _decimal(text: Column, kind: str) -> Column:
    match = _DECIMAL.fullmatch(kind)
    if match is None:
        raise ValueError(f"no canonical type: {kind}")
    precision, scale = int(match[1]), int(match[2])
    fits = rf"^-?0*\d{{0,{precision - scale}}}(\.\d{{0,{scale}}}0*)?\z"
    return F.when(text.rlike(fits) & text.rlike(r"\d"), text.try_cast(kind))


def fault(text: Column, kind: str) -> Column:
    """Why a cell is listed: `bad_value` (null in gold), `precision` (it has lost digits), or null."""
    if kind == "string":
        return F.lit(None).cast("string")
    bad = F.when(text.isNotNull() & typed(text, kind).isNull(), F.lit("bad_value"))
    return F.coalesce(bad, F.when(is_imprecise(text, kind), F.lit("precision"))) if kind in IMPRECISE else bad


def is_imprecise(text: Column, kind: str) -> Column:
    """Whether a cell that fits has digits that its type does not keep; null where the text is null."""
    return text.rlike(r"\.\d{6}\d*[1-9]\d*Z?$") if kind in TIMES else is_rounded(text, kind)


def may_be_imprecise(text: Column, kind: str) -> Column:
    """Whether `is_imprecise` can be true; cheaper than it, never false where it is true."""
    return is_imprecise(text, kind) if kind in TIMES else may_be_rounded(text, kind)
