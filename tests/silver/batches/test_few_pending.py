"""The halves that wait after a small batch are those that Spark's MERGE leaves."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from framework.contracts.table_names import PENDING_TABLE
from framework.contracts.table_schemas import CHANGES
from framework.lakehouse.lakehouse import Lakehouse, sql_name
from framework.spark.local_frame import arrow_frame
from framework.spark.session import is_connect
from silver.batches import few_pending
from silver.batches.few_outcomes import pair_halves, waiting_halves
from silver.batches.few_pending import replace_pending
from silver.batches.pending import merge_pending
from silver.batches.staged_files import rows_of_batch
from silver.changes.staged_rows import Row, plain_rows, staged_table
from tests.silver.batches.test_few_outcomes import drawn_halves

BEGIN = datetime(1970, 1, 1)


@pytest.fixture
def lakes(spark: SparkSession, tmp_path: Path) -> tuple[Lakehouse, Lakehouse]:
    if is_connect(spark):
        pytest.skip("a client of Spark Connect has no JVM")
    both = Lakehouse(str(tmp_path / "here")), Lakehouse(str(tmp_path / "by_spark"))
    for lake in both:
        lake.create(spark, PENDING_TABLE, CHANGES)
    return both


def waiting(spark: SparkSession, lake: Lakehouse) -> list[str]:
    found = lake.read(spark, PENDING_TABLE).toArrow()
    return sorted(
        str({name: sorted(v.items()) if isinstance(v := row[name], dict) else v for name in CHANGES.names})
        for row in plain_rows(found)
    )


def outcomes_of(rows: list[Row], held: pa.Table, deadline: datetime | None) -> pa.Table:
    """What becomes of a batch: updates stay, and halves are paired with those that wait."""
    staged = staged_table(rows)
    deadlines = {row["source"]: deadline for row in rows}
    paired = pair_halves(staged, held, None, deadlines, ())
    assert paired is not None
    return pa.concat_tables([staged_table(row for row in rows if row["half"] is None), paired])


@pytest.mark.slow
def test_the_halves_that_wait_are_those_that_spark_leaves(
    spark: SparkSession, lakes: tuple[Lakehouse, Lakehouse]
) -> None:
    here, by_spark = lakes
    draw, seen = Random(7), set[tuple[Any, ...]]()
    for batch in range(8):
        rows: list[Row] = []
        for feed in range(30):
            more = drawn_halves(draw, f"feed{feed}")
            rows += [{**row, "offset": row["offset"] + 1_000 * batch} for row in more[0]]
        held = waiting_halves(spark, here)
        assert held is not None
        deadline = draw.choice((None, BEGIN, BEGIN + timedelta(minutes=1)))
        outcomes = rows_of_batch(outcomes_of(rows, held, deadline), batch)
        landed_at = draw.choice((None, BEGIN, BEGIN - timedelta(hours=23, minutes=30)))
        times = {f"feed{feed}": BEGIN + timedelta(hours=feed) for feed in range(20)}
        assert replace_pending(spark, here, outcomes, landed_at, times)
        merge_pending(by_spark, arrow_frame(spark, outcomes, CHANGES), landed_at, times)
        left = waiting(spark, here)
        assert left == waiting(spark, by_spark)
        seen |= {(len(left) > 10, landed_at is None)}
        now = waiting_halves(spark, here)
        assert now is not None
        seen |= {("note", detail is None) for detail in now.column("detail").to_pylist()}
        seen |= {("time", time is None) for time in now.column("event_time").to_pylist()}
    assert {("note", True), ("note", False), ("time", True), ("time", False)} < seen
    assert {(True, True), (True, False)} & seen


def test_nothing_is_committed_where_nothing_changes_and_an_empty_table_stays_one(
    spark: SparkSession, lakes: tuple[Lakehouse, Lakehouse]
) -> None:
    lake, _ = lakes
    batch, _, _ = drawn_halves(Random(4), "feed")
    (half,) = [row for row in batch if row["half"]][:1]
    alone = rows_of_batch(staged_table([{**half, "kind": "half"}]), 0)
    assert replace_pending(spark, lake, alone, None, {})
    assert lake.version(spark, PENDING_TABLE) == 1
    assert replace_pending(spark, lake, alone, None, {})  # the batch again
    assert lake.version(spark, PENDING_TABLE) == 1
    refused = rows_of_batch(staged_table([{**half, "kind": "quarantined"}]), 1)
    assert replace_pending(spark, lake, refused, None, {})
    assert lake.version(spark, PENDING_TABLE) == 2
    assert lake.is_empty_by_log(spark, PENDING_TABLE)
    assert lake.read(spark, PENDING_TABLE).isEmpty()
    assert replace_pending(spark, lake, alone, None, {})
    assert len(waiting(spark, lake)) == 1
    forgotten = rows_of_batch(staged_table([{**half, "kind": "excluded"}]), 2)
    assert replace_pending(spark, lake, forgotten, None, {})
    assert lake.is_empty_by_log(spark, PENDING_TABLE)


def test_a_half_that_another_process_adds_meanwhile_stays(
    spark: SparkSession, lakes: tuple[Lakehouse, Lakehouse], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is added behind the look at the halves that wait; Spark's MERGE is left to go on from there."""
    lake, _ = lakes
    batch, _, _ = drawn_halves(Random(4), "feed")
    (half,) = [row for row in batch if row["half"]][:1]
    own, other = (
        rows_of_batch(staged_table([{**half, "kind": "half", "offset": offset}]), 0) for offset in (1, 2)
    )

    def with_another(spark: SparkSession, lake: Lakehouse) -> pa.Table | None:
        found = waiting_halves(spark, lake)
        lake.append(arrow_frame(spark, other, CHANGES), PENDING_TABLE)
        return found

    monkeypatch.setattr(few_pending, "waiting_halves", with_another)
    assert not replace_pending(spark, lake, own, None, {})
    merge_pending(lake, arrow_frame(spark, own, CHANGES), None, {})
    assert len(waiting(spark, lake)) == 2


def test_many_halves_and_a_table_that_needs_more_than_a_file_are_left_to_spark(
    spark: SparkSession, lakes: tuple[Lakehouse, Lakehouse], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, other = lakes
    rows = [row for row in drawn_halves(Random(4), "feed")[0] if row["half"]]
    outcomes = rows_of_batch(staged_table({**row, "kind": "half"} for row in rows), 0)
    assert replace_pending(spark, lake, outcomes, None, {})
    monkeypatch.setattr("silver.batches.few_outcomes.MOST_EARLIER", len(rows) - 1)
    assert not replace_pending(spark, lake, outcomes, None, {})
    location = other.location(PENDING_TABLE)
    spark.sql(f"ALTER TABLE {sql_name(location)} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    assert not replace_pending(spark, other, outcomes, None, {})
    assert other.read(spark, PENDING_TABLE).isEmpty()
