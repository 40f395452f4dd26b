"""Until when the stream compares messages with the outcomes that there are."""

from __future__ import annotations

import math
from datetime import datetime

import pytest
from pyspark.sql import SparkSession

from framework.contracts.epochs import EpochRow
from silver.epochs.history import History
from silver.stream.checkpoint import Checkpoint
from silver.stream.gaps import decoded_outside, may_have_outcomes

DAY = 86_400_000_000
STOPPED = (EpochRow("feed", 1, "stopped"), EpochRow("feed", 2, "begun"))


def checkpoint(began: int | None, *, is_reset: bool) -> Checkpoint:
    return Checkpoint("/lake/_mainstem/silver", 0, is_reset, began=began)


@pytest.mark.parametrize(
    ("begun", "history", "expected"),
    [
        (checkpoint(5, is_reset=False), History(), None),
        (checkpoint(5, is_reset=True), History(), 5 + DAY),
        (checkpoint(None, is_reset=True), History(), math.inf),
        (checkpoint(None, is_reset=False), History(STOPPED[1:], 7), None),
        (checkpoint(None, is_reset=False), History(STOPPED, 7), 7 + DAY),
        (checkpoint(5, is_reset=True), History(STOPPED, 7), 7 + DAY),
        (checkpoint(9, is_reset=True), History(STOPPED, 7), 9 + DAY),
        (checkpoint(9, is_reset=True), History(STOPPED), math.inf),
    ],
)
def test_the_last_event_counts_and_one_without_a_time_for_ever(
    begun: Checkpoint, history: History, expected: float | None
) -> None:
    assert decoded_outside(begun, history) == expected


def test_messages_may_have_outcomes_if_they_landed_before_or_do_not_tell_when(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(datetime(1970, 1, 2),), (datetime(1970, 1, 3),)], "ingested_at timestamp")
    assert may_have_outcomes(rows, DAY, now=9 * DAY)
    assert not may_have_outcomes(rows, DAY - 1, now=9 * DAY)
    assert not may_have_outcomes(rows, None, now=0)
    assert may_have_outcomes(rows, DAY - 1, now=DAY)  # the clock was set back
    without = spark.createDataFrame([(None,)], "ingested_at timestamp")
    assert may_have_outcomes(rows.unionByName(without), 0, now=9 * DAY)
