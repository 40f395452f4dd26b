"""Positions that start again: a new server, a new log, a restored backup. Late changes are none.

A change shows a reset if its position is below its table's highest although it happened later than everything
before, by more than the source lets halves wait. If another server wrote it than the changes before it, it
shows a reset if that server has never written before and does not write in turn with another one, or as soon
as its position falls in its partition, or is below that of a table whose changes are all older. Late changes
are older than what was before them, and duplicates are removed by their ids before this check.

Two servers can write one log in turn (two primaries): between servers that have written before, a change of
the server is no reset while positions rise.

A row of a long transaction has an old position and a late time. If the feed tells up to where the log was
committed, that position (`committed`) must not fall. Otherwise the transactions after it decide: after a
reset their positions are low too, after a long transaction they are above all before it. Until one comes, the
source waits (UNDECIDED).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from framework.spark.columns import by_source
from framework.spark.local_frame import local_frame
from silver.decoding.format import Format
from silver.epochs.log_changes import (
    changes_with_position,
    epoch_in,
    has_position,
    is_row,
    is_statement,
    restart,
)
from silver.epochs.stop_points import (
    FOLLOWS,
    OLDER_TOPIC,
    POSITION_RESTARTED,
    SERVER_CHANGED,
    UNDECIDED,
    UNKNOWN_TOPIC,
    StopPoint,
)

__all__ = [
    "EXTENTS",
    "FOLLOWS",
    "OLDER_TOPIC",
    "SERVER_CHANGED",
    "UNDECIDED",
    "UNKNOWN_TOPIC",
    "StopPoint",
    "drop_behind_stops",
    "find_stop_points",
    "may_show_reset",
    "spread_stop_points",
    "suspect_sources",
]

SHORTEST = timedelta(seconds=1)
"""A source that waits a shorter time than this may always show a reset."""
_TABLE = ("source", "database", "schema", "table")
_PARTITION = ("source", "topic", "partition")
NO_TIME = -(2**62)
"""The slot of changes without a time: it is before all others."""
EXTENTS = (
    "source string, database string, schema string, `table` string, top string, newest timestamp, "
    "server string, servers array<string>"
)
_WITHOUT_EPOCH = (OLDER_TOPIC, UNKNOWN_TOPIC)


def suspect_sources(rows: DataFrame, extents: DataFrame, waits: Mapping[str, timedelta]) -> set[str]:
    """The sources of a batch whose positions may start again.

    For the others `find_stop_points` finds nothing.

    Servers are not considered. A reset needs a change that happened more than the wait after another one and
    is below it. So changes are counted into slots of time shorter than the wait: two such changes are never
    in one slot, and a slot needs no order inside it.
    """
    short = {source for source, wait in waits.items() if wait < SHORTEST}
    rest = {source: wait for source, wait in waits.items() if source not in short}
    if not rest:
        return short
    slot = F.floor(F.col("event_time").cast("double") / (_wait(rest) * 0.9))
    now = changes_with_position(rows, rest).select(
        *_TABLE, "sequence", "committed", slot.alias("slot"), epoch_in("sequence").alias("epoch")
    )
    before = extents.withColumnsRenamed({"top": "sequence", "newest": "event_time"}).where(
        F.col("source").isin(*rest)
    )
    shown = before.select(*_TABLE, "sequence", slot.alias("slot"), epoch_in("sequence").alias("epoch"))
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
        .withColumn("slot", F.coalesce("slot", F.lit(NO_TIME)))
    )
    earlier = Window.partitionBy(*_TABLE, "epoch").orderBy("slot").rangeBetween(Window.unboundedPreceding, -1)
    falls = slots.withColumn("before", F.max("highest").over(earlier)).where(
        (F.col("slot") > NO_TIME) & (F.col("lowest") < F.col("before"))
    )
    return short | {str(row[0]) for row in falls.select("source").distinct().collect()}


def find_stop_points(rows: DataFrame, extents: DataFrame, waits: Mapping[str, timedelta]) -> list[StopPoint]:
    """The stops in a batch of outcomes.

    Args:
        rows: Outcomes that are not halves.
        extents: How far each table has come (EXTENTS).
        waits: The sources to check, with the time that they let halves wait.
    """
    changes = _with_signs(changes_with_position(rows, waits), extents, waits)
    found = _first_stops(changes, extents)
    if any(stop.reason == UNDECIDED for stop in found):
        return _first_stops(_decide(changes), extents)
    return found


def _with_signs(changes: DataFrame, extents: DataFrame, waits: Mapping[str, timedelta]) -> DataFrame:
    """Add to changes what they show of a reset.

    Returns:
        The changes with `own` (what the extents hold of their table in their epoch), `was` and `top` (the
        server and the highest position before a change in its table), `is_next` (it begins a transaction),
        `is_other` (another server wrote it), `falls` (it is below an earlier change of its partition),
        `is_below` (it is below an earlier change and late), and `is_open` (`is_below` may be that of a long
        transaction).
    """
    columns = (*_TABLE, "topic", "partition", "offset", "ordinal", "sequence", "committed", "event_time",
               "server", "transaction_id", restart())  # fmt: skip
    now = changes.select(*columns)
    same = [now[name].eqNullSafe(extents[name]) for name in _TABLE]
    joined = now.join(F.broadcast(extents), same, "left").select(
        *(now[c] for c in now.columns), "top", "newest", extents["server"].alias("was"),
        F.when(epoch_in("top") == epoch_in("sequence"), F.struct("top", "newest")).alias("own"),
    )  # fmt: skip
    order = Window.partitionBy(*_TABLE, "topic", "partition", epoch_in("sequence")).orderBy(
        "restart", "offset", "ordinal"
    )  # messages that are decoded again may have several epochs
    before = order.rowsBetween(Window.unboundedPreceding, -1)
    is_of_epoch = epoch_in("top") == epoch_in("sequence")
    highest, server = F.max("sequence").over(before), F.last("server", ignorenulls=True).over(before)
    placed = joined.withColumns(
        {
            "falls": _is_true(F.col("sequence") < highest),
            "top": F.greatest(highest, F.when(is_of_epoch, F.col("top"))),
            "newest": F.greatest(F.max("event_time").over(before), F.col("newest")),
            "was": F.coalesce(server, F.when(is_of_epoch, F.col("was"))),
            "is_next": ~F.col("transaction_id").eqNullSafe(F.lag("transaction_id").over(order)),
        }
    )
    is_late = F.col("event_time").cast("double") > F.col("newest").cast("double") + _wait(waits)
    is_below = _is_true((F.coalesce("committed", "sequence") < F.col("top")) & is_late)
    may_be_long = F.expr("server IS NULL AND committed IS NULL AND transaction_id IS NOT NULL")
    return placed.select(
        *(F.col(f"`{name}`") for name in now.columns), "own", "was", "top", "falls", "is_next",
        _is_true(F.col("server") != F.col("was")).alias("is_other"),
        is_below.alias("is_below"), (is_below & may_be_long).alias("is_open"),
    )  # fmt: skip


def _decide(changes: DataFrame) -> DataFrame:
    """The changes of `_with_signs`; `is_open` only where no later transaction shows what `is_below` is.

    It is a long transaction if the next one in its partition is above `top`. If none is next, it is one if
    the highest position of the source is above `top`, and is that of another transaction that is not older.
    """
    epoch = epoch_in("sequence").alias("epoch")
    behind = Window.partitionBy(*_TABLE, "topic", "partition", "epoch").orderBy(
        F.desc("restart"), F.desc("offset"), F.desc("ordinal")
    )  # in this direction each row costs the same
    starts = F.when(F.col("is_next"), F.col("sequence"))
    following = F.last(starts, ignorenulls=True).over(behind.rowsBetween(Window.unboundedPreceding, -1))
    highest = F.max(F.struct("sequence", "event_time", "transaction_id")).alias("last")
    last = changes.groupBy("source", epoch).agg(highest)
    joined = changes.select("*", epoch).withColumn("following", following)
    has_gone_on = F.expr(
        "last.sequence > top AND last.event_time >= event_time AND last.transaction_id <> transaction_id"
    )
    has_passed = F.when(F.col("following").isNull(), has_gone_on).otherwise(F.col("following") > F.col("top"))
    decided = joined.join(F.broadcast(last), ["source", "epoch"])
    return decided.withColumns(
        {
            "is_below": F.col("is_below") & ~(F.col("is_open") & _is_true(has_passed)),
            "is_open": F.col("is_open") & F.col("following").isNull(),
        }
    ).select(*changes.columns)


def _first_stops(changes: DataFrame, extents: DataFrame) -> list[StopPoint]:
    """The first stop of each partition.

    Another server is a reset if it is new and stays, or if the position falls, or if it is below that of its
    table, or of the table that is furthest, and that table's changes are all older.
    """
    mine = changes.where("is_other OR is_below")
    if not mine.count():  # nearly always; what follows takes several jobs
        return []
    furthest = F.max(F.struct("top", "newest")).alias("furthest")
    far = extents.groupBy("source", epoch_in("top").alias("epoch")).agg(furthest).where("epoch IS NOT NULL")
    epoch = epoch_in("sequence").alias("epoch")
    joined = (
        mine.select("*", epoch)
        .join(F.broadcast(far), ["source", "epoch"], "left")
        .join(F.broadcast(_old_servers(changes, extents)), "source", "left")
    )
    is_under = _is_below_older("own") | _is_below_older("furthest")
    is_other = F.col("is_other") & (_is_new_server() | F.col("falls") | is_under)
    below = F.when(F.col("is_open"), F.lit(UNDECIDED)).otherwise(F.lit(POSITION_RESTARTED))
    reason = F.when(is_other, F.lit(SERVER_CHANGED)).when(F.col("is_below"), below)
    detail = F.when(is_other, F.concat_ws(" ", "was", F.lit("→"), "server")).otherwise(
        F.concat_ws(" ", "sequence", F.lit("below"), "top")
    )
    marked = joined.withColumn("reason", reason).withColumn("detail", detail).where("reason IS NOT NULL")
    first = marked.groupBy(*_PARTITION).agg(
        F.min(F.struct("restart", "offset", "reason", "detail")).alias("s")
    )
    found = first.select(*_PARTITION, "s.offset", "s.reason", "s.detail", "s.restart").collect()
    return [StopPoint(*row) for row in found]


def _old_servers(changes: DataFrame, extents: DataFrame) -> DataFrame:
    """By source, `known`: the servers that have written before, and those that write in turn with them.

    A new server writes in turn if a server from before it follows it.
    """
    before = _servers_before(extents).withColumnRenamed("known", "before")
    changed = changes.where("is_other").select("source", "was", "server").distinct()
    left = changed.groupBy("source").agg(F.collect_set("was").alias("left"))
    joined = changed.join(left, "source").join(before, "source", "left")
    earlier = F.concat("left", _or_empty("before"))
    in_turn = (
        joined.where(F.array_contains(earlier, F.col("server")))
        .groupBy("source")
        .agg(F.collect_set("was").alias("in_turn"))
    )
    every = F.concat(_or_empty("before"), _or_empty("in_turn"))
    return before.join(in_turn, "source", "full").select("source", F.array_distinct(every).alias("known"))


def _servers_before(extents: DataFrame) -> DataFrame:
    """By source, `known`: the servers that have written before, by EXTENTS."""
    return extents.groupBy("source").agg(F.flatten(F.collect_list("servers")).alias("known"))


def _or_empty(names: str) -> Column:
    return F.coalesce(names, F.array().cast("array<string>"))


def _is_new_server() -> Column:
    """Whether the server of a change is not `known`."""
    return ~_is_true(F.array_contains("known", F.col("server")))


def _is_below_older(reached: str) -> Column:
    """Whether a change is below the position that a table has reached, whose changes are all older.

    If both are of the same time, a server that has written before is taken to be as late as they are.
    """
    top, newest = F.col(f"{reached}.top"), F.col(f"{reached}.newest")
    is_older = (newest < F.col("event_time")) | ((newest == F.col("event_time")) & _is_new_server())
    return _is_true(F.col("sequence") < top) & F.coalesce(is_older, F.lit(True))


def _is_true(condition: Column) -> Column:
    return F.coalesce(condition, F.lit(False))


def spread_stop_points(
    rows: DataFrame, stops: Sequence[StopPoint], extents: DataFrame | None = None
) -> list[StopPoint]:
    """The stops, and one in each other partition of their sources, at its first message of the new epoch.

    That is a message that happened when the first stop did, or later. It is an earlier one of its server, if
    that server has not written before (by EXTENTS). And it is a statement, or a row of a snapshot, before the
    first new change in a log that starts lower than the one before, if it is later than all changes of that
    one: what belongs to a log comes in its order. A snapshot does not name its server.
    """
    found = {
        (stop.source, stop.topic, stop.partition): stop
        for stop in sorted(stops, key=lambda s: (s.at, s.reason not in _WITHOUT_EPOCH), reverse=True)
    }
    changes = rows.withColumn("restart", restart()).where(
        F.col("source").isin({stop.source for stop in stops}) & (is_statement() | is_row())
    )
    is_new = F.array_contains("servers", F.col("server"))
    is_before = F.col("sequence") <= F.col("reached")
    is_placed = is_statement() | (F.col("op") == "read")
    is_of_log = F.col("server").isNull() | F.array_contains("writers", F.col("server"))
    later = changes.join(F.broadcast(_signs(changes, stops, extents)), "source").where(
        (F.col("event_time") >= F.col("since"))
        | (is_new & (F.col("event_time").isNull() | is_before))
        | (is_placed & is_of_log & is_before & has_position() & (F.col("event_time") > F.col("newest")))
    )
    lowest = later.groupBy(*_PARTITION).agg(F.min(F.struct("restart", "offset")).alias("at"))
    for source, topic, partition, *at in lowest.select(*_PARTITION, "at.*").collect():
        own = found.get((source, topic, partition))
        if own is None or tuple(at) < own.at:
            reason, detail = FOLLOWS, "not earlier than the stops of the others"
            if own is not None and own.reason in (*_WITHOUT_EPOCH, UNDECIDED):
                reason, detail = own.reason, own.detail  # they need advice of their own
            found[source, topic, partition] = StopPoint(
                source, topic, partition, at[1], reason, detail, at[0]
            )
    return sorted(found.values(), key=lambda s: (s.source, s.reason == FOLLOWS, s.topic, s.partition))


def _signs(changes: DataFrame, stops: Sequence[StopPoint], extents: DataFrame | None) -> DataFrame:
    """By source, what tells the changes of the new epoch.

    Returns:
        `since`, the time of the first stop; `writers`, the servers at the stops; `servers`, those of them
        that are new; `reached`, how far they got; and `newest`, the time of the newest change before, null
        where none is above `reached`: such a log goes on at higher positions, as after a failover.
    """
    first = _frame_of(changes, stops).select(*_PARTITION, "stop.*")
    shown = changes.join(first, [*_PARTITION, "restart", "offset"], "left_semi")
    is_changed = F.col("source").isin({stop.source for stop in stops if stop.reason == SERVER_CHANGED})
    signs = shown.groupBy("source").agg(
        F.min("event_time").alias("since"),
        F.max("sequence").alias("reached"),
        F.collect_set("server").alias("writers"),
        F.collect_set(F.when(is_changed, F.col("server"))).alias("servers"),
    )
    above = drop_behind_stops(changes, stops).join(
        F.broadcast(signs.select("source", "since", "reached")), "source"
    )
    above = above.where(is_row() & has_position() & (F.col("sequence") > F.col("reached")))
    is_before = F.col("event_time") < F.col("since")
    times = above.select(
        "source", F.when(is_before, F.col("event_time")).alias("event_time"), F.lit(True).alias("is_above")
    )
    if extents is not None:
        is_above = (F.col("top") > F.col("reached")).alias("is_above")
        known = extents.join(F.broadcast(signs.select("source", "reached")), "source")
        times = times.unionByName(known.select("source", F.col("newest").alias("event_time"), is_above))
    newest = F.when(F.bool_or("is_above"), F.max("event_time")).alias("newest")
    signs = signs.join(times.groupBy("source").agg(newest), "source", "left")
    if extents is None:
        return signs
    servers = F.array_except("servers", _or_empty("known"))
    return signs.join(_servers_before(extents), "source", "left").withColumn("servers", servers).drop("known")


def _frame_of(rows: DataFrame, stops: Sequence[StopPoint]) -> DataFrame:
    """The lowest stop of each partition, as rows.

    An expression for each would be too long if every file is a partition.

    The frame is small enough for a broadcast: a partition is a topic's or a file's, and the driver lists
    these anyway.
    """
    places = [(stop.source, stop.topic, stop.partition, stop.at) for stop in stops]
    schema = "source string, topic string, `partition` int, stop struct<restart:int,offset:bigint>"
    frame = local_frame(rows.sparkSession, places, schema)
    return F.broadcast(frame.groupBy(*_PARTITION).agg(F.min("stop").alias("stop")))


def drop_behind_stops(rows: DataFrame, stops: Sequence[StopPoint]) -> DataFrame:
    """The rows before the stops."""
    joined = rows.join(_frame_of(rows, stops), list(_PARTITION), "left")
    is_held = F.coalesce(F.struct(restart(), F.col("offset")) >= F.col("stop"), F.lit(False))
    return joined.where(~is_held).select(*(F.col(f"`{name}`") for name in rows.columns))


def may_show_reset(
    fmt: Format,
    span: tuple[datetime | None, datetime | None],
    wait: timedelta,
    is_behind: bool,
    names_servers: bool,
) -> bool:
    """Whether a batch of a source could show a reset, by its extents alone.

    `span` are its oldest and newest event times; `is_behind` says that it has positions below earlier ones,
    `names_servers` that its changes name the servers that wrote them.
    """
    if names_servers:
        return True
    oldest, newest = span
    if not fmt.positions_are_unique or oldest is None or newest is None:
        return False
    return is_behind or newest - oldest > wait


def _wait(waits: Mapping[str, timedelta]) -> Column:
    return by_source({source: F.lit(wait.total_seconds()) for source, wait in waits.items()}, F.lit(0.0))
