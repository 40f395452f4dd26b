"""Which epoch a message has is a matter of its place, not of today's configuration."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from framework.contracts.epochs import EpochRow, LandedMessage, Landing, PartitionStart, TopicStart
from framework.errors import ConfigurationError
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.local_reader import LocalReader
from framework.lakehouse.spark_reader import SparkReader
from silver.epochs import history as epochs
from silver.epochs.assignment import epoch_finder, with_epochs, with_recorded_epochs
from silver.epochs.history import (
    EpochStart,
    History,
    check_not_lowered,
    failed_row,
    left_out_row,
    resumed_row,
    started_rows,
    stopped_row,
)
from silver.epochs.resets import FOLLOWS, StopPoint
from silver.epochs.unknown_topics import find_unknown_topics

STOP = StopPoint("feed", "orders", 0, 70, "server_changed", "one → two")
SECOND = StopPoint("feed", "orders", 0, 90, "server_changed", "two → three")


def history(*rows: EpochRow) -> History:
    return History(rows)


def beginning(
    epoch: int, before: int | None, *places: tuple[str, int, int], after: History | None = None
) -> list[EpochRow]:
    return started_rows(
        EpochStart("feed", epoch, before, [PartitionStart(*place) for place in places]), after or History()
    )


def test_a_stopped_source_stands_still_until_an_epoch_begins_and_has_to_be_taken_up() -> None:
    stop = stopped_row(STOP, 1, 5000)
    assert history(stop).stopped_sources()["feed"].stops == (STOP,)
    assert history(stop).passed_over(["feed"]) == []
    going = history(stop, *beginning(2, 1, ("orders", 0, 70)))
    assert (going.stopped_sources(), going.passed_over(["feed"]), going.epochs("feed")) == (
        {},
        ["feed"],
        [1, 2],
    )
    done = history(*going.rows, resumed_row("feed", 2, 5001))
    assert (done.stopped_sources(), done.passed_over(["feed"]), done.has_gaps) == ({}, [], True)


def test_a_second_stop_waits_for_the_next_epoch_alone() -> None:
    """A run that died between the second stop and the end of its batch has the first epoch
    recorded already.
    """
    first = history(stopped_row(STOP, 1, 5000), *beginning(2, 1, ("orders", 0, 70)))
    stopped_twice = history(*first.rows, stopped_row(SECOND, 2, 5001))
    stopped = stopped_twice.stopped_sources()["feed"]
    assert (stopped.epoch, stopped.stops) == (2, (SECOND,))
    assert stopped_twice.passed_over(["feed"]) == []
    on = history(*stopped_twice.rows, *beginning(3, 2, ("orders", 0, 90), after=stopped_twice))
    assert (on.stopped_sources(), on.epochs("feed")) == ({}, [1, 2, 3])


def test_the_newest_failure_of_a_batch_tells_why() -> None:
    failures = history(*(failed_row("feed", 5000, text) for text in ("no such column", "no space")))
    assert failures.failure("feed") == "no space"
    assert history(*failures.rows, failed_row("feed", 4999, "older")).failure("feed") == "no space"


def test_stops_that_only_follow_do_not_tell_why() -> None:
    follower = StopPoint("feed", "a", 0, 3, FOLLOWS, "later")
    assert (
        history(stopped_row(follower, 1, 5000), stopped_row(STOP, 1, 5000)).stopped_sources()["feed"].stops[0]
        == STOP
    )


def test_a_source_that_is_not_configured_is_taken_up_when_it_is() -> None:
    log = history(left_out_row("crm", 4000))
    assert (log.left_out(["feed"]), log.passed_over(["feed"])) == (["crm"], [])
    assert (log.left_out(["crm"]), log.passed_over(["crm"])) == ([], ["crm"])
    assert history(*log.rows, resumed_row("crm", 1, 4001)).passed_over(["crm"]) == []


def test_an_epoch_is_not_lowered() -> None:
    log = history(*beginning(3, 1, ("orders", 0, 70)))
    check_not_lowered(log, {"feed": 3, "crm": 1})
    with pytest.raises(ConfigurationError, match="EPOCH_LOWERED"):
        check_not_lowered(log, {"feed": 2})


def test_a_message_has_the_epoch_that_began_last_at_its_place(spark: SparkSession) -> None:
    log = history(*beginning(2, 1, ("orders", 0, 70), ("orders", 1, 5)))
    log = history(
        *log.rows, *beginning(3, 2, ("orders", 0, 90), ("orders", 1, 5), ("lines", 0, 1), after=log)
    )
    places = {
        ("feed", "orders", 0, 69): 1,
        ("feed", "orders", 0, 70): 2,
        ("feed", "orders", 0, 90): 3,
        ("feed", "orders", 1, 4): 1,
        ("feed", "orders", 1, 5): 3,
        ("feed", "lines", 0, 0): 2,
        ("feed", "new", 7, 0): 3,
        ("crm", "orders", 0, 1): 4,
    }
    messages = spark.createDataFrame(
        list(places), "source string, topic string, `partition` int, offset bigint"
    ).coalesce(1)
    found = with_epochs(messages, log, {"feed": 3, "crm": 4}).collect()
    assert {tuple(row)[:4]: row["epoch"] for row in found} == places
    find = epoch_finder(log, {"feed": 3, "crm": 4})
    assert {place: find(LandedMessage(*place)) for place in places} == places
    assert epoch_finder(History(), {"feed": 2})(LandedMessage("feed", "new", 7, 0)) == 2
    assert [row["epoch"] for row in with_epochs(messages, History(), {"feed": 2, "crm": 1}).collect()] == [
        2
    ] * 7 + [1]


def test_a_topic_that_was_created_anew_is_recognized_by_its_landing(spark: SparkSession) -> None:
    """Epoch 2 begins with a landing, epoch 3 at an offset of what landed since,
    epoch 4 with another landing.
    """
    at: Landing = (1_000, "b.jsonl", 7)
    log = history(*started_rows(EpochStart("feed", 2, 1, [PartitionStart("orders", 0, 0, at)]), History()))
    log = history(
        *log.rows, *started_rows(EpochStart("feed", 3, 2, [PartitionStart("orders", 0, 40, at)]), log)
    )
    log = history(
        *log.rows,
        *started_rows(EpochStart("feed", 4, 3, [PartitionStart("orders", 0, 0, (9_000, "", 0))]), log),
    )
    places = {
        ("orders", 50, 999, "z.jsonl", 1): 1,
        ("orders", 50, 1_000, "b.jsonl", 6): 1,
        ("orders", 0, 1_000, "b.jsonl", 7): 2,
        ("orders", 39, 5_000, None, None): 2,
        ("orders", 40, 5_000, None, None): 3,
        ("orders", 3, 9_000, None, None): 4,
        ("new", 0, 5, None, None): 4,
    }
    schema = "topic string, offset bigint, at bigint, file string, line bigint"
    messages = spark.createDataFrame(list(places), schema).selectExpr(
        "'feed' AS source",
        "topic",
        "0 AS `partition`",
        "offset",
        "timestamp_micros(at) AS ingested_at",
        "file",
        "line",
    )
    found = [row["epoch"] for row in with_epochs(messages.coalesce(1), log, {"feed": 4}).collect()]
    assert found == list(places.values())
    find = epoch_finder(log, {"feed": 4})
    landed = [(topic, offset, (at, file or "", line or 0)) for topic, offset, at, file, line in places]
    assert [find(LandedMessage("feed", topic, 0, *more)) for topic, *more in landed] == found
    one_row = messages.select("source", "topic", "partition", "offset").limit(1)
    assert [row["epoch"] for row in with_recorded_epochs(one_row, log, {"feed": 4}).collect()] == [1]


@pytest.mark.parametrize("reached", [8, 2, None])
def test_a_late_dump_of_a_former_topic_is_recognized_by_the_times_of_the_broker(
    spark: SparkSession, reached: int | None
) -> None:
    """The former topic was read up to time 500, and to an offset that releases before did not record.

    Of the new topic, the messages from offset 3, time 900, had landed when its epoch began.
    """
    at: Landing = (1_000, "b.jsonl", 1)
    start = PartitionStart("orders", 0, 0, at, TopicStart(3, 900, 500, reached))
    log = history(*started_rows(EpochStart("feed", 2, 1, [start]), History()))
    places = {
        (0, 500, 2_000): 1,
        (9, 880, 2_000): 1,
        (9, None, 2_000): 2,
        (8, 880, 2_000): 2 if reached == 8 else 1,
        (8, 500, 2_000): 1,
        (2, 880, 2_000): 2,
        (3, 900, 1_000): 2,
        (4, 901, 2_000): 2,
        (4, 901, 999): 1,
    }
    messages = spark.createDataFrame(list(places), "offset bigint, sent bigint, at bigint").selectExpr(
        "'feed' AS source",
        "'orders' AS topic",
        "0 AS `partition`",
        "offset",
        "timestamp_micros(sent) AS timestamp",
        "timestamp_micros(at) AS ingested_at",
        "'b.jsonl' AS file",
        "bigint(1) AS line",
    )
    found = [row["epoch"] for row in with_epochs(messages.coalesce(1), log, {"feed": 2}).collect()]
    assert found == list(places.values())
    find = epoch_finder(log, {"feed": 2})
    landed = [(offset, (at, "b.jsonl", 1), sent) for offset, sent, at in places]
    assert [find(LandedMessage("feed", "orders", 0, *more)) for more in landed] == found


def test_a_message_that_nothing_tells_from_the_former_topic_stops_its_source(spark: SparkSession) -> None:
    """The former topic was read up to offset 5, time 500. Of the new topic, the messages from offset 9,
    time 900, had landed when its epoch began.
    """
    at: Landing = (1_000, "b.jsonl", 1)
    start = PartitionStart("orders", 0, 0, at, TopicStart(9, 900, 500))
    log = history(*started_rows(EpochStart("feed", 2, 1, [start]), History()))

    def messages(*rows: tuple[int, int, int]) -> DataFrame:
        return spark.createDataFrame(rows, "offset bigint, sent bigint, at bigint").selectExpr(
            "'feed' AS source",
            "'orders' AS topic",
            "0 AS `partition`",
            "offset",
            "timestamp_micros(sent) AS timestamp",
            "timestamp_micros(at) AS ingested_at",
            "'b.jsonl' AS file",
            "bigint(1) AS line",
            "CAST(NULL AS string) AS relanding",
        )

    def stops(offset: int, sent: int) -> list[tuple[int, str]]:
        landed = messages((5, 500, 900), (9, 900, 1_000), (offset, sent, 2_000))
        new = with_epochs(landed.where("ingested_at = timestamp_micros(2000)"), log, {"feed": 2})
        return [(stop.offset, stop.reason) for stop in find_unknown_topics(new, landed, log, {"feed": 2})]

    assert stops(6, 880) == [(6, "unknown_topic")]
    assert stops(5, 880) == []  # the former topic was behind it at time 500
    assert stops(6, 500) == []  # of the former topic
    assert stops(9, 880) == []  # of the former topic
    assert stops(10, 910) == []  # of the new topic


def test_a_stop_at_messages_of_an_unknown_topic_has_advice_of_its_own() -> None:
    log = history(stopped_row(StopPoint("feed", "orders", 0, 6, "unknown_topic", "is in between"), 2, 3_000))
    error = log.stopped_sources()["feed"].error()
    assert (error.condition, "leave `epoch: 2`" in error.action) == ("SOURCE_RESET", True)


@pytest.mark.parametrize("reason", ["older_topic", "unknown_topic"])
def test_the_advice_to_build_the_tables_again_says_what_only_the_lakehouse_has(reason: str) -> None:
    def action(file: str) -> str:
        stop = StopPoint("feed", "orders", 0, 6, reason, "it is older", landed=(1_000, file, 0))
        return history(stopped_row(stop, 1, 3_000)).stopped_sources()["feed"].error().action

    for advice in (action("b.jsonl"), action("")):
        assert "`seed`, `forget` and `dismiss` have to be repeated" in advice
        assert "do not delete" in advice
        assert "nothing is lost" not in advice
    assert "landing folder" in action("b.jsonl")
    assert "landing folder" not in action("")  # of a topic or a table of messages
    assert "new snapshot" in action("")


def test_the_sources_whose_offsets_have_started_again() -> None:
    at: Landing = (1_000, "b.jsonl", 7)
    log = history(*started_rows(EpochStart("feed", 2, 1, [PartitionStart("orders", 0, 0, at)]), History()))
    log = history(*log.rows, *started_rows(EpochStart("crm", 2, 1, [PartitionStart("people", 0, 40)]), log))
    assert log.sources_by_landing() == ["feed"]


def test_the_rows_of_a_local_lakehouse_are_those_that_spark_reads(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lakehouse(str(tmp_path))
    assert epochs.read_history(spark, lake) == History()
    place = PartitionStart("orders", 0, 0, (1_700_000_000_000_001, "b.jsonl", 7), TopicStart(3, 900, None, 8))
    for rows in ([stopped_row(STOP, 1, 5000)], started_rows(EpochStart("feed", 2, 1, [place]), History())):
        epochs.append_rows(spark, lake, rows)
    found = epochs.read_history(spark, lake)
    assert set(found.rows) == set(epochs.history_of(LocalReader(lake)).rows)
    assert set(found.rows) == set(epochs.history_of(SparkReader(spark, lake)).rows)
    assert len(found.rows) == 3


def test_a_source_that_stops_in_many_partitions_is_looked_at_once() -> None:
    """Each file is a partition: each stop was compared with all of them, at each look."""
    stops = [StopPoint("feed", f"{number}.jsonl", 0, 70, FOLLOWS, "later") for number in range(6_000)]
    rows = [stopped_row(stop, 1, 5000) for stop in stops]
    begun = time.process_time()
    found = history(*rows, *(stopped_row(stop, 2, 6000) for stop in stops)).stopped_sources()["feed"]
    assert time.process_time() - begun < 2
    assert (found.epoch, set(found.stops)) == (2, set(stops))
