"""Messages that were decoded before the stream comes to them: it leaves out those that have an outcome."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from framework.lakehouse.staging import materialize
from silver.batches.run_state import RunState
from silver.epochs.history import History
from silver.stream.checkpoint import Checkpoint
from silver.stream.resume import without_outcome

CLOCKS = timedelta(days=1)
"""The clocks of the machines that run bronze and silver differ by no more than this."""


def decoded_outside(checkpoint: Checkpoint, history: History) -> float | None:
    """Until when messages landed that may have been decoded before the stream comes to them.

    In microseconds; None where there are none. Messages were decoded outside of it when a source went on that
    had stopped, or that the configuration had not named; and before the checkpoint began.
    """
    moments = [
        *([checkpoint.began] if checkpoint.is_reset else ()),
        *([history.recorded_at] if history.has_gaps else ()),
    ]
    known = [moment for moment in moments if moment is not None]
    if len(known) < len(moments):
        return math.inf
    return max(known) + CLOCKS / timedelta(microseconds=1) if known else None


def landed_since(messages: DataFrame) -> int:
    """When the first of the messages landed, in microseconds; 0 where one does not tell."""
    first = messages.agg(F.min(F.coalesce(F.unix_micros("ingested_at"), F.lit(0)))).first()
    return 0 if first is None or first[0] is None else int(first[0])


@contextmanager
def only_without_outcome(messages: DataFrame, fresh: DataFrame, state: RunState) -> Iterator[DataFrame]:
    """The fresh messages that have no outcome yet; `messages` are all of the batch."""
    state.raw = messages
    with materialize(without_outcome(fresh, state), state.lake, "unread") as found:
        yield found
