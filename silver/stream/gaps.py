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


def may_have_outcomes(messages: DataFrame, until: float | None, now: int) -> bool:
    """Whether some of the messages may have been decoded before; `until` is from `decoded_outside`.

    A message whose landing is later than `now`, in microseconds, landed before the clock was set back.
    """
    if until is None:
        return False
    landed = F.coalesce(F.unix_micros("ingested_at"), F.lit(0))
    row = messages.agg(F.min(landed), F.max(landed)).first()
    first, last = (0, 0) if row is None or row[0] is None else row
    return first <= until or last > now


@contextmanager
def only_without_outcome(messages: DataFrame, fresh: DataFrame, state: RunState) -> Iterator[DataFrame]:
    """The fresh messages that have no outcome yet; `messages` are all of the batch."""
    state.raw = messages
    with materialize(without_outcome(fresh, state), state.lake, "unread") as found:
        yield found
