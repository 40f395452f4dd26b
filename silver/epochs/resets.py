"""Positions that start again: a new server, a new log, a restored backup.

They differ from late and repeated changes.

A change shows a reset if another server wrote it than the changes before it, or if its position is below its
table's highest although it happened later than everything before, by more than the source lets halves wait.
Late changes are older than what was before them, and duplicates are removed by their ids before this check.

Two servers can write one log in turn (two primaries): a server that has written in the epoch before, or whose
predecessor comes back after it, is no reset while positions rise. A row of a long transaction has an old
position and a late time: if the feed tells up to where the log was committed, that position (`committed`)
must not fall.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from framework.spark.columns import by_source
from silver.decoding.format import Format
from silver.values.sequence import epoch_part_sql, is_snapshot_sql

_SHORTEST = timedelta(seconds=1)
_TABLE = ("source", "database", "schema", "table")
_PARTITION = ("source", "topic", "partition")
_NO_TIME = -(2**62)
"""The slot of changes without a time: it is before all others."""
EXTENTS = (
    "source string, database string, schema string, `table` string, top string, newest timestamp, "
    "server string, servers array<string>"
)


FOLLOWS = "follows"
"""The reason of a stop in a partition without its own sign: its messages are later than a sign elsewhere."""


Landing = tuple[int, str, int]
"""When a message landed (microseconds), and its file and line; empty and 0 if it did not come from a file."""


@dataclass(frozen=True, slots=True)
class StopPoint:
    """The first message of a partition that belongs to another epoch than the messages before it.

    `restart` counts how often the partition's offsets had started again in the batch before it. `landed` is
    the landing of the message, where offsets may have started again.
    """

    source: str
    topic: str
    partition: int
    offset: int
    reason: str
    detail: str
    restart: int = 0
    landed: Landing | None = None

    @property
    def at(self) -> tuple[int, int]:
        """Where the stop is among the messages of its partition."""
        return self.restart, self.offset


def suspect_sources(rows: DataFrame, extents: DataFrame, waits: Mapping[str, timedelta]) -> set[str]:
    """The sources of a batch whose positions may start again.

    For the others `find_stop_points` finds nothing.

    Servers are not considered. A reset needs a change that happened more than the wait after another one and
    is below it. So changes are counted into slots of time shorter than the wait: two such changes are never
    in one slot, and a slot needs no order inside it.
    """
    short = {source for source, wait in waits.items() if wait < _SHORTEST}
    rest = {source: wait for source, wait in waits.items() if source not in short}
    if not rest:
        return short
    slot = F.floor(F.col("event_time").cast("double") / (_wait(rest) * 0.9))
    now = _changes_with_position(rows, rest).select(
        *_TABLE, "sequence", "committed", slot.alias("slot"), _epoch("sequence").alias("epoch")
    )
    before = extents.withColumnsRenamed({"top": "sequence", "newest": "event_time"}).where(
        F.col("source").isin(*rest)
    )
    shown = before.select(*_TABLE, "sequence", slot.alias("slot"), _epoch("sequence").alias("epoch"))
    lowest, highest = (
        F.min(F.coalesce("committed", "sequence")).alias("lowest"),
        F.max("sequence").alias("highest"),
    )
    by = (*_TABLE, "epoch", "slot")
    reached = shown.select(
        *by, F.lit(None).cast("string").alias("lowest"), F.col("sequence").alias("highest")
    )
    slots = (
        now.groupBy(*by)
        .agg(lowest, highest)
        .unionByName(reached)
        .withColumn("slot", F.coalesce("slot", F.lit(_NO_TIME)))
    )
    earlier = Window.partitionBy(*_TABLE, "epoch").orderBy("slot").rangeBetween(Window.unboundedPreceding, -1)
    falls = slots.withColumn("before", F.max("highest").over(earlier)).where(
        (F.col("slot") > _NO_TIME) & (F.col("lowest") < F.col("before"))
    )
    return short | {str(row[0]) for row in falls.select("source").distinct().collect()}


def find_stop_points(rows: DataFrame, extents: DataFrame, waits: Mapping[str, timedelta]) -> list[StopPoint]:
    """The stops in a batch of outcomes.

    Args:
        rows: Outcomes that are not halves.
        extents: How far each table has come (EXTENTS).
        waits: The sources to check, with the time that they let halves wait.
    """
    mine_alone = (
        *_TABLE,
        "topic",
        "partition",
        _epoch("sequence"),
    )  # messages that are decoded again may have several epochs
    columns = (
        *_TABLE,
        "topic",
        "partition",
        "offset",
        "ordinal",
        "sequence",
        "committed",
        "event_time",
        "server",
        _restart(),
    )
    at, of_server = F.struct("restart", "offset"), Window.partitionBy(*mine_alone, "server")
    now = _changes_with_position(rows, waits).select(*columns).withColumn("at", at)
    now = now.withColumns({"begins": F.min("at").over(of_server), "ends": F.max("at").over(of_server)})
    same = [now[name].eqNullSafe(extents[name]) for name in _TABLE]
    joined = now.join(F.broadcast(extents), same, "left").select(
        *(now[c] for c in now.columns),
        "top",
        "newest",
        extents["server"].alias("was"),
        F.when(_epoch("top") == _epoch("sequence"), F.col("servers")).alias("servers"),
    )
    before = (
        Window.partitionBy(*mine_alone)
        .orderBy("restart", "offset", "ordinal")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    top = F.greatest(
        F.max("sequence").over(before), F.when(_epoch("top") == _epoch("sequence"), F.col("top"))
    )
    newest = F.greatest(F.max("event_time").over(before), F.col("newest"))
    known = F.when(_epoch("top") == _epoch("sequence"), F.col("was"))
    server = F.coalesce(F.last("server", ignorenulls=True).over(before), known)
    is_below = (F.coalesce("committed", "sequence") < top) & (
        F.col("event_time").cast("double") > newest.cast("double") + _wait(waits)
    )
    is_rising = F.coalesce(F.col("sequence") > top, F.lit(False))
    is_other = (F.col("server") != server) & ~(is_rising & _takes_turns(mine_alone, server))
    reason = F.when(is_other, F.lit("server_changed")).when(is_below, F.lit("position_restarted"))
    detail = F.when(is_other, F.concat_ws(" ", server, F.lit("→"), "server")).otherwise(
        F.concat_ws(" ", "sequence", F.lit("below"), top)
    )
    marked = joined.select(
        *_PARTITION, "restart", "offset", reason.alias("reason"), detail.alias("detail")
    ).where("reason is not null")
    first = marked.groupBy(*_PARTITION).agg(
        F.min(F.struct("restart", "offset", "reason", "detail")).alias("s")
    )
    return [
        StopPoint(*row)
        for row in first.select(*_PARTITION, "s.offset", "s.reason", "s.detail", "s.restart").collect()
    ]


def _takes_turns(partition: Sequence[str | Column], before: Column) -> Column:
    """Whether the server of a row was there before, or the server `before` it comes back after it."""
    named = F.when(F.col("server").isNotNull(), F.struct("server", "ends"))
    ends = F.map_from_entries(F.collect_set(named).over(Window.partitionBy(*partition)))
    is_back = F.coalesce(F.try_element_at(ends, before) > F.col("at"), F.lit(False))
    servers = F.when(_epoch("top") == _epoch("sequence"), F.col("servers"))
    was_there = F.coalesce(F.array_contains(servers, F.col("server")), F.lit(False)) | (
        F.col("begins") < F.col("at")
    )
    return was_there | is_back


def spread_stop_points(rows: DataFrame, stops: Sequence[StopPoint]) -> list[StopPoint]:
    """The stops, and one in each other partition of their sources, at its first message of the new epoch.

    That is a message of the new server, or one that happened when the first stop did, or later.
    """
    found = {
        (stop.source, stop.topic, stop.partition): stop
        for stop in sorted(stops, key=lambda s: s.at, reverse=True)
    }
    is_statement = F.col("kind").isin("ddl", "truncate")
    changes = rows.withColumn("restart", _restart()).where(
        F.col("source").isin({stop.source for stop in stops}) & (is_statement | _is_row())
    )
    first = _frame_of(rows, stops).select(*_PARTITION, "stop.*")
    shown = changes.join(first, [*_PARTITION, "restart", "offset"], "left_semi")
    signs = shown.groupBy("source").agg(
        F.min("event_time").alias("since"), F.collect_set("server").alias("servers")
    )
    is_new_server = F.array_contains("servers", F.col("server")) & F.col("source").isin(
        _restarted_servers(stops)
    )
    later = changes.join(F.broadcast(signs), "source").where(
        (F.col("event_time") >= F.col("since")) | is_new_server
    )
    lowest = later.groupBy(*_PARTITION).agg(F.min(F.struct("restart", "offset")).alias("at"))
    for source, topic, partition, restart, offset in lowest.select(*_PARTITION, "at.*").collect():
        own = found.get((source, topic, partition))
        if own is None or (restart, offset) < own.at:
            detail = "not earlier than the stops of the others"
            found[source, topic, partition] = StopPoint(
                source, topic, partition, offset, FOLLOWS, detail, restart
            )
    return sorted(found.values(), key=lambda s: (s.source, s.reason == FOLLOWS, s.topic, s.partition))


def _restarted_servers(stops: Sequence[StopPoint]) -> list[str]:
    return sorted({stop.source for stop in stops if stop.reason == "server_changed"}) or [""]


def _frame_of(rows: DataFrame, stops: Sequence[StopPoint]) -> DataFrame:
    """The lowest stop of each partition, as rows.

    An expression for each would be too long if every file is a partition.

    The frame is small enough for a broadcast: a partition is a topic's or a file's, and the driver lists
    these anyway.
    """
    places = [(stop.source, stop.topic, stop.partition, stop.at) for stop in stops]
    schema = "source string, topic string, `partition` int, stop struct<restart:int,offset:bigint>"
    frame = rows.sparkSession.createDataFrame(places, schema)
    return F.broadcast(frame.groupBy(*_PARTITION).agg(F.min("stop").alias("stop")))


def drop_behind_stops(rows: DataFrame, stops: Sequence[StopPoint]) -> DataFrame:
    """The rows before the stops."""
    joined = rows.join(_frame_of(rows, stops), list(_PARTITION), "left")
    is_held = F.coalesce(F.struct(_restart(), F.col("offset")) >= F.col("stop"), F.lit(False))
    return joined.where(~is_held).select(*(F.col(f"`{name}`") for name in rows.columns))


def may_show_reset(
    fmt: Format, span: tuple[datetime | None, datetime | None], wait: timedelta, is_behind: bool, servers: int
) -> bool:
    """Whether a batch of a source could show a reset, by its extents alone.

    `span` are its oldest and newest event times; `is_behind` says that it has positions below earlier ones.
    """
    if servers:
        return True
    oldest, newest = span
    if not fmt.positions_are_unique or oldest is None or newest is None:
        return False
    return is_behind or newest - oldest > wait


def _restart() -> Column:
    return F.coalesce("restart", F.lit(0)).alias("restart")


def _epoch(sequence: str) -> Column:
    return F.expr(epoch_part_sql(sequence))


def _changes_with_position(rows: DataFrame, sources: Iterable[str]) -> DataFrame:
    """The row changes of these sources that have a position."""
    return rows.where(F.col("source").isin(*sources) & _is_row() & (F.col("op") != "read") & _has_position())


def _is_row() -> Column:
    """Whether an outcome is a row change, of an excluded table too.

    An excluded table may be the only one that shows a reset, and may be included later.
    """
    return (F.col("kind") == "row") | ((F.col("kind") == "excluded") & F.col("reason").isNull())


def _has_position() -> Column:
    return F.col("sequence").isNotNull() & ~F.expr(is_snapshot_sql("sequence"))


def _wait(waits: Mapping[str, timedelta]) -> Column:
    return by_source({source: F.lit(wait.total_seconds()) for source, wait in waits.items()}, F.lit(0.0))
