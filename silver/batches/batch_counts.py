"""`ops/batches`: the rows of each batch by source, table, kind and reason. Gold reads the batches here."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from framework.contracts.table_names import BATCHES_TABLE
from framework.lakehouse.lakehouse import Lakehouse, Transaction
from framework.lakehouse.log_rows import RowCommit, append_rows
from silver.epochs.event_clock import believable
from silver.values.sequence import is_snapshot_sql

COUNTS_SCHEMA = (
    "batch bigint, source string, database string, schema string, `table` string, kind string, "
    "reason string, "
    "rows bigint, merged bigint, "
    "snapshots bigint, "
    "min_sequence string, max_sequence string, min_event_time timestamp, max_event_time timestamp, "
    "server string, "
    "measures string, "
    "max_ingested_at timestamp"
)
COUNTED_BY = ("batch", "source", "database", "schema", "table", "kind", "reason")
COUNTED = (
    *COUNTED_BY,
    "rows",
    "merged",
    "snapshots",
    "min_sequence",
    "max_sequence",
    "min_event_time",
    "max_event_time",
    "server",
    "measures",
)
"""The columns of `ops/batches` but the batch's time. `snapshots` counts snapshot rows without a position.

`measures` is what the row changes of a large batch show, if silver measured them while it decoded them.
"""
SUMS = ("rows", "merged", "snapshots")
"""What the rows of a batch, table, kind and reason together count."""
ENDS = ("min_sequence", "max_sequence", "max_event_time")
"""How far the rows of a batch have come."""


def count_rows(committed: DataFrame, landed_at: datetime | None) -> list[Row]:
    """Count the rows of a batch by table and kind, with their sequences and their believable event times."""
    return committed.groupBy(*COUNTED_BY).agg(*counting(landed_at)).collect()


def counting(landed_at: datetime | Column | None) -> list[Column]:
    """The aggregates of `count_rows` over rows of one table and kind."""
    is_order = F.col("kind").isin("row", "ddl", "truncate")
    return [
        F.count("*").alias("rows"),
        F.sum(F.col("paired_with").isNotNull().cast("long")).alias("merged"),
        F.count_if((F.col("op") == "read") & F.expr(is_snapshot_sql("sequence"))).alias("snapshots"),
        F.min(F.when(is_order, F.col("sequence"))).alias("min_sequence"),
        F.max(F.col("sequence")).alias("max_sequence"),
        F.min("event_time").alias("min_event_time"),
        F.max(believable(F.col("event_time"), landed_at)).alias("max_event_time"),
        F.max_by("server", F.when(F.col("server").isNotNull(), F.col("sequence"))).alias("server"),
        F.lit(None).cast("string").alias("measures"),
    ]


def counts_of(spark: SparkSession, lake: Lakehouse, batch: int) -> list[Row]:
    """The counts of a batch. They are written last: there are none if a crash came before that."""
    return lake.rows(spark, BATCHES_TABLE, COUNTS_SCHEMA).where(F.col("batch") == batch).collect()


def append_counts(
    lake: Lakehouse,
    spark: SparkSession,
    counts: Sequence[Row],
    clock: object,
    transaction: Transaction | None,
) -> None:
    """Publish the batch: gold reads the changes that are counted here."""
    rows = [(*(row[name] for name in COUNTED), clock) for row in counts]
    if not rows:
        return
    append_rows(spark, (lake, BATCHES_TABLE), rows, COUNTS_SCHEMA, RowCommit(transaction))
