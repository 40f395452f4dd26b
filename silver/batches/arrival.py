"""A batch before it is decoded: its sources, its number of messages and the offsets of its partitions."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.config.model import Config
from framework.contracts.table_names import CHANGES_TABLE, MESSAGES_TABLE
from framework.contracts.table_schemas import HEADERS
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.small_files import read_note, write_note
from framework.spark.session import is_connect
from silver.batches.landings import (
    OffsetRange,
    Partition,
    has_broker_coordinates,
    offset_ranges,
    overlapping_ranges,
    range_columns,
    repeatable_sources,
)
from silver.batches.run_state import RunState
from silver.epochs.resets import StopPoint

_NOTE = "silver.reached"
_SMALL_FILES = 1024**2
"""Up to this number of bytes, files of bronze may have so few messages that their size matters."""


@dataclass(frozen=True, slots=True)
class BatchExtent:
    """The messages of a batch: how many there are, and when the newest landed.

    `landed_at` is the clock of the batch; it is the same whenever the batch is run. `others` are sources that
    the configuration does not name. `offset_ranges` are the ranges of partitions whose coordinates may
    repeat. `stops` are places where the coordinates show that a topic was created again. `is_last` is false
    where more messages of the same backlog follow in a later batch: until they are read, no half is released.
    `size` is how many bytes they have; None where that was not measured. `files` are the files of bronze of
    which the messages are all rows, as URLs; empty where that is not known.
    """

    messages: int
    landed_at: datetime | None
    others: tuple[str, ...] = ()
    offset_ranges: tuple[OffsetRange, ...] = ()
    stops: tuple[StopPoint, ...] = ()
    is_last: bool = True
    size: int | None = None
    files: tuple[str, ...] = ()


def batch_extent(messages: DataFrame, config: Config, *, are_scanned: bool = False) -> BatchExtent:
    """Measure these messages, in one job, which reads the values of a small batch alone.

    `are_scanned` says that they are all rows of some files.
    """
    is_small = _planned_bytes(messages) <= _SMALL_FILES
    size = F.sum(message_bytes()) if is_small else F.lit(None).cast("bigint")
    counts = [F.count("*").alias("n"), F.max("ingested_at").alias("clock"), size.alias("size")]
    if are_scanned:
        messages = messages.withColumn("_file", F.input_file_name())
        counts.append(F.collect_set("_file").alias("files"))
    has_places = bool(repeatable_sources(config))
    if not has_places:
        rows = messages.groupBy("source").agg(*counts).collect()
    else:
        is_mine = has_broker_coordinates(config)
        place = [F.when(is_mine, F.col(name)).alias(name) for name in ("topic", "partition")]
        rows = messages.groupBy("source", *place).agg(*counts, *range_columns()).collect()
    known = [row for row in rows if row["source"] in config.sources]
    placed = [row for row in known if has_places and row["topic"] is not None]
    found = [OffsetRange(*row[:3], *row[3 + len(counts) :]) for row in placed]
    others = sorted({row["source"] for row in rows} - set(config.sources))
    return BatchExtent(
        sum(row["n"] for row in known),
        max((row["clock"] for row in known), default=None),
        tuple(others),
        tuple(found),
        size=sum(row["size"] or 0 for row in known) if is_small else None,
        files=tuple(sorted({file for row in rows for file in row["files"]})) if are_scanned else (),
    )


def message_bytes() -> Column:
    """How many bytes a message has: key, value and headers."""
    headers = F.aggregate(
        F.coalesce("headers", F.array().cast(HEADERS)),
        F.lit(0),
        lambda size, header: size + F.coalesce(F.length(header["value"]), F.lit(0)),
    )
    return F.coalesce(F.length("key"), F.lit(0)) + F.coalesce(F.length("value"), F.lit(0)) + headers


def _planned_bytes(messages: DataFrame) -> float:
    """How many bytes of files Spark plans to read; infinite where the plan does not say so."""
    if is_connect(messages.sparkSession):
        return math.inf
    plan: Any = messages._jdf
    return float(plan.queryExecution().optimizedPlan().stats().sizeInBytes())


def read_high_offsets(
    spark: SparkSession, lake: Lakehouse, config: Config, newest: int | None
) -> dict[Partition, int]:
    """The highest offset of each partition in the earlier batches.

    The offsets are kept beside the checkpoints. Where that file is missing, or older than the changes, they
    are read from bronze, which includes messages that silver has not read yet. An offset that is too high
    only costs a second check; one that is too low could lose a message.

    Args:
        spark: The session.
        lake: The lakehouse.
        config: The configuration.
        newest: The last of the earlier batches; None if it is unknown.
    """
    if not repeatable_sources(config):
        return {}
    note = json.loads(read_note(spark, f"{lake.checkpoints}/{_NOTE}") or "{}")
    if note and (newest is None or note["batch"] >= newest):
        return {(source, topic, partition): offset for source, topic, partition, offset in note["reached"]}
    if not lake.exists(spark, CHANGES_TABLE):
        return {}
    return highest_offsets(offset_ranges(lake.read(spark, MESSAGES_TABLE), config), {})


def highest_offsets(found: Iterable[OffsetRange], before: Mapping[Partition, int]) -> dict[Partition, int]:
    """The highest offset of each partition, over these ranges and the offsets before them."""
    highest = dict(before)
    for span in found:
        highest[span.place] = max(span.high, highest.get(span.place, -1))
    return highest


def write_high_offsets(
    spark: SparkSession, lake: Lakehouse, batch: int, offsets: Mapping[Partition, int]
) -> None:
    """Save the offsets that a batch reaches. Call it before the commit, so that they are never too low."""
    rows = [[*place, offset] for place, offset in sorted(offsets.items())]
    write_note(spark, f"{lake.checkpoints}/{_NOTE}", json.dumps({"batch": batch, "reached": rows}))


def overlaps_in_batch(spark: SparkSession, state: RunState, found: BatchExtent) -> list[OffsetRange]:
    """The ranges of a batch in which coordinates may repeat earlier ones."""
    if state.high_offsets is None:
        state.high_offsets = read_high_offsets(spark, state.lake, state.config, state.newest)
    looked_at = overlapping_ranges(found.offset_ranges, state.high_offsets)
    state.high_offsets = highest_offsets(found.offset_ranges, state.high_offsets)
    return looked_at
