"""Tables without a key: each change is a row, added once."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from gold.merge import Layout, insert_changes, replace_table


def appended(rows: DataFrame, truncates: DataFrame, layout: Layout) -> DataFrame:
    """One row a change: an update's after image, a delete's before image, a truncate's nulls."""
    image = F.when(F.col("op") == "delete", F.coalesce("before", "after")).otherwise(F.col("after"))
    changes = rows.select(
        "op", image.alias("after"), "sequence", "event_time", "change_id", F.col("half").isNull().alias("is_whole_change")
    )
    newest = F.max_by(F.struct("op", "after", "event_time"), "is_whole_change").alias("v")
    once = changes.groupBy("change_id", "sequence").agg(newest).select("change_id", "sequence", "v.*")
    empty = F.lit(None).cast("map<string,string>")
    taken = truncates.select("change_id", "sequence", F.lit("truncate").alias("op"), empty.alias("after"), "event_time")
    return layout.with_cells(once.unionByName(taken)).select(
        *layout.cells,
        F.col("sequence").alias("_cdc_sequence"),
        F.col("event_time").alias("_cdc_event_time"),
        F.col("change_id").alias("_cdc_change_id"),
        F.col("op").alias("_cdc_op"),
    )


def append(rows: DataFrame, truncates: DataFrame, path: str, layout: Layout) -> None:
    """Add the changes that the table does not hold yet."""
    insert_changes(appended(rows, truncates, layout), path, layout)


def rewrite(rows: DataFrame, truncates: DataFrame, path: str, layout: Layout) -> None:
    """Rebuild the table from all its changes, in one commit."""
    replace_table(appended(rows, truncates, layout), path, layout)
