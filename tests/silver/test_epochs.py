"""Which epoch a message has is a matter of its place, not of today's configuration."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from framework.errors import ConfigurationError
from silver.epochs import Beginning, EpochRow, History, begun, check_not_lowered, left_out, placed, resumed, stopped
from silver.resets import FOLLOWS, Stop

STOP = Stop("feed", "orders", 0, 70, "server_changed", "one → two")
SECOND = Stop("feed", "orders", 0, 90, "server_changed", "two → three")


def history(*rows: EpochRow) -> History:
    return History(rows)


def beginning(epoch: int, before: int | None, *places: tuple[str, int, int], after: History | None = None) -> list[EpochRow]:
    return begun(Beginning("feed", epoch, before, places), after or History())


def test_a_stopped_source_stands_still_until_an_epoch_begins_and_has_to_be_taken_up() -> None:
    stop = stopped(STOP, 1, 5000)
    assert history(stop).halts()["feed"].stops == (STOP,)
    assert history(stop).passed_over(["feed"]) == []
    going = history(stop, *beginning(2, 1, ("orders", 0, 70)))
    assert (going.halts(), going.passed_over(["feed"]), going.epochs("feed")) == ({}, ["feed"], [1, 2])
    done = history(*going.rows, resumed("feed", 2, 5001))
    assert (done.halts(), done.passed_over(["feed"]), done.has_gaps) == ({}, [], True)


def test_a_second_stop_waits_for_the_next_epoch_alone() -> None:
    """A run that died between the second stop and the end of its batch has the first epoch recorded already."""
    first = history(stopped(STOP, 1, 5000), *beginning(2, 1, ("orders", 0, 70)))
    again = history(*first.rows, stopped(SECOND, 2, 5001))
    halt = again.halts()["feed"]
    assert (halt.epoch, halt.stops) == (2, (SECOND,))
    assert again.passed_over(["feed"]) == []
    on = history(*again.rows, *beginning(3, 2, ("orders", 0, 90), after=again))
    assert (on.halts(), on.epochs("feed")) == ({}, [1, 2, 3])


def test_stops_that_only_follow_do_not_tell_why() -> None:
    follower = Stop("feed", "a", 0, 3, FOLLOWS, "later")
    assert history(stopped(follower, 1, 5000), stopped(STOP, 1, 5000)).halts()["feed"].stops[0] == STOP


def test_a_source_that_is_not_configured_is_taken_up_when_it_is() -> None:
    log = history(left_out("crm", 4000))
    assert (log.left_out(["feed"]), log.passed_over(["feed"])) == (["crm"], [])
    assert (log.left_out(["crm"]), log.passed_over(["crm"])) == ([], ["crm"])
    assert history(*log.rows, resumed("crm", 1, 4001)).passed_over(["crm"]) == []


def test_an_epoch_is_not_lowered() -> None:
    log = history(*beginning(3, 1, ("orders", 0, 70)))
    check_not_lowered(log, {"feed": 3, "crm": 1})
    with pytest.raises(ConfigurationError, match="EPOCH_LOWERED"):
        check_not_lowered(log, {"feed": 2})


def test_a_message_has_the_epoch_that_began_last_at_its_place(spark: SparkSession) -> None:
    log = history(*beginning(2, 1, ("orders", 0, 70), ("orders", 1, 5)))
    log = history(*log.rows, *beginning(3, 2, ("orders", 0, 90), ("orders", 1, 5), ("lines", 0, 1), after=log))
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
    messages = spark.createDataFrame(list(places), "source string, topic string, `partition` int, offset bigint").coalesce(1)
    found = placed(messages, log, {"feed": 3, "crm": 4}).collect()
    assert {tuple(row)[:4]: row["epoch"] for row in found} == places
    assert [row["epoch"] for row in placed(messages, History(), {"feed": 2, "crm": 1}).collect()] == [2] * 7 + [1]
