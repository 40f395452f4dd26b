"""Positions that begin anew are told from late changes and repeats."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from pyspark.sql import SparkSession

from silver.resets import EXTENTS, FOLLOWS, found, spread, suspects, without_held
from silver.rows import STAGED, STAGED_DDL, Row

NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)
WAITS = {"feed": timedelta(minutes=10)}
AFTER_100 = ("feed", "shop", None, "item", "011.03100", NOON, "one")


def change(offset: int, sequence: str, minutes: int, *, server: str | None = None, **more: Any) -> tuple[Any, ...]:
    row: Row = dict.fromkeys(STAGED.names)
    row.update(source="feed", kind="row", op="update", database="shop", table="item", topic="t", partition=0, ordinal=0)
    row.update(offset=offset, sequence=sequence, event_time=NOON + timedelta(minutes=minutes), server=server, **more)
    return tuple(row[name] for name in STAGED.names)


def stops(spark: SparkSession, changes: list[tuple[Any, ...]], *extents: tuple[Any, ...]) -> list[tuple[str, int, str]]:
    rows = spark.createDataFrame(changes, STAGED_DDL)
    told = found(rows, spark.createDataFrame(extents, EXTENTS), WAITS)
    assert without_held(rows, told).count() == sum(
        c[STAGED.names.index("offset")] < min([s.offset for s in told], default=999) for c in changes
    )
    return [(stop.topic, stop.offset, stop.reason) for stop in told]


def test_lower_positions_that_happened_later_are_a_reset(spark: SparkSession) -> None:
    assert stops(spark, [change(1, "011.0217", 60), change(2, "011.0218", 61)], AFTER_100) == [("t", 1, "position_restarted")]
    assert stops(spark, [change(1, "011.03101", 1), change(2, "011.0218", 61)]) == [("t", 2, "position_restarted")]


def test_late_changes_snapshot_rows_and_other_tables_are_none(spark: SparkSession) -> None:
    late = change(1, "011.0217", 9)
    copied = change(2, "011.010.010.012.010", 90)
    read = change(3, "011.0219", 90, op="read")
    other = change(4, "011.0220", 90, table="other")
    assert stops(spark, [late, copied, read, other], AFTER_100) == []


def test_another_server_is_a_reset_unless_its_epoch_is_new(spark: SparkSession) -> None:
    assert stops(spark, [change(1, "011.03101", 1, server="one"), change(2, "011.03102", 1)], AFTER_100) == []
    assert stops(spark, [change(1, "011.03101", 1, server="two")], AFTER_100) == [("t", 1, "server_changed")]
    assert stops(spark, [change(1, "011.03101", 1, server="one"), change(2, "011.03102", 1, server="two")]) == [("t", 2, "server_changed")]
    assert stops(spark, [change(1, "012.011", 90, server="two")], AFTER_100) == []


def test_epochs_that_are_decoded_again_together_are_no_reset(spark: SparkSession) -> None:
    again = [change(1, "011.03101", 1, server="one"), change(2, "012.011", 90, server="two"), change(3, "011.011", 300, topic="u")]
    assert stops(spark, again, ("feed", "shop", None, "item", "012.019", NOON + timedelta(hours=5), "two")) == []


def test_a_reset_stops_the_other_partitions_where_they_are_later(spark: SparkSession) -> None:
    reset = change(1, "011.0217", 60)
    shard = [change(5, "011.03102", 2, topic="u"), change(6, "011.0218", 60, topic="u", table="rare"), change(7, "011.0219", 61, topic="u")]
    old = change(3, "011.03103", 2, topic="v")
    rows = spark.createDataFrame([reset, *shard, old], STAGED_DDL)
    told = spread(rows, found(rows, spark.createDataFrame([AFTER_100], EXTENTS), WAITS))
    assert [(stop.topic, stop.offset, stop.reason) for stop in told] == [("t", 1, "position_restarted"), ("u", 6, FOLLOWS)]


def test_what_is_not_suspected_has_no_reset(spark: SparkSession) -> None:
    """The quick look over all may suspect in vain, but passes over nothing that the long one finds."""
    draw, rows, extents, waits = Random(7), [], [], {}
    for number in range(120):
        source, top = f"feed{number}", 100
        waits[source] = timedelta(seconds=draw.choice((0, 1, 600, 601)))
        for offset in range(draw.randint(1, 5)):
            minutes = draw.choice((0, 1, 9, 10, 11, 20, 60))
            row = change(offset, f"011.03{draw.randint(top - 3, top + 3)}", minutes)
            row = tuple(source if name == "source" else value for name, value in zip(STAGED.names, row, strict=True))
            if draw.random() < 0.2:
                row = tuple(None if name == "event_time" else value for name, value in zip(STAGED.names, row, strict=True))
            rows.append(row)
        if draw.random() < 0.5:
            newest = draw.choice((None, NOON, NOON + timedelta(minutes=draw.choice((1, 5, 30)))))
            extents.append((source, "shop", None, "item", f"011.03{draw.randint(top - 3, top + 3)}", newest, None))
    batch, shown = spark.createDataFrame(rows, STAGED_DDL), spark.createDataFrame(extents, EXTENTS)
    resets, suspected = {stop.source for stop in found(batch, shown, waits)}, suspects(batch, shown, waits)
    assert resets
    assert resets <= suspected
    assert len(suspected) < 100
