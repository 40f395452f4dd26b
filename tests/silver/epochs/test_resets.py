"""Positions that begin anew are distinguished from late changes and repeats."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from silver.batches.few_suspects import suspects_among
from silver.changes.staged_rows import STAGED, STAGED_DDL, Row
from silver.epochs.event_clock import AHEAD, with_believable_times
from silver.epochs.resets import (
    EXTENTS,
    FOLLOWS,
    drop_behind_stops,
    find_stop_points,
    spread_stop_points,
    suspect_sources,
)

NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)
WAITS = {"feed": timedelta(minutes=10)}
AFTER_100 = ("feed", "shop", None, "item", "011.03100", NOON, "one", ["one"])


def change(
    offset: int, sequence: str, minutes: int, *, server: str | None = None, **more: Any
) -> tuple[Any, ...]:
    row: Row = dict.fromkeys(STAGED.names)
    row.update(
        source="feed",
        kind="row",
        op="update",
        database="shop",
        table="item",
        topic="t",
        partition=0,
        ordinal=0,
    )
    row.update(
        offset=offset, sequence=sequence, event_time=NOON + timedelta(minutes=minutes), server=server, **more
    )
    return tuple(row[name] for name in STAGED.names)


def stops(
    spark: SparkSession, changes: list[tuple[Any, ...]], *extents: tuple[Any, ...]
) -> list[tuple[str, int, str]]:
    rows = spark.createDataFrame(changes, STAGED_DDL)
    found = find_stop_points(rows, spark.createDataFrame(extents, EXTENTS), WAITS)
    assert drop_behind_stops(rows, found).count() == sum(
        c[STAGED.names.index("offset")] < min([s.offset for s in found], default=999) for c in changes
    )
    return [(stop.topic, stop.offset, stop.reason) for stop in found]


def test_lower_positions_that_happened_later_are_a_reset(spark: SparkSession) -> None:
    assert stops(spark, [change(1, "011.0217", 60), change(2, "011.0218", 61)], AFTER_100) == [
        ("t", 1, "position_restarted")
    ]
    assert stops(spark, [change(1, "011.03101", 1), change(2, "011.0218", 61)]) == [
        ("t", 2, "position_restarted")
    ]


@pytest.mark.slow
def test_a_table_that_is_excluded_shows_a_reset_too(spark: SparkSession) -> None:
    """It may be the only one of its source, and be included later: then its two lives must not be one."""
    excluded = [change(1, "011.0217", 60, kind="excluded"), change(2, "011.0218", 61, kind="excluded")]
    assert stops(spark, excluded, AFTER_100) == [("t", 1, "position_restarted")]
    rows = spark.createDataFrame(excluded, STAGED_DDL)
    assert suspect_sources(rows, spark.createDataFrame([AFTER_100], EXTENTS), WAITS) == {"feed"}
    shard = change(5, "011.0219", 62, kind="excluded", topic="u")
    rows = spark.createDataFrame([*excluded, shard], STAGED_DDL)
    extents = spark.createDataFrame([AFTER_100], EXTENTS)
    spread = spread_stop_points(rows, find_stop_points(rows, extents, WAITS))
    assert [(stop.topic, stop.offset) for stop in spread] == [("t", 1), ("u", 5)]
    late = change(1, "011.0217", 9, kind="excluded")
    assert stops(spark, [late], AFTER_100) == []


def test_late_changes_snapshot_rows_and_other_tables_are_none(spark: SparkSession) -> None:
    late = change(1, "011.0217", 9)
    copied = change(2, "011.010.010.012.010", 90)
    read = change(3, "011.0219", 90, op="read")
    other = change(4, "011.0220", 90, table="other")
    assert stops(spark, [late, copied, read, other], AFTER_100) == []


@pytest.mark.slow
def test_a_new_server_that_stays_is_a_reset_whatever_its_position(spark: SparkSession) -> None:
    """The example of the table has reached position 100 at noon, written by server one."""
    assert stops(spark, [change(1, "011.03101", 1, server="two")], AFTER_100) == [("t", 1, "server_changed")]
    assert stops(
        spark, [change(1, "011.03101", 1, server="one"), change(2, "011.03102", 1, server="two")]
    ) == [("t", 2, "server_changed")]
    again = [change(n, f"011.03{100 + n}", n, server=("one", "two")[n % 2]) for n in range(1, 9)]
    again.append(change(9, "011.03109", 9, server="three"))
    assert stops(spark, again, AFTER_100) == [("t", 9, "server_changed")]


@pytest.mark.slow
def test_another_server_is_a_reset_where_positions_do_not_go_on(spark: SparkSession) -> None:
    """The same table; in the second example both servers have written before."""
    assert stops(spark, [change(1, "011.0250", 1, server="two")], AFTER_100) == [("t", 1, "server_changed")]
    assert stops(spark, [change(1, "011.0250", 0, server="two")], AFTER_100) == [("t", 1, "server_changed")]
    both = (*AFTER_100[:-1], ["one", "two"])
    assert stops(spark, [change(1, "011.03101", 1, server="two")], both) == []
    fallen = [change(1, "011.03101", 1, server="one"), change(2, "011.0250", 1, server="two")]
    assert stops(spark, fallen) == [("t", 2, "server_changed")]
    assert stops(spark, [change(1, "012.011", 90, server="two")], AFTER_100) == []


@pytest.mark.slow
def test_servers_that_write_one_log_in_turn_are_none(spark: SparkSession) -> None:
    """Two primaries, with turns inside a batch and turns of several batches; each batch is a source here."""
    inside = [change(n, f"011.03{100 + n}", n, server=("one", "two")[n % 2]) for n in range(1, 40)]
    assert stops(spark, inside) == []
    assert stops(spark, inside, AFTER_100) == []
    rows, extents, servers = [], [], ["one", "two", "three"]
    for turn in range(60):
        top, at, before = 1_000 + turn * 10, NOON + timedelta(minutes=turn), servers[turn % 3 - 1]
        extents.append((f"feed{turn}", "shop", None, "item", f"011.04{top}", at, before, servers))
        for n in range(1, 9):
            row = change(n, f"011.04{top + n}", turn, server=servers[turn % 3])
            rows.append((row[0], f"feed{turn}", *row[2:]))
    waits = {f"feed{turn}": timedelta(minutes=10) for turn in range(60)}
    frames = spark.createDataFrame(rows, STAGED_DDL), spark.createDataFrame(extents, EXTENTS)
    assert find_stop_points(*frames, waits) == []


@pytest.mark.slow
def test_a_reset_amid_turns_stops_where_positions_fall(spark: SparkSession) -> None:
    turns = [change(n, f"011.03{100 + n}", n, server=("one", "two")[n % 2]) for n in range(1, 10)]
    again = [change(n, f"011.02{n}", n, server=("one", "two")[n % 2]) for n in range(10, 20)]
    assert stops(spark, [*turns, *again]) == [("t", 10, "server_changed")]
    after = ("feed", "shop", None, "item", "011.03109", NOON + timedelta(minutes=9), "two", ["one", "two"])
    assert stops(spark, again, after) == [("t", 10, "server_changed")]
    rows = spark.createDataFrame(
        [*turns, *again, change(1, "011.03104", 4, server="two", topic="u")], STAGED_DDL
    )
    shown = spark.createDataFrame([after], EXTENTS)
    found = spread_stop_points(rows, find_stop_points(rows, shown, WAITS), shown)
    assert [(stop.topic, stop.offset) for stop in found] == [("t", 10)]


@pytest.mark.slow
def test_turns_in_a_partition_that_lags_behind_are_none(spark: SparkSession) -> None:
    """Another partition of the table, or another table, has come further; its changes are not older."""
    both = ("feed", "shop", None, "item", "011.03100", NOON, "one", ["one", "two"])
    late = [change(1, "011.0250", -5, server="two"), change(2, "011.0251", -4, server="one")]
    assert stops(spark, late, both) == []
    assert stops(spark, [change(1, "011.0250", 0, server="two")], both) == []
    other = ("feed", "shop", None, "order", "011.0240", NOON - timedelta(hours=1), "one", ["one"])
    lagging = [change(1, "011.0250", -5, server="two", table="order")]
    assert stops(spark, lagging, both, other) == []
    assert stops(spark, [change(1, "011.0250", 5, server="two", table="order")], both, other) == [
        ("t", 1, "server_changed")
    ]


def test_rows_of_a_long_transaction_are_none(spark: SparkSession) -> None:
    """Their positions are old and their time is that of the commit,
    but the log was committed up to a later position.
    """
    long = [change(n, f"011.02{20 + n}", 15, committed="011.03101") for n in (1, 2)]
    assert stops(spark, long, AFTER_100) == []
    assert stops(spark, [change(1, "011.0221", 15, committed="011.0218")], AFTER_100) == [
        ("t", 1, "position_restarted")
    ]


@pytest.mark.slow
def test_long_transactions_of_a_feed_without_commit_positions_are_none(spark: SparkSession) -> None:
    """Only one transaction is below; the next one is above all before it, in its topic or in another one."""

    def row(offset: int, position: int, minutes: int, transaction: int, **more: Any) -> tuple[Any, ...]:
        sequence = f"011.03{position}" if position > 99 else f"011.02{position}"
        return change(offset, sequence, minutes, transaction_id=str(transaction), **more)

    long = [row(1, 50, 15, 5), row(2, 51, 15, 5)]
    assert stops(spark, [*long, row(3, 101, 16, 8)], AFTER_100) == []
    assert stops(spark, [row(0, 100, 0, 7), *long, row(3, 101, 16, 8)]) == []
    assert stops(spark, [*long, row(9, 101, 15, 8, topic="u", table="order")], AFTER_100) == []
    reset = [("t", 1, "position_restarted")]
    assert stops(spark, long, AFTER_100) == [("t", 1, "position_below")]
    assert stops(spark, [*long, row(3, 52, 16, 6), row(4, 101, 17, 8)], AFTER_100) == reset
    assert stops(spark, [row(0, 101, 14, 8, topic="u", table="order"), *long], AFTER_100) == [
        ("t", 1, "position_below")
    ]
    one = [row(1, 50, 15, 5, server="one"), row(2, 101, 16, 6, server="one")]
    assert stops(spark, one, AFTER_100) == reset


def test_epochs_that_are_decoded_again_together_are_no_reset(spark: SparkSession) -> None:
    rows = [
        change(1, "011.03101", 1, server="one"),
        change(2, "012.011", 90, server="two"),
        change(3, "011.011", 300, topic="u"),
    ]
    assert (
        stops(
            spark, rows, ("feed", "shop", None, "item", "012.019", NOON + timedelta(hours=5), "two", ["two"])
        )
        == []
    )


def test_a_reset_stops_the_other_partitions_where_they_are_later(spark: SparkSession) -> None:
    reset = change(1, "011.0217", 60)
    shard = [
        change(5, "011.03102", 2, topic="u"),
        change(6, "011.0218", 60, topic="u", table="rare"),
        change(7, "011.0219", 61, topic="u"),
    ]
    old = change(3, "011.03103", 2, topic="v")
    rows = spark.createDataFrame([reset, *shard, old], STAGED_DDL)
    spread = spread_stop_points(
        rows, find_stop_points(rows, spark.createDataFrame([AFTER_100], EXTENTS), WAITS)
    )
    assert [(stop.topic, stop.offset, stop.reason) for stop in spread] == [
        ("t", 1, "position_restarted"),
        ("u", 6, FOLLOWS),
    ]


def test_what_comes_before_the_first_new_change_in_the_log_is_of_its_epoch(spark: SparkSession) -> None:
    """Statements and rows of a snapshot; none that is as old as changes above it, or of another server."""
    reset = [change(1, "011.03101", 1, server="one"), change(2, "011.0250", 60, server="one")]

    def statement(offset: int, position: int, minutes: int, **more: Any) -> tuple[Any, ...]:
        return change(offset, f"011.02{position}", minutes, kind="ddl", op="ALTER", topic="ddl", **more)

    others = [
        statement(1, 30, -90),
        statement(2, 31, 1),
        statement(3, 32, 55, server="other"),
        statement(4, 51, 55),
        statement(5, 33, 55),
        change(1, "011.0234", 56, op="read", topic="copy"),
        change(1, "011.0235", 56, kind="excluded", op="ALTER", topic="excluded"),
        change(1, "011.0236", 5, op="update", topic="late"),
    ]
    rows = spark.createDataFrame([*reset, *others], STAGED_DDL)
    shown = spark.createDataFrame([AFTER_100], EXTENTS)
    for extents in (shown, None):
        spread = spread_stop_points(rows, find_stop_points(rows, shown, WAITS), extents)
        assert [(stop.topic, stop.offset) for stop in spread] == [
            ("t", 2),
            ("copy", 1),
            ("ddl", 5),
            ("excluded", 1),
        ]


def test_rows_of_the_former_log_are_not_of_a_log_that_goes_on_at_higher_positions(
    spark: SparkSession,
) -> None:
    """Server two took over; the row of an incremental snapshot before it names no server."""
    failover = [
        change(1, "011.03101", 1, op="read"),
        change(2, "011.03102", 2, server="one"),
        change(3, "011.03500", 60, server="two"),
    ]
    rows, extents = spark.createDataFrame(failover, STAGED_DDL), spark.createDataFrame([AFTER_100], EXTENTS)
    found = spread_stop_points(rows, find_stop_points(rows, extents, WAITS), extents)
    assert [(stop.offset, stop.reason) for stop in found] == [(3, "server_changed")]


def test_what_is_not_suspected_has_no_reset(spark: SparkSession) -> None:
    """The quick look over all may suspect in vain, but passes over nothing that the long one finds."""
    draw, rows, extents, waits = Random(7), [], [], {}
    for number in range(120):
        source, top = f"feed{number}", 100
        waits[source] = timedelta(seconds=draw.choice((0, 1, 600, 601)))
        server = draw.choice((None, "one"))
        for offset in range(draw.randint(1, 5)):
            minutes = draw.choice((0, 1, 9, 10, 11, 20, 60))
            committed = draw.choice((None, None, f"011.03{draw.randint(top - 3, top + 3)}"))
            row = change(offset, f"011.03{draw.randint(top - 3, top + 3)}", minutes, committed=committed)
            drawn = {"source": source, "server": draw.choice((server, server, None))}
            if draw.random() < 0.2:
                drawn["event_time"] = None
            rows.append(tuple(drawn.get(name, value) for name, value in zip(STAGED.names, row, strict=True)))
        if draw.random() < 0.5:
            newest = draw.choice((None, NOON, NOON + timedelta(minutes=draw.choice((1, 5, 30)))))
            reached = f"011.03{draw.randint(top - 3, top + 3)}"
            extents.append(
                (source, "shop", None, "item", reached, newest, server, [server] if server else [])
            )
    batch, shown = spark.createDataFrame(rows, STAGED_DDL), spark.createDataFrame(extents, EXTENTS)
    resets, suspected = (
        {stop.source for stop in find_stop_points(batch, shown, waits)},
        suspect_sources(batch, shown, waits),
    )
    assert resets
    assert resets <= suspected
    assert len(suspected) < 100
    few = batch.toArrow().select(STAGED.names).cast(STAGED)
    for landed_at in (None, NOON + timedelta(minutes=5) - AHEAD):
        of_spark = suspect_sources(with_believable_times(batch, landed_at), shown, waits)
        assert suspects_among(few, landed_at, extents, waits) == of_spark
        assert (of_spark == suspected) is (landed_at is None)
