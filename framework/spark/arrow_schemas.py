"""Arrow schemas of Spark's schemas, the same in every version of Spark."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

if TYPE_CHECKING:
    import pyarrow as pa


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema of a schema; its instants are in UTC, which Spark 4.2 wants to be told."""
    from pyspark.sql.pandas.types import to_arrow_schema

    is_asked = "timezone" in signature(to_arrow_schema).parameters
    zone: dict[str, Any] = {"timezone": "UTC"} if is_asked else {}
    return to_arrow_schema(schema, **zone)
