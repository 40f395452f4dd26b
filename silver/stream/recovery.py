"""What a crash left undone: the derived tables of the last batch, and repairs that were not finished."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from framework.contracts.table_names import BATCHES_TABLE, CHANGES_TABLE, MESSAGES_TABLE
from framework.contracts.table_schemas import CHANGES, MESSAGE_ID
from framework.lakehouse.newest_tables import newest_tables
from framework.lakehouse.table_reader import Query
from silver.batches.landings import identify_all, outcomes_in_epochs
from silver.batches.process import derive
from silver.batches.run_state import RunState
from silver.stream import repair_log
from silver.stream.known_progress import recall
from silver.stream.rederivation import rederive
from silver.stream.resume import last_batch_id

_COUNTED = Query(BATCHES_TABLE, "SELECT count(*) AS `rows` FROM {rows} WHERE `batch` = {batch}")


def finish_interrupted(spark: SparkSession, state: RunState) -> None:
    """Derive what a crash left underived of the last batch or a repair, before other messages are decoded."""
    if not state.lake.exists(spark, CHANGES_TABLE):
        state.newest = -1
        return
    if not recall(spark, state):
        _derive_last(spark, state)
    for source in repair_log.unfinished(spark, state.lake):
        finish_repair(spark, state, source)


def _derive_last(spark: SparkSession, state: RunState) -> None:
    """Derive what follows from the last batch, unless that was done."""
    last = state.newest = last_batch_id(spark, state)
    if last >= 0 and not _is_counted(spark, state, last):
        known = state.source_epochs(spark)
        messages = identify_all(state.lake.read(spark, MESSAGES_TABLE), state.lake, known)
        changes = state.lake.rows(spark, CHANGES_TABLE, CHANGES).where(F.col("batch") == last)
        batch = outcomes_in_epochs(changes, known).select(*MESSAGE_ID)
        landed_at = messages.join(batch, list(MESSAGE_ID), "left_semi").agg(F.max("ingested_at")).first()
        derive(messages, last, state, None if landed_at is None else landed_at[0])
        state.tables = state.has_waiting = None  # they were read before these counts existed


def _is_counted(spark: SparkSession, state: RunState, batch: int) -> bool:
    """Whether the counts of a batch are written, which is the last step of its derivation."""
    counted = newest_tables(spark, state.lake).rows(_COUNTED, batch=batch)
    return any(row["rows"] for row in counted)


def finish_repair(spark: SparkSession, state: RunState, source: str) -> None:
    """Derive what follows from the repaired changes of a source."""
    rederive(spark, state, source)
    state.tables = state.has_waiting = None  # both have changed
    repair_log.end(spark, state.lake, source)
