"""Cells compared with a bound of a range by their value, whether they are typed or texts of silver."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from framework.config.quality import Bound
from framework.config.range_bounds import moment_of, number_of
from framework.quality.exact_numbers import compared, order

_MOMENT = r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2})?)?\z"


def order_to(value: Column, bound: Bound) -> Column:
    """-1, 0 or 1: whether a cell is below, at or above a bound; null where the two cannot be compared.

    Numbers compare exactly and times as moments, also where cell or bound are texts. A bound that is neither
    compares by letters.
    """
    number, moment = number_of(bound), moment_of(bound)
    if number is None and moment is None:
        return compared(value, F.lit(bound))
    text = value.cast("string")
    by_number = F.lit(None).cast("int") if number is None else order(text, number)
    if moment is None:
        return by_number
    cut = F.regexp_replace(text, r"(\.\d{6})\d+", "$1")
    by_moment = compared(cut.try_cast("timestamp"), F.lit(moment.isoformat()).cast("timestamp"))
    return F.when(text.rlike(_MOMENT), by_moment).otherwise(by_number)
