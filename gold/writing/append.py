"""Tables without a key: each change is one row."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from gold.schema.layout import Layout
from gold.writing.cells import with_cells
from gold.writing.merge import insert_changes, replace_table


def change_rows(rows: DataFrame, truncates: DataFrame, layout: Layout) -> DataFrame:
    """One row for each change: an update's `after` image, a delete's `before` image, nulls for a truncate.

    Args:
        rows: Row changes, with current column names.
        truncates: `change_id`, `sequence` and `event_time` of truncates.
        layout: The table's columns.

    Returns:
        c0… and the system columns.
    """
    image = F.when(F.col("op") == "delete", F.coalesce("before", "after")).otherwise(F.col("after"))
    changes = rows.select(
        "op",
        image.alias("after"),
        "sequence",
        "event_time",
        "change_id",
        F.col("half").isNull().alias("is_whole_change"),
    )
    newest = F.max_by(F.struct("op", "after", "event_time"), "is_whole_change").alias("v")
    once = changes.groupBy("change_id", "sequence").agg(newest).select("change_id", "sequence", "v.*")
    empty = F.lit(None).cast("map<string,string>")
    emptied = truncates.select(
        "change_id", "sequence", F.lit("truncate").alias("op"), empty.alias("after"), "event_time"
    )
    return with_cells(once.unionByName(emptied), layout).select(
        *layout.cells,
        F.col("sequence").alias("_cdc_sequence"),
        F.col("event_time").alias("_cdc_event_time"),
        F.col("change_id").alias("_cdc_change_id"),
        F.col("op").alias("_cdc_op"),
    )


def append(
    rows: DataFrame, truncates: DataFrame, path: str, layout: Layout, between: tuple[str, str] | None
) -> None:
    """Adds the changes that the table does not have yet; `between` are their lowest and highest sequence."""
    insert_changes(change_rows(rows, truncates, layout), path, layout, between)


def rewrite(rows: DataFrame, truncates: DataFrame, path: str, layout: Layout) -> None:
    """Rebuilds the table from all its changes, in one commit."""
    replace_table(change_rows(rows, truncates, layout), path, layout)
