"""Which messages a few rows of bronze are, found in this process: what `landings.identify_all` gives.

Where coordinates repeat, so that landings must be compared, Spark identifies the messages.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from framework.contracts.epochs import LandedMessage
from framework.contracts.table_names import MESSAGES_TABLE
from framework.contracts.table_schemas import MESSAGE_AT, MESSAGES
from framework.lakehouse.local_tables import in_micros
from framework.lakehouse.recent_rows import few_rows
from silver.batches.arrival import ranges_here
from silver.batches.landings import overlapping_ranges, repeatable_sources
from silver.batches.run_state import RunState
from silver.batches.source_epochs import SourceEpochs
from silver.changes.staged_rows import column_values
from silver.epochs.assignment import epoch_finder, epochs_by_source, sources_with_epochs

_ADDED = {"epoch": T.IntegerType(), "relanding": T.StringType(), "restart": T.IntegerType()}
IDENTIFIED_MESSAGES = T.StructType([*MESSAGES, *(T.StructField(name, kind) for name, kind in _ADDED.items())])
"""The columns of messages that landed once, as they are decoded."""


def identified(rows: pa.RecordBatch, epochs: pa.Array[Any]) -> pa.RecordBatch:
    """Rows of `bronze/messages` with what `identify` adds to those that landed once, here their epochs."""
    added: dict[str, Any] = {
        "epoch": epochs,
        "relanding": pa.nulls(rows.num_rows, pa.string()),
        "restart": pa.nulls(rows.num_rows, pa.int32()),
    }
    columns = [rows.column(name) for name in MESSAGES.names]
    return pa.RecordBatch.from_arrays([*columns, *added.values()], names=[*MESSAGES.names, *added])


def messages_here(
    spark: SparkSession, state: RunState, source: str, places: Collection[tuple[Any, ...]]
) -> pa.RecordBatch | None:
    """The messages of a source at some coordinates (IDENTIFIED_MESSAGES).

    Args:
        spark: The session.
        state: The state of the run.
        source: The source.
        places: The coordinates (MESSAGE_AT).

    Returns:
        The messages; None where Spark must find or identify them, or there are none.
    """
    every = few_rows(state.lake, MESSAGES_TABLE, MESSAGES)
    if every is None:
        return None
    mine = every.filter(pc.field("source") == source)
    wanted = set(places)
    is_wanted = [tuple(place) in wanted for place in column_values(mine, *MESSAGE_AT)]
    rows = mine.filter(pa.array(is_wanted, pa.bool_()))
    repeatable = repeatable_sources(state.config)
    if not rows.num_rows or (repeatable and overlapping_ranges(ranges_here(rows, repeatable), {})):
        return None
    (batch,) = rows.combine_chunks().to_batches()
    return identified(batch, _epochs(batch, state.source_epochs(spark)))


def _epochs(rows: pa.RecordBatch, known: SourceEpochs) -> pa.Array[Any]:
    """The epoch of each message, as `with_epochs` finds it."""
    if not sources_with_epochs(known.history):
        return epochs_by_source(rows.column("source"), known.newest)
    find = epoch_finder(known.history, known.newest)
    times = in_micros(pa.Table.from_batches([rows]), ("ingested_at", "timestamp"))
    found = [
        find(LandedMessage(source, topic, partition, offset, (landed_at, file or "", line or 0), sent))
        for source, topic, partition, offset, landed_at, file, line, sent in column_values(
            times, *MESSAGE_AT, "ingested_at", "file", "line", "timestamp"
        )
    ]
    return pa.array(found, pa.int32())
