"""Which outcomes have a place in the log of their source: row changes and statements."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from framework.contracts.events import Op
from silver.values.sequence import epoch_part_sql, is_snapshot_sql


def is_row() -> Column:
    """Whether an outcome is a row change, of an excluded table too.

    An excluded table may be the only one that shows a reset, and may be included later.
    """
    return (F.col("kind") == "row") | (_is_excluded() & F.col("op").isin(*map(str, Op)))


def is_statement() -> Column:
    """Whether an outcome is a statement, of an excluded table too."""
    is_other = _is_excluded() & F.col("op").isNotNull() & ~F.col("op").isin(*map(str, Op))
    return F.col("kind").isin("ddl", "truncate") | is_other


def changes_with_position(rows: DataFrame, sources: Iterable[str]) -> DataFrame:
    """The row changes of these sources that have a position in the log."""
    return rows.where(F.col("source").isin(*sources) & is_row() & (F.col("op") != "read") & has_position())


def has_position() -> Column:
    """Whether the sequence of an outcome has a position."""
    return F.col("sequence").isNotNull() & ~F.expr(is_snapshot_sql("sequence"))


def epoch_in(sequence: str) -> Column:
    """The epoch in a column of sequences, as these write it."""
    return F.expr(epoch_part_sql(sequence))


def restart() -> Column:
    """How often the offsets of a message's partition had started again before it."""
    return F.coalesce("restart", F.lit(0)).alias("restart")


def _is_excluded() -> Column:
    return (F.col("kind") == "excluded") & F.col("reason").isNull()
