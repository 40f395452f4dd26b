"""A batch whose messages are decoded and whose outcomes are decided, before anything is committed.

Some messages say how others are read: they define tables, or show how values are written. Those at and behind
the place where their source stops belong to another epoch. So a batch with such messages in which a source
stops is decoded once more without what is behind the stops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from silver.batches.arrival import BatchExtent
from silver.batches.contents import Contents
from silver.batches.decisions import Decided, decide_outcomes
from silver.batches.decoding import decode_batch
from silver.batches.encodings import EncodingRow
from silver.batches.partition_progress import order_by_partition
from silver.batches.run_state import RunState
from silver.epochs import resets


@dataclass(frozen=True, slots=True)
class DecidedBatch:
    """The outcomes of a batch.

    Attributes:
        staged: The decoded rows (STAGED).
        contents: What they hold.
        decided: Their outcomes, in the order of their partitions.
        shown: Rows to record in `ops/encodings`.
    """

    staged: DataFrame
    contents: Contents
    decided: Decided
    shown: Sequence[EncodingRow]


def decide_batch(
    place: str, messages: DataFrame, state: RunState, arrived: BatchExtent, batch: int
) -> DecidedBatch:
    """Decode the messages of a batch and decide their outcomes.

    Args:
        place: A folder for the decoded rows, unless they are few.
        messages: The messages, from `identify`.
        state: The state of the run.
        arrived: The extent of the batch.
        batch: The number of the batch.
    """
    staged, contents, shown = decode_batch(place, messages, state, arrived, batch)
    ordered = order_by_partition(staged, state, contents)
    decided = decide_outcomes(ordered, state, arrived, contents)
    if not arrived.is_cut and any(_reads_by_others(stop.source, state) for stop in decided.stops):
        state.forget_shown()
        before = resets.drop_behind_stops(messages, decided.stops)
        cut = replace(arrived, messages=before.count(), size=None, groups=())
        cut = replace(cut, stops=tuple(decided.stops), is_cut=True)
        return decide_batch(place, before, state, cut, batch)
    decided = replace(decided, are_as_decoded=decided.are_as_decoded and ordered is staged)
    return DecidedBatch(staged, contents, decided, shown)


def _reads_by_others(source: str, state: RunState) -> bool:
    """Whether messages of a source say how others of it are read."""
    form = state.plans[source].format
    return form.has_table_definitions or bool(form.modes)
