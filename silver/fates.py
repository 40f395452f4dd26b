"""From decoded rows to fates: which of them repeat, which halves belong together. DataFrame in, DataFrame out.

Nothing here reads, writes or counts; `silver/batch.py` decides from a summary which of these steps a batch needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from framework.contracts.erasure import FORGOTTEN
from framework.contracts.reasons import Reason
from silver.choice import by_source
from silver.pairing import KNOWN, NEW, PENDING, REFUSED, pair_places
from silver.repeats import settle_places
from silver.rows import STAGED, STAGED_DDL

_PLACE = ("source", "database", "schema", "table")
IDENTIFIED = ("row", "ddl", "truncate", "heartbeat", "transaction", "tombstone")
"""Kinds whose `change_id` tells repeats."""
BUCKET = 5_000
"""Rows that come to one call of Python, whose memory they bound."""
UNPAIRED = f"kind = 'quarantined' AND reason = '{Reason.UNPAIRED_BEFORE_IMAGE}'"
"""BEFOR halves whose partner did not come in time; it may still come."""


def coordinates() -> Column:
    """A change's coordinates as one value that sorts."""
    return F.struct("topic", "partition", "offset", "ordinal")


def place_key(*more: str) -> Column:
    """One text for the table (and more columns) that a row speaks of; nulls count as values."""
    return F.to_json(F.struct(*(F.col(f"`{name}`") for name in (*_PLACE, *more))), {"ignoreNullFields": "false"})


def staged_columns(frame: DataFrame) -> DataFrame:
    """The staged columns of rows read from `silver/changes` or `silver/pending`."""
    have = set(frame.columns)
    blank = {"position": F.lit(None).cast("string"), "columns": F.lit(None).cast("string")}
    return frame.select(*(F.col(f"`{name}`") if name in have else blank[name].alias(name) for name in STAGED.names))


def repeated_ids(staged: DataFrame, known: DataFrame | None) -> DataFrame:
    """`change_id` of everything that occurs more than once, and `first`: its first coordinates in this batch.

    `first` is null where an earlier batch has the change: then all of this batch's are repeats. `known` are the changes
    of earlier batches that may have the same ids; a released half among them is not a whole change yet.
    """
    mine = staged.where(F.col("half").isNull() & F.col("kind").isin(*IDENTIFIED)).select("change_id", coordinates().alias("at"))
    counted = mine.groupBy("change_id").agg(F.min("at").alias("first"), F.count("*").alias("n"))
    if known is None:
        return counted.where("n > 1").select("change_id", "first")
    earlier = known.where(F.col("half").isNull()).select("change_id").distinct().withColumn("is_known", F.lit(True))
    marked = counted.join(earlier, "change_id", "left").where(F.col("n").__gt__(1) | F.col("is_known"))
    return marked.select("change_id", F.when(F.col("is_known").isNull(), F.col("first")).alias("first"))


def without_repeats(staged: DataFrame, repeats: DataFrame) -> DataFrame:
    """Rows with those that repeat an earlier one turned into kind `duplicate`, their images taken off."""
    marks = F.broadcast(repeats.select("change_id", "first", F.lit(True).alias("is_repeated")))
    joined = staged.join(marks, "change_id", "left")
    is_candidate = F.coalesce(F.col("is_repeated"), F.lit(False)) & F.col("half").isNull() & F.col("kind").isin(*IDENTIFIED)
    rest = joined.where(~is_candidate).select(*(F.col(f"`{n}`") for n in STAGED.names))
    nth = F.row_number().over(Window.partitionBy("change_id").orderBy(coordinates()))
    numbered = joined.where(is_candidate).withColumn("_again", F.col("first").isNull() | (nth > 1))
    changed = {
        "kind": F.when(F.col("_again"), F.lit("duplicate")).otherwise(F.col("kind")),
        "before": F.when(~F.col("_again"), F.col("before")),
        "after": F.when(~F.col("_again"), F.col("after")),
    }
    return rest.unionByName(numbered.select(*(changed[n].alias(n) if n in changed else F.col(f"`{n}`") for n in STAGED.names)))


def without_forgotten(rows: DataFrame, changes: DataFrame) -> DataFrame:
    """Rows with deliveries of changes that `forget` has emptied excluded again; `changes` are all of `silver/changes`."""
    emptied = changes.where(F.col("reason") == FORGOTTEN).select("change_id").distinct().withColumn("_is_emptied", F.lit(True))
    joined = rows.join(F.broadcast(emptied), "change_id", "left")
    is_again = F.coalesce(F.col("_is_emptied"), F.lit(False)) & (F.col("kind") == "row")
    changed = {"kind": F.lit("excluded"), "reason": F.lit(FORGOTTEN), "before": F.lit(None), "after": F.lit(None)}
    return joined.select(
        *(F.when(is_again, changed[n]).otherwise(F.col(n)).alias(n) if n in changed else F.col(f"`{n}`") for n in rows.columns)
    )


def is_open_to_repeats() -> Column:
    """Whether a row's position does not identify its change: it is only a time, or a snapshot's row has none."""
    return (F.col("kind") == "row") & F.col("half").isNull() & ~F.col("sequence").eqNullSafe(F.col("position"))


def _repeat_place() -> Column:
    """Where rows may repeat each other: one table at one position; without positions, one key of a table in one epoch."""
    key = F.to_json(F.struct(F.transform("keys", lambda name: F.try_element_at(F.col("after"), name)).alias("key")))
    epoch = F.regexp_extract("sequence", r"^\d+", 0)
    copied = F.concat_ws("|", epoch, place_key(), F.when(F.size("keys") > 0, key).otherwise(F.col("change_id")))
    return F.when(F.col("position").isNull(), copied).otherwise(place_key("position"))


def settled_repeats(staged: DataFrame, repeats: DataFrame, known: DataFrame | None, rows_open: int = 0) -> tuple[DataFrame, DataFrame]:
    """For rows that are `is_open_to_repeats`, about `rows_open`: those left as they are, and the settled ones of places with repeats."""
    rows = staged.withColumn("_place", _repeat_place())
    places = rows.join(F.broadcast(repeats.select("change_id")), "change_id", "left_semi").select("_place").distinct()
    members = rows.join(F.broadcast(places), "_place", "left_semi").withColumn("origin", F.lit(NEW))
    if known is not None:
        earlier = known.where("kind = 'row'").withColumn("position", _position_of("sequence"))
        earlier = staged_columns(earlier).withColumn("_place", _repeat_place()).withColumn("origin", F.lit(KNOWN))
        members = members.unionByName(earlier.join(F.broadcast(places), "_place", "left_semi").select(members.columns))
    settled = members.groupBy(_bucket(rows_open)).applyInArrow(settle_places, STAGED_DDL)
    rest = rows.join(F.broadcast(places), "_place", "left_anti").select(*(F.col(f"`{n}`") for n in STAGED.names))
    return rest, settled


def _position_of(sequence: str) -> Column:
    """The sequence without its four tie-breakers."""
    has_place = ~F.col(sequence).rlike(r"^\d+\.010\.")
    return F.when(has_place, F.regexp_replace(F.col(sequence), r"\.[^.]*(\.\d+){3}$", ""))


def paired(
    staged: DataFrame, pending: DataFrame, known: DataFrame | None, deadlines: Mapping[str, datetime | None], halves_new: int = 0
) -> DataFrame:
    """The fates of this batch's halves, about `halves_new`, and of the waiting ones that they, or the time, concern."""
    mine = staged.withColumn("_place", place_key("sequence"))
    halves = mine.where(F.col("half").isNotNull()).withColumn("origin", F.lit(NEW))
    updates = mine.where("half is null and kind = 'row' and op = 'update'").withColumn("origin", F.lit(KNOWN))
    waiting = staged_columns(pending).withColumn("_place", place_key("sequence")).withColumn("origin", F.lit(PENDING))
    touched = halves.select("_place").unionByName(updates.select("_place")).distinct()
    overdue = F.col("event_time") < _deadline(deadlines)
    met = waiting.join(touched.withColumn("is_touched", F.lit(True)), "_place", "left").where(F.col("is_touched") | overdue)
    open_halves = halves.unionByName(met.select(halves.columns))
    places = open_halves.select("_place").distinct()
    members = open_halves.unionByName(updates.join(places, "_place", "left_semi").select(halves.columns))
    if known is not None:
        earlier = staged_columns(known.where("kind = 'row'")).withColumn("_place", place_key("sequence")).withColumn("origin", F.lit(KNOWN))
        members = members.unionByName(earlier.join(places, "_place", "left_semi").select(halves.columns))
        refused = staged_columns(known.where(UNPAIRED)).withColumn("_place", place_key("sequence")).withColumn("origin", F.lit(REFUSED))
        members = members.unionByName(refused.join(places, "_place", "left_semi").select(halves.columns))
    members = members.withColumn("deadline", _deadline(deadlines))
    return members.groupBy(_bucket(halves_new)).applyInArrow(pair_places, STAGED_DDL)


def _bucket(rows: int) -> Column:
    """Which call of Python a place comes to, as one of many: a call for each place alone would take far longer."""
    return F.pmod(F.xxhash64("_place"), F.lit(rows // BUCKET + 1))


def _deadline(deadlines: Mapping[str, datetime | None]) -> Column:
    moments = {source: F.lit(moment) for source, moment in deadlines.items() if moment is not None}
    return by_source(moments, F.lit(None).cast("timestamp"))
