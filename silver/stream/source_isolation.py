"""A source whose messages make a batch fail is passed over, so that the other sources of the batch go on.

Its messages stay in bronze, and every run tries them again before the stream goes on; the rounds of a
continuous run do so after pauses that grow. Nothing is passed over if every source fails: then the cause is
no source, but for example a full disk.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from framework.errors import MainstemError, brief
from framework.lakehouse.staging import discard_staging, staging_folder
from silver.batches.arrival import batch_extent
from silver.batches.changes_table import is_committed
from silver.batches.decided_batch import decide_batch
from silver.batches.landings import identify_all
from silver.batches.process import process_batch
from silver.batches.run_state import RunState
from silver.epochs import history as epochs

_STAGING = "alone"


def process_with_isolation(messages: DataFrame, batch: int, state: RunState) -> list[str]:
    """Commit the outcomes of a batch of the stream. Returns the sources that failed and were left out."""
    try:
        process_batch(messages, batch, state)
    except Exception as error:
        if is_committed(
            messages.sparkSession, state.lake, batch
        ):  # the next run repeats what follows from it
            raise
        failed = _failing(messages, state)
        if not failed:
            raise
        rows = [epochs.failed_row(source, batch, reason) for source, reason in failed.items()]
        state.append_epochs(messages.sparkSession, rows)
        state.high_offsets = None  # the first attempt has changed them
        state.files = None
        try:
            process_batch(messages.where(~F.col("source").isin(*failed)), batch, state)
        except Exception:
            raise error from None
        return sorted(failed)
    return []


def _failing(messages: DataFrame, state: RunState) -> dict[str, str]:
    """The sources whose messages fail alone, and why; empty if all do, or if there is only one."""
    known = messages.where(F.col("source").isin(*state.plans))
    sources = [row[0] for row in known.select("source").distinct().collect()]
    if len(sources) < 2:
        return {}
    found = {
        source: reason
        for source in sources
        if (reason := _failure(known.where(F.col("source") == source), state)) is not None
    }
    return found if len(found) < len(sources) else {}


def _failure(messages: DataFrame, state: RunState) -> str | None:
    """Why the messages of one source cannot be decoded, None if they can; nothing is written."""
    place = staging_folder(state.lake, _STAGING)
    try:
        found = batch_extent(messages, state.config)
        mine = identify_all(messages, state.lake, state.source_epochs(messages.sparkSession))
        rows = decide_batch(place, mine, state, found, batch=0).decided.rows
        rows.write.format("noop").mode("overwrite").save()
    except Exception as error:
        return brief(error)
    finally:
        state.forget_shown()
        discard_staging(state.lake, _STAGING)
    return None


def errors_of(history: epochs.History, state: RunState) -> list[MainstemError]:
    """An error for each configured source whose messages were passed over and still wait."""
    return [
        MainstemError(
            "SOURCE_FAILED",
            found=history.failure(name) or "its messages could not be taken up",
            where=f"source {name}",
            action="report this with the message above; the other sources go on, its messages wait in bronze"
            " and are tried in every run, by `--continuous` at least once an hour",
        )
        for name in history.passed_over(state.config.sources)
    ]
