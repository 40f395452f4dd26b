"""The Spark schemas of the tables where two layers meet, and of the operational logs."""

from __future__ import annotations

from pyspark.sql import types as T

TEXT_MAP = T.MapType(T.StringType(), T.StringType(), True)
COORDINATES = (
    T.StructField("topic", T.StringType()),
    T.StructField("partition", T.IntegerType()),
    T.StructField("offset", T.LongType()),
)
MESSAGE_AT = ("source", "topic", "partition", "offset")
"""The columns that locate a message. A topic that is created again counts its offsets from 0 again."""
MESSAGE_ID = (*MESSAGE_AT, "epoch")
"""The columns of `silver/changes` that identify the message of an outcome, within an epoch."""
HEADERS = T.ArrayType(
    T.StructType([T.StructField("key", T.StringType()), T.StructField("value", T.BinaryType())])
)

MESSAGES = T.StructType(
    [
        T.StructField("source", T.StringType()),
        *COORDINATES,
        T.StructField("timestamp", T.TimestampType()),
        T.StructField("key", T.BinaryType()),
        T.StructField("value", T.BinaryType()),
        T.StructField("headers", HEADERS),
        T.StructField("file", T.StringType()),
        T.StructField("line", T.LongType()),
        T.StructField("ingested_at", T.TimestampType()),
    ]
)

CHANGES = T.StructType(
    [
        T.StructField("change_id", T.StringType()),
        T.StructField("source", T.StringType()),
        T.StructField("format", T.StringType()),
        T.StructField("batch", T.LongType()),
        T.StructField("kind", T.StringType()),
        T.StructField("op", T.StringType()),
        T.StructField("database", T.StringType()),
        T.StructField("schema", T.StringType()),
        T.StructField("table", T.StringType()),
        T.StructField("sequence", T.StringType()),
        T.StructField("event_time", T.TimestampType()),
        *COORDINATES,
        T.StructField("ordinal", T.IntegerType()),
        T.StructField("keys", T.ArrayType(T.StringType())),
        T.StructField("before", TEXT_MAP),
        T.StructField("after", TEXT_MAP),
        T.StructField("partial", T.BooleanType()),
        T.StructField("schema_id", T.StringType()),
        T.StructField("transaction_id", T.StringType()),
        T.StructField("statement", T.StringType()),
        T.StructField("actions", T.StringType()),
        T.StructField("paired_with", T.StructType(list(COORDINATES))),
        T.StructField("reason", T.StringType()),
        T.StructField("detail", T.StringType()),
        T.StructField("half", T.StringType()),
        T.StructField("server", T.StringType()),
        T.StructField("position", T.StringType()),
        T.StructField("epoch", T.IntegerType()),
    ]
)

SCHEMAS = T.StructType(
    [
        T.StructField("schema_id", T.StringType()),
        T.StructField(
            "columns",
            T.ArrayType(
                T.StructType(
                    [
                        T.StructField("name", T.StringType()),
                        T.StructField("type", T.StringType()),
                        T.StructField("declared", T.StringType()),
                        T.StructField("token", T.StringType()),
                    ]
                )
            ),
        ),
        T.StructField("batch", T.LongType()),
    ]
)

QUARANTINE = T.StructType(
    [
        *COORDINATES,
        T.StructField("ordinal", T.IntegerType()),
        T.StructField("source", T.StringType()),
        T.StructField("format", T.StringType()),
        T.StructField("reason", T.StringType()),
        T.StructField("detail", T.StringType()),
        T.StructField("key", T.BinaryType()),
        T.StructField("value", T.BinaryType()),
        T.StructField("first_seen_at", T.TimestampType()),
        T.StructField("last_seen_at", T.TimestampType()),
        T.StructField("is_resolved", T.BooleanType()),
        T.StructField("batch", T.LongType()),
        T.StructField("epoch", T.IntegerType()),
        T.StructField("dismissed_at", T.TimestampType()),
        T.StructField("dismissed_by", T.StringType()),
        T.StructField("dismissed_because", T.StringType()),
    ]
)

QUALITY_RESULTS = T.StructType(
    [
        T.StructField("run_id", T.StringType()),
        T.StructField("started_at", T.TimestampType()),
        T.StructField("checked_at", T.TimestampType()),
        T.StructField("layer", T.StringType()),
        T.StructField("source", T.StringType()),
        T.StructField("database", T.StringType()),
        T.StructField("schema", T.StringType()),
        T.StructField("table", T.StringType()),
        T.StructField("rule", T.StringType()),
        T.StructField("kind", T.StringType()),
        T.StructField("columns", T.ArrayType(T.StringType())),
        T.StructField("severity", T.StringType()),
        T.StructField("success", T.BooleanType()),
        T.StructField("expected", T.StringType()),
        T.StructField("observed", T.StringType()),
        T.StructField("checked_count", T.LongType()),
        T.StructField("failed_count", T.LongType()),
        T.StructField("failing_keys", T.ArrayType(T.StringType())),
        T.StructField("detail", T.StringType()),
        T.StructField("is_gate", T.BooleanType()),
        T.StructField("engine", T.StringType()),
        T.StructField("version", T.LongType()),
        T.StructField("batch", T.LongType()),
        T.StructField("suite", T.StringType()),
    ]
)
