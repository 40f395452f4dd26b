"""Positions that have restarted: a new server, a new log, a restored backup. Told apart from late and repeated changes.

A change shows a reset when another server wrote it than the changes before it, or when its position lies below its
table's highest while it happened later than everything before by more than the source lets halves wait. Late changes
are older than what was before them, and repeats are known by their ids before anyone looks here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from silver.choice import by_source
from silver.format import Format

_Slot = tuple[float, str | None, str | None]
"""A slot of time: its number, its lowest and its highest position."""
_SHORTEST = timedelta(seconds=1)
_TABLE = ("source", "database", "schema", "table")
EXTENTS = "source string, database string, schema string, `table` string, top string, newest timestamp, server string"


FOLLOWS = "follows"
"""The reason of a stop in a partition without a sign of its own: its messages are later than those that show one."""


@dataclass(frozen=True, slots=True)
class Stop:
    """The first message of a partition that belongs to another epoch than the messages before it."""

    source: str
    topic: str
    partition: int
    offset: int
    reason: str
    detail: str


def suspects(rows: DataFrame, extents: DataFrame, waits: Mapping[str, timedelta]) -> set[str]:
    """The sources of a batch in which positions may begin anew, servers left aside: in the others `found` finds nothing.

    It takes a change that happened more than the wait after another one and stands below it. So changes are counted into
    slots of time shorter than the wait: two such changes are never in one slot, and a slot needs no order inside it.
    """
    short = {source for source, wait in waits.items() if wait < _SHORTEST}
    rest = {source: wait for source, wait in waits.items() if source not in short}
    if not rest:
        return short
    slot = F.floor(F.col("event_time").cast("double") / (_wait(rest) * 0.9))
    now = _placed(rows, rest).select(*_TABLE, "sequence", slot.alias("slot"), _epoch("sequence").alias("epoch"))
    before = extents.withColumnsRenamed({"top": "sequence", "newest": "event_time"}).where(F.col("source").isin(*rest))
    shown = before.select(*_TABLE, "sequence", slot.alias("slot"), _epoch("sequence").alias("epoch"))
    lowest, highest = F.min("sequence").alias("lowest"), F.max("sequence").alias("highest")
    by = (*_TABLE, "epoch", "slot")
    reached = shown.select(*by, F.lit(None).cast("string").alias("lowest"), F.col("sequence").alias("highest"))
    slots: dict[tuple[object, ...], list[_Slot]] = {}
    for row in now.groupBy(*by).agg(lowest, highest).unionByName(reached).collect():
        moment = -math.inf if row["slot"] is None else float(row["slot"])
        slots.setdefault(tuple(row[name] for name in by[:-1]), []).append((moment, row["lowest"], row["highest"]))
    return short | {str(table[0]) for table, found in slots.items() if _falls(found)}


def _falls(slots: Iterable[_Slot]) -> bool:
    """Whether a slot's lowest position is below the highest of the slots before it. A slot without a time is before all."""
    before, top = "", ""
    last = -math.inf
    for moment, lowest, highest in sorted(slots, key=lambda slot: slot[0]):
        if moment > last:
            before, last = top, moment
        if moment > -math.inf and lowest is not None and lowest < before:
            return True
        top = max(top, highest or "")
    return False


def found(rows: DataFrame, extents: DataFrame, waits: Mapping[str, timedelta]) -> list[Stop]:
    """The stops in a batch of fates. `extents` (EXTENTS) says how far each table has come; `waits` names the sources to look at."""
    now = _placed(rows, waits).select(*_TABLE, "topic", "partition", "offset", "ordinal", "sequence", "event_time", "server")
    same = [now[name].eqNullSafe(extents[name]) for name in _TABLE]
    joined = now.join(F.broadcast(extents), same, "left").select(
        *(now[c] for c in now.columns), "top", "newest", extents["server"].alias("was")
    )
    mine_alone = (*_TABLE, "topic", "partition", _epoch("sequence"))  # epochs meet when messages are decoded again
    before = Window.partitionBy(*mine_alone).orderBy("offset", "ordinal").rowsBetween(Window.unboundedPreceding, -1)
    top = F.greatest(F.max("sequence").over(before), F.when(_epoch("top") == _epoch("sequence"), F.col("top")))
    newest = F.greatest(F.max("event_time").over(before), F.col("newest"))
    known = F.when(_epoch("top") == _epoch("sequence"), F.col("was"))
    server = F.coalesce(F.last("server", ignorenulls=True).over(before), known)
    is_below = (F.col("sequence") < top) & (F.col("event_time").cast("double") > newest.cast("double") + _wait(waits))
    is_other = F.col("server") != server
    reason = F.when(is_other, F.lit("server_changed")).when(is_below, F.lit("position_restarted"))
    detail = F.when(is_other, F.concat_ws(" ", server, F.lit("→"), "server")).otherwise(F.concat_ws(" ", "sequence", F.lit("below"), top))
    marked = joined.select("source", "topic", "partition", "offset", reason.alias("reason"), detail.alias("detail")).where(
        "reason is not null"
    )
    first = marked.groupBy("source", "topic", "partition").agg(F.min(F.struct("offset", "reason", "detail")).alias("s"))
    return [Stop(*row) for row in first.select("source", "topic", "partition", "s.*").collect()]


def spread(rows: DataFrame, stops: Sequence[Stop]) -> list[Stop]:
    """The stops, and one in each other partition of their sources, at its first message that is of the new epoch too.

    That is one whose server is the new one, or that happened when the first of the stops did, or later.
    """
    found = {(stop.source, stop.topic, stop.partition): stop for stop in sorted(stops, key=lambda s: -s.offset)}
    at = F.lit(False)
    for stop in found.values():
        at = at | (_in_partition(stop) & (F.col("offset") == stop.offset))
    changes = rows.where(F.col("source").isin({stop.source for stop in stops}) & F.col("kind").isin("row", "ddl", "truncate"))
    signs = changes.where(at).groupBy("source").agg(F.min("event_time").alias("since"), F.collect_set("server").alias("servers"))
    is_new_server = F.array_contains("servers", F.col("server")) & F.col("source").isin(_restarted_servers(stops))
    later = changes.join(F.broadcast(signs), "source").where((F.col("event_time") >= F.col("since")) | is_new_server)
    first = later.groupBy("source", "topic", "partition").agg(F.min("offset"))
    for source, topic, partition, offset in first.collect():
        own = found.get((source, topic, partition))
        if own is None or offset < own.offset:
            found[source, topic, partition] = Stop(source, topic, partition, offset, FOLLOWS, "not earlier than the stops of the others")
    return sorted(found.values(), key=lambda s: (s.source, s.reason == FOLLOWS, s.topic, s.partition))


def _restarted_servers(stops: Sequence[Stop]) -> list[str]:
    return sorted({stop.source for stop in stops if stop.reason == "server_changed"}) or [""]


def _in_partition(stop: Stop) -> Column:
    return (F.col("source") == stop.source) & (F.col("topic") == stop.topic) & (F.col("partition") == stop.partition)


def without_held(rows: DataFrame, stops: Sequence[Stop]) -> DataFrame:
    """The rows before the stops."""
    is_held = F.lit(False)
    for stop in stops:
        is_held = is_held | (_in_partition(stop) & (F.col("offset") >= stop.offset))
    return rows.where(~is_held)


def concerns(fmt: Format, span: tuple[datetime | None, datetime | None], wait: timedelta, is_behind: bool, servers: int) -> bool:
    """Whether a batch of a source could show a reset at all: seen from its extents, before anyone looks at its rows.

    `span` are its oldest and newest event times, `is_behind` says that it has positions below those seen before.
    """
    if servers:
        return True
    oldest, newest = span
    if not fmt.positions_are_unique or oldest is None or newest is None:
        return False
    return is_behind or newest - oldest > wait


def _epoch(sequence: str) -> Column:
    return F.regexp_extract(sequence, r"^\d+\.", 0)


def _placed(rows: DataFrame, sources: Iterable[str]) -> DataFrame:
    """The row changes of these sources that have a position."""
    return rows.where(F.col("source").isin(*sources) & (F.col("kind") == "row") & (F.col("op") != "read") & _has_position())


def _has_position() -> Column:
    return F.col("sequence").isNotNull() & ~F.col("sequence").rlike(r"^\d+\.010\.")


def _wait(waits: Mapping[str, timedelta]) -> Column:
    return by_source({source: F.lit(wait.total_seconds()) for source, wait in waits.items()}, F.lit(0.0))
