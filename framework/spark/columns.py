"""Columns that depend on the source of a row."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F


def by_source(values: Mapping[str, Column], otherwise: Column) -> Column:
    """The value of each row's source, as one expression for any number of sources.

    Nested conditions of a hundred sources are more than a client can send.
    """
    chosen: Column | None = None
    for source, value in values.items():
        is_it = F.col("source") == source
        chosen = F.when(is_it, value) if chosen is None else chosen.when(is_it, value)
    return otherwise if chosen is None else chosen.otherwise(otherwise)
