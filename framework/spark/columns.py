"""Expressions and joins for many values, whose plans do not grow with the number of values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from framework.spark.local_frame import local_frame


def by_source(values: Mapping[str, Column], otherwise: Column) -> Column:
    """The value of each row's source, as one expression for any number of sources.

    Nested conditions of a hundred sources are more than a client can send.
    """
    chosen: Column | None = None
    for source, value in values.items():
        is_it = F.col("source") == source
        chosen = F.when(is_it, value) if chosen is None else chosen.when(is_it, value)
    return otherwise if chosen is None else chosen.otherwise(otherwise)


_FEW = 100


def with_one_of(rows: DataFrame, column: str, texts: Iterable[str]) -> DataFrame:
    """The rows whose text in `column` is one of `texts`; a row where it is null is not among them.

    Few texts are literals, which needs no job of its own; more are data of a join.
    """
    wanted = sorted(set(texts))
    if len(wanted) <= _FEW:
        return rows.where(F.col(f"`{column}`").isin(wanted))
    known = local_frame(rows.sparkSession, [(text,) for text in wanted], f"`{column}` string")
    return rows.join(F.broadcast(known), column, "left_semi").select(*(F.col(f"`{n}`") for n in rows.columns))
