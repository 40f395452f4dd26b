"""Snapshot rows that came after changes of their table: they apply only to keys without a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from framework.naming import dotted_name
from framework.text.formatting import noun_for, quantity
from silver.values.sequence import epoch_sql, is_snapshot_sql

_TABLE = ("source", "database", "schema", "table")


def late_snapshots(counts: DataFrame) -> Sequence[dict[str, Any]]:
    """For each table, how many snapshot rows came after its first changes of the epoch, by `ops/batches`."""
    if "snapshots" not in counts.columns:
        return ()
    rows = counts.where("kind = 'row'").withColumn("epoch", F.expr(epoch_sql("max_sequence")))
    place = (*_TABLE, "epoch")
    is_stream = ~F.expr(is_snapshot_sql("max_sequence"))
    began = F.min(F.when(is_stream, F.col("batch"))).over(Window.partitionBy(*place))
    late = rows.withColumn("began", began).where((F.col("snapshots") > 0) & (F.col("batch") > F.col("began")))
    found = late.groupBy(*place).agg(F.sum("snapshots").alias("rows")).collect()
    return [_with_note(row.asDict()) for row in sorted(found, key=repr)]


def _with_note(late: dict[str, Any]) -> dict[str, Any]:
    name = dotted_name(late["database"], late["schema"], late["table"])
    rows, were = quantity(late["rows"], "row"), noun_for(late["rows"], "was", "were")
    note = (
        f"source {late['source']}, {name}: {rows} of a snapshot came after changes, and"
        f" {were} applied only to keys without a row; to take a snapshot whole,"
        f" set `epoch: {late['epoch'] + 1}` for the source and take it again"
    )
    return {**late, "note": note}
