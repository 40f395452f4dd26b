"""A batch before it is decoded: its sources, its number of messages and the offsets of its partitions."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyarrow import compute
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from framework.config.model import Config
from framework.contracts.seed import TOPIC
from framework.contracts.table_names import CHANGES_TABLE, MESSAGES_TABLE
from framework.contracts.table_schemas import HEADERS, MESSAGES
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.local_tables import in_micros
from framework.lakehouse.row_groups import RowGroup, read_row_groups, row_groups
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

pc: Any = compute  # its types lack some functions

_NOTE = "silver.reached"
_SMALL_FILES, _SMALL_BATCH = 1024**2, 16 * 1024**2
"""Files of bronze of up to so many bytes, as they are and uncompressed, may have so few messages that their
size matters."""
_MOST_ROWS = 5_000_000
"""Of more messages this process would read the places longer than Spark's tasks."""
_AT_ONCE, _FEW_AT_ONCE = 65_536, 256
_LANDING = ("topic", "partition", "offset", "file", "line")


@dataclass(frozen=True, slots=True)
class BatchExtent:
    """The messages of a batch: how many there are, and when the newest landed.

    `landed_at` is the clock of the batch; it is the same whenever the batch is run. `others` are sources that
    the configuration does not name. `offset_ranges` are the ranges of partitions whose coordinates may
    repeat. `stops` are places where the coordinates show that a topic was created again; or all places where
    sources stop, if the messages behind them are left out (`is_cut`). `is_last` is false where more messages
    of the same backlog follow in a later batch: until they are read, no half is released. `size` is how many
    bytes they have; None where that was not measured. `groups` are the row groups of bronze of which the
    messages are all rows; none where that is not known. `is_replay` says that they are decoded again because
    they were quarantined, so that messages of other batches are around them. `here` are the messages
    (IDENTIFIED_MESSAGES), if they are few and this process has them.
    """

    messages: int
    landed_at: datetime | None
    others: tuple[str, ...] = ()
    offset_ranges: tuple[OffsetRange, ...] = ()
    stops: tuple[StopPoint, ...] = ()
    is_last: bool = True
    size: int | None = None
    groups: tuple[RowGroup, ...] = ()
    is_replay: bool = False
    is_cut: bool = False
    here: pa.RecordBatch | None = field(default=None, compare=False, repr=False)


def batch_extent(messages: DataFrame, config: Config, files: Sequence[str] | None = None) -> BatchExtent:
    """Measure these messages: in this process from their files, or else in one job.

    The job reads the values of a small batch alone.

    Args:
        messages: Rows of `bronze/messages`.
        config: The configuration.
        files: The files of this machine of which they are all rows, as URLs; None where that is not known.
    """
    groups = None if files is None else row_groups(files, MESSAGES.names)
    if groups is not None and (measured := _extent_of(groups, config)) is not None:
        return measured
    is_small = _planned_bytes(messages) <= _SMALL_FILES
    size = F.sum(message_bytes()) if is_small else F.lit(None).cast("bigint")
    counts = [F.count("*").alias("n"), F.max("ingested_at").alias("clock"), size.alias("size")]
    has_places = bool(repeatable_sources(config))
    if not has_places:
        rows = messages.groupBy("source").agg(*counts).collect()
    else:
        is_mine = has_broker_coordinates(config)
        place = [F.when(is_mine, F.col(name)).alias(name) for name in ("topic", "partition")]
        rows = messages.groupBy("source", *place).agg(*counts, *range_columns()).collect()
    known = [row for row in rows if row["source"] in config.sources]
    placed = [row for row in known if has_places and None not in (row["topic"], row["partition"], row["low"])]
    return BatchExtent(
        sum(row["n"] for row in known),
        max((row["clock"] for row in known), default=None),
        tuple(sorted({row["source"] for row in rows} - set(config.sources))),
        tuple(OffsetRange(*row[:3], *row[3 + len(counts) :]) for row in placed),
        size=sum(row["size"] or 0 for row in known) if is_small else None,
        groups=tuple(groups or ()),
    )


def _extent_of(groups: Sequence[RowGroup], config: Config) -> BatchExtent | None:
    """The extent of all rows of row groups; None where this process cannot read them, or not so many."""
    if sum(group.rows for group in groups) > _MOST_ROWS:
        return None
    if not groups:
        return BatchExtent(0, None)
    repeatable = repeatable_sources(config)
    names = ("source", "ingested_at", *(_LANDING if repeatable else ()))
    try:
        rows = in_micros(pa.Table.from_batches(read_row_groups(groups, names, _AT_ONCE)), ["ingested_at"])
        size = _bytes_of(groups) if sum(group.size for group in groups) <= _SMALL_BATCH else None
    except (OSError, pa.ArrowException):
        return None
    others = set(pc.unique(rows["source"]).to_pylist()) - set(config.sources)
    if others:
        rows = rows.filter(pc.is_in(rows["source"], pa.array(config.sources, pa.string())))
    newest = pc.max(rows["ingested_at"]).as_py()
    return BatchExtent(
        rows.num_rows,
        None if newest is None else TimestampType().fromInternal(newest),
        tuple(sorted(others)),
        ranges_here(rows, repeatable) if repeatable else (),
        size=None if others else size,
        groups=tuple(groups),
    )


def _bytes_of(groups: Sequence[RowGroup]) -> int:
    """How many bytes the messages of row groups have, as `message_bytes` counts them."""
    return sum(map(bytes_here, read_row_groups(groups, ("key", "value", "headers"), _FEW_AT_ONCE)))


def bytes_here(messages: pa.RecordBatch) -> int:
    """How many bytes these messages have, as `message_bytes` counts them."""
    headers = pc.struct_field(pc.list_flatten(messages.column("headers")), "value")
    columns = (messages.column("key"), messages.column("value"), headers)
    return sum(pc.sum(pc.binary_length(column)).as_py() or 0 for column in columns)


def ranges_here(messages: pa.Table, sources: Sequence[str]) -> tuple[OffsetRange, ...]:
    """The offset ranges of messages of these sources, as `offset_ranges` has them."""
    is_mine = pc.and_(
        pc.is_in(messages["source"], pa.array(sources, pa.string())),
        pc.invert(pc.starts_with(messages["topic"], TOPIC)),
    )
    is_placed = pc.and_(pc.is_valid(messages["partition"]), pc.is_valid(messages["offset"]))
    rows = messages.filter(pc.and_(is_mine, is_placed))
    for name, blank in (("file", ""), ("line", 0)):
        rows = rows.set_column(rows.schema.get_field_index(name), name, pc.fill_null(rows[name], blank))
    by_landing = rows.sort_by([(name, "ascending") for name in ("ingested_at", "file", "line", "offset")])
    of_offset: Any = [("offset", what) for what in ("min", "max", "first", "last", "count_distinct")]
    found = by_landing.group_by(["source", "topic", "partition"], use_threads=False).aggregate(
        [*of_offset, ([], "count_all")]
    )
    return tuple(map(_range, found.to_pylist()))


def _range(found: Mapping[str, Any]) -> OffsetRange:
    low, high = found["offset_min"], found["offset_max"]
    is_rising = (found["offset_first"], found["offset_last"]) == (low, high)
    is_plain = is_rising and found["offset_count_distinct"] == found["count_all"]
    return OffsetRange(found["source"], found["topic"], found["partition"], low, high, is_plain)


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
    reached = reached_offsets(spark, state)
    state.high_offsets = highest_offsets(found.offset_ranges, reached)
    return overlapping_ranges(found.offset_ranges, reached)


def reached_offsets(spark: SparkSession, state: RunState) -> Mapping[Partition, int]:
    """The highest offset of each partition in the batches before the one at work, read once a run."""
    if state.high_offsets is None:
        state.high_offsets = read_high_offsets(spark, state.lake, state.config, state.newest)
    return state.high_offsets
