"""What can be many in silver makes no plan longer and comes to no single call:
files, partitions, sources, halves.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from framework.contracts.table_schemas import CHANGES
from silver.batches.outcomes import is_from
from silver.changes.staged_rows import STAGED_DDL
from silver.epochs.resets import FOLLOWS, StopPoint, drop_behind_stops, spread_stop_points
from silver.operations.transactions import changes_of, short_transactions
from tests.plans import is_constant, plan_text, sizes
from tests.silver.epochs.test_resets import change


def stops(count: int) -> list[StopPoint]:
    """A stop in each of so many landing files."""
    return [
        StopPoint("feed", f"file{number}.jsonl", 0, 2, FOLLOWS, "not earlier than the stops of the others")
        for number in range(count)
    ]


def test_rows_before_the_stops_are_one_expression_for_any_number_of_files(spark: SparkSession) -> None:
    rows = spark.createDataFrame([], STAGED_DDL)
    assert is_constant(sizes(lambda count: drop_behind_stops(rows, stops(count))))


def test_a_reset_in_thousands_of_landing_files_holds_back_each_of_them(spark: SparkSession) -> None:
    files = 3_000
    changes = [
        change(offset, f"011.021{offset}", 60 + offset, topic=f"file{number}.jsonl")
        for number in range(files)
        for offset in (1, 2)
    ]
    rows = spark.createDataFrame(
        [*changes, change(9, "011.0219", 60, topic="other.jsonl", source="healthy")], STAGED_DDL
    )
    spread = spread_stop_points(rows, stops(files)[: files // 2])
    assert sorted({stop.topic for stop in spread}) == sorted(stop.topic for stop in stops(files))
    assert {stop.offset for stop in spread} == {2}
    kept = drop_behind_stops(rows, spread)
    assert kept.columns == rows.columns
    assert sorted((row["source"], row["offset"]) for row in kept.collect()) == [
        *[("feed", 1)] * files,
        ("healthy", 9),
    ]


def test_earlier_changes_are_sought_with_a_flat_test_for_any_number_of_sources(spark: SparkSession) -> None:
    rows = spark.createDataFrame(
        [change(1, "011.0217", 0, source=name) for name in ("a", "b", "c")], STAGED_DDL
    )
    assert rows.where(is_from({"a": "011.0217", "b": "011.0218"})).count() == 1
    rows.where(is_from({f"feed{number}": f"011.03{number:03d}" for number in range(1_000)})).collect()


def test_only_the_changes_of_open_transactions_are_grouped(spark: SparkSession) -> None:
    """The others are all changes of all time, and Spark itself groups them before it joins them."""
    changes = spark.createDataFrame([], CHANGES)
    opened = spark.createDataFrame([], "source string, transaction_id string, announced bigint")
    found = short_transactions(opened, changes_of(opened, changes))
    grouped = plan_text(found).partition("count(distinct")[2]
    assert "LeftSemi" in grouped
