"""Snapshot rows that came after changes of their table: they apply only to keys without a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from framework.naming import dotted_name

_TABLE = ("source", "database", "schema", "table")


def late_snapshots(counts: DataFrame) -> Sequence[dict[str, Any]]:
    """For each table, how many snapshot rows came after its first changes of the epoch, by `ops/batches`."""
    if "snapshots" not in counts.columns:
        return ()
    rows = counts.where("kind = 'row'").withColumn(
        "epoch", F.regexp_extract("max_sequence", r"^\d\d(\d+)", 1).cast("int")
    )
    place = (*_TABLE, "epoch")
    is_stream = F.col("max_sequence").rlike(r"^\d+\.011\.")
    began = F.min(F.when(is_stream, F.col("batch"))).over(Window.partitionBy(*place))
    late = rows.withColumn("began", began).where((F.col("snapshots") > 0) & (F.col("batch") > F.col("began")))
    found = late.groupBy(*place).agg(F.sum("snapshots").alias("rows")).collect()
    return [_with_note(row.asDict()) for row in sorted(found, key=repr)]


def _with_note(late: dict[str, Any]) -> dict[str, Any]:
    name = dotted_name(late["database"], late["schema"], late["table"])
    note = (
        f"source {late['source']}, {name}: {late['rows']:,} rows of a snapshot came after changes, and were"
        f" applied only to keys without a row; to take a snapshot whole, set `epoch: {late['epoch'] + 1}`"
        " for the source and take it again"
    )
    return {**late, "note": note}
