"""Which halves wait, from when, and what ends their waiting."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from framework.contracts.table_schemas import CHANGES
from silver.batches.pending import pending_rows
from silver.changes.staged_rows import OF_FIRST_LANDING, SETTLED_HALF

LANDED = datetime(2024, 2, 29, 10, tzinfo=UTC)
FUTURE = LANDED + timedelta(days=9_000)


def change(**values: Any) -> tuple[Any, ...]:
    row = {"source": "feed", **values}
    return tuple(row.get(name) for name in CHANGES.names)


def test_a_half_waits_from_its_own_time_or_keeps_that_beside_the_time_it_waits_from(
    spark: SparkSession,
) -> None:
    halves = [
        change(change_id="usual", kind="half", half="before", event_time=LANDED),
        change(change_id="none", kind="half", half="before", event_time=None),
        change(change_id="future", kind="half", half="before", event_time=FUTURE),
        change(change_id="merged", kind="half", half=None, event_time=LANDED),
    ]
    newest = LANDED - timedelta(hours=1)
    changes = spark.createDataFrame(halves, CHANGES).withColumn("clock", F.lit(LANDED))
    for landed_at in (LANDED, F.col("clock")):
        rows = pending_rows(changes, landed_at, {"feed": newest}).collect()
        found = {row["change_id"]: (row["event_time"].astimezone(UTC), row["detail"]) for row in rows}
        assert found == {
            "usual": (LANDED, None),
            "none": (newest, '{"event_time":null}'),
            "future": (newest, f'{{"event_time":{int(FUTURE.timestamp()) * 1_000_000}}}'),
        }


OUTCOMES = [
    ("row", None, None),
    ("quarantined", "not_json", None),
    ("excluded", "mainstem.forgotten", None),
    ("half", None, None),
    ("duplicate", None, None),
    ("duplicate", "update_complete", None),
    ("duplicate", None, "its update was complete already"),  # as earlier releases wrote it
    ("duplicate", "landed_again", "landed again a.jsonl:7 1"),
    ("duplicate", None, "landed again a.jsonl:8 1"),  # as earlier releases wrote it
]


def test_what_settles_a_half_and_what_landed_before_is_a_reason(spark: SparkSession) -> None:
    rows = spark.createDataFrame(OUTCOMES, "kind string, reason string, detail string")
    settled = [tuple(row) for row in rows.where(SETTLED_HALF).collect()]
    assert settled == [OUTCOMES[0], OUTCOMES[1], OUTCOMES[2], OUTCOMES[5], OUTCOMES[6]]
    first = [tuple(row) for row in rows.where(OF_FIRST_LANDING).collect()]
    assert first == OUTCOMES[:7]
