"""The epoch of each message, by its place, its landing and its time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from framework.contracts import epochs
from framework.contracts.epochs import LandedMessage
from framework.spark.columns import by_source
from framework.spark.local_frame import local_frame
from silver.epochs.history import History

_STARTS = (
    "source string, topic string, `partition` int, starts map<int,struct<low:bigint,"
    "landing:struct<at:bigint,file:string,line:bigint>,since:struct<offset:bigint,time:bigint,earlier:bigint,reached:bigint>>>"
)


def sources_with_epochs(history: History) -> dict[str, list[int]]:
    """The sources with several epochs, which alone depend on the message, and these epochs."""
    return {source: of_it for source in history.sources() if len(of_it := history.epochs(source)) > 1}


def epochs_by_source(sources: pa.Array[Any], newest: Mapping[str, int]) -> pa.Array[Any]:
    """The epoch of each message of sources with one epoch (int32)."""
    encoded: Any = sources.dictionary_encode()
    epochs = [newest.get(source, 1) for source in encoded.dictionary.to_pylist()]
    return pa.array(epochs, pa.int32()).take(encoded.indices)


def with_epochs(messages: DataFrame, history: History, newest: Mapping[str, int]) -> DataFrame:
    """The messages with their `epoch`, by their coordinates and landings."""
    known = sources_with_epochs(history)
    default = by_source({source: F.lit(epoch) for source, epoch in newest.items()}, F.lit(1))
    if not known:
        return messages.withColumn("epoch", default)
    places = history.starts().items()
    rows = [
        (*place, {epoch: (start.offset, start.landing, start.since) for epoch, start in starts.items()})
        for place, starts in places
        if place[0] in known
    ]
    starts = F.broadcast(local_frame(messages.sparkSession, rows, _STARTS))
    joined = messages.join(starts, ["source", "topic", "partition"], "left")
    own = landing_order() if "ingested_at" in messages.columns else _before_all()
    sent = F.unix_micros("timestamp") if "timestamp" in messages.columns else F.lit(None).cast("bigint")
    found = by_source({source: _highest(epochs, own, sent) for source, epochs in known.items()}, default)
    return joined.withColumn("epoch", found).select(
        *(F.col(f"`{name}`") for name in messages.columns), "epoch"
    )


def epoch_finder(history: History, newest: Mapping[str, int]) -> Callable[[LandedMessage], int | None]:
    """Returns the epoch of a message as `with_epochs` does, in this process."""
    known = sources_with_epochs(history)
    return epochs.epoch_finder(known, history.starts() if known else {}, newest)


def landing_order() -> Column:
    """When and where a row of `bronze/messages` landed, as a sortable value."""
    file, line = F.coalesce("file", F.lit("")), F.coalesce("line", F.lit(0).cast("bigint"))
    return F.struct(F.unix_micros("ingested_at").alias("at"), file.alias("file"), line.alias("line"))


def _before_all() -> Column:
    """A landing before all others, for outcomes of older releases: no epoch began with a landing then."""
    zero = F.lit(0).cast("bigint")
    return F.struct(zero.alias("at"), F.lit("").alias("file"), zero.alias("line"))


def with_recorded_epochs(outcomes: DataFrame, history: History, newest: Mapping[str, int]) -> DataFrame:
    """Rows of `silver/changes` with their `epoch`; rows of older releases get it by their offsets."""
    recorded = F.col("epoch") if "epoch" in outcomes.columns else F.lit(None).cast("int")
    in_epochs = with_epochs(outcomes.withColumn("_recorded", recorded).drop("epoch"), history, newest)
    return in_epochs.withColumn("epoch", F.coalesce("_recorded", "epoch")).drop("_recorded")


def _highest(epochs: Sequence[int], own: Column, sent: Column) -> Column:
    """The highest of the epochs that has begun where a message is, which landed at `own`, sent at `sent`."""

    def has_begun(epoch: Column) -> Column:
        start = F.try_element_at("starts", epoch)
        since = start["since"]
        is_landed = F.coalesce(own >= start["landing"], F.lit(True))
        is_above = (F.col("offset") >= since["offset"]) & (
            F.col("offset") > F.coalesce(since["reached"], F.lit(-1))
        )
        is_of_former = F.coalesce(
            (sent < since["time"]) & (is_above | (sent <= since["earlier"])), F.lit(False)
        )
        return F.coalesce((F.col("offset") >= start["low"]) & is_landed & ~is_of_former, F.lit(True))

    return F.array_max(F.filter(F.array(*map(F.lit, epochs)), has_begun))
