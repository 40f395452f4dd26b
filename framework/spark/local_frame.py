"""Frames of a few rows of this process. It imports what it needs late: its users also run without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_PARSED: dict[str, StructType] = {}


def local_frame(spark: SparkSession, rows: Iterable[Sequence[Any]], schema: str | StructType) -> DataFrame:
    """The rows as a frame.

    PySpark sends a list of rows through a Python worker, which takes a fifth of a second in the first job
    that reads them; a table of Arrow goes to the JVM at once.

    Args:
        spark: The session.
        rows: Each has one value for each column, in their order. Times without a zone are in UTC.
        schema: The columns, as a type or as Spark SQL writes them.
    """
    kinds = parsed(spark, schema)
    return spark.createDataFrame(arrow_rows(rows, kinds), kinds)


def arrow_frame(spark: SparkSession, rows: pa.Table, schema: str | StructType) -> DataFrame:
    """The rows of a table of Arrow, which has these columns, as a frame."""
    # Spark makes no frame of a table without rows that has no chunk, or several
    return spark.createDataFrame(
        rows.combine_chunks() if rows.num_rows else rows.schema.empty_table(), schema
    )


def arrow_rows(rows: Iterable[Sequence[Any]], schema: StructType) -> pa.Table:
    """The rows as a table of Arrow, in the same way."""
    import pyarrow as pa

    from framework.spark.arrow_schemas import arrow_schema

    fields = arrow_schema(schema)
    columns = list(zip(*rows, strict=True)) or [()] * len(fields)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, fields, strict=True)]
    return pa.Table.from_arrays(arrays, schema=fields)


def parsed(spark: SparkSession, schema: str | StructType) -> StructType:
    """The columns as a type; Spark parses a text only once."""
    if not isinstance(schema, str):
        return schema
    if schema not in _PARSED:
        _PARSED[schema] = spark.createDataFrame([], schema).schema
    return _PARSED[schema]
