"""Behaviour 12 of the contract: snapshot rows of a table that has seen changes are counted,
and `status` says what to do.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from silver.operations.late_snapshots import late_snapshots

COLUMNS = (
    "batch bigint, source string, database string, schema string, `table` string, kind string, "
    "max_sequence string, snapshots bigint"
)
COPIED, STREAMED = "011.010.orders.010.017.010", "011.011.0250"


def test_rows_of_snapshots_behind_changes_are_counted_by_table_and_epoch(spark: SparkSession) -> None:
    def counted(batch: int, table: str, sequence: str, snapshots: int) -> tuple[object, ...]:
        return (batch, "feed", "shop", None, table, "row", sequence, snapshots)

    item = [
        counted(1000, "item", COPIED, 9),
        counted(2000, "item", STREAMED, 3),
        counted(3000, "item", COPIED, 5),
        counted(4000, "item", STREAMED, 2),
    ]
    whole = [counted(5000, "item", "012.010.orders.010.017.010", 8), counted(6000, "item", "012.011.015", 0)]
    first = [counted(1000, "line", COPIED, 4), counted(2000, "line", STREAMED, 0)]
    (late,) = late_snapshots(spark.createDataFrame([*item, *whole, *first], COLUMNS).coalesce(1))
    assert (late["table"], late["epoch"], late["rows"]) == ("item", 1, 7)
    assert "`epoch: 2`" in late["note"]
