"""What a run of silver would do: decode the unread messages and decide their outcomes, without a commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from framework.contracts.table_names import (
    BATCHES_TABLE,
    CHANGES_TABLE,
    MESSAGES_TABLE,
    SCHEMAS_TABLE,
    STATEMENTS_TABLE,
)
from framework.contracts.table_schemas import CHANGES
from framework.lakehouse.parquet_files import read_parquet
from framework.pipeline.layer import Preview, Run
from framework.spark.local_frame import local_frame
from framework.spark.tuning import tune_for_rows
from silver.batches import batch_counts, changes_table
from silver.batches.arrival import BatchExtent, batch_extent, overlaps_in_batch
from silver.batches.changes_table import changes_of
from silver.batches.decided_batch import decide_batch
from silver.batches.landings import find_restarts, identify
from silver.batches.run_state import BATCH_ID_STEP, RunState
from silver.changes.source_plans import source_plans
from silver.epochs.history import advice
from silver.epochs.resets import StopPoint
from silver.formats import FORMATS
from silver.operations.encoded_columns import encoded_columns
from silver.operations.other_readings import notes_for_plan, read_for_plan
from silver.stream.resume import begin_epochs, last_batch_id, without_outcome


def preview(run: Run) -> Preview:
    """The outcomes of the unread messages by kind, why some would be refused, and which sources stop.

    The rows that silver would append go to the next layer. Raises what `begin_epochs` raises, as a run does.
    """
    if not run.lake.exists(run.spark, MESSAGES_TABLE):
        return Preview({"silver": _found(0, (), ())})
    spark = run.spark
    state = RunState(run.lake, run.config, source_plans(run.config, FORMATS), is_plan=True)
    read_for_plan(spark, state)
    begin_epochs(spark, state)
    messages, found = _waiting(run, state)
    if not found.messages:
        return Preview({"silver": _found(0, (), _still_stopped(spark, state))})
    tune_for_rows(spark, found.messages)
    looked_at = overlaps_in_batch(spark, state, found)
    known = identify(messages, state.lake, state.source_epochs(spark), looked_at)
    stops = find_restarts(known, state.lake, state.source_epochs(spark)) if looked_at else []
    found = replace(found, stops=tuple(stops))
    batch = (last_batch_id(spark, state) // BATCH_ID_STEP + 1) * BATCH_ID_STEP
    result = decide_batch(_place(run, "staged"), known, state, found, batch)
    staged, contents = result.staged, result.contents
    rows, stops = result.decided.rows, list(result.decided.stops)
    changes_of(rows.withColumn("batch", F.lit(batch).cast("long"))).write.parquet(_place(run, "changes"))
    changes = read_parquet(spark, CHANGES, _place(run, "changes"))
    counts = batch_counts.count_rows(changes, found.landed_at)
    new_schemas = state.new_schemas(spark, contents.schemas)
    stopped = [*_still_stopped(spark, state), *(_would_stop(stop, state) for stop in stops)]
    notes = encoded_columns(changes, changes_table.schemas_of(staged, contents.schemas, 0), run.config)
    notes = (*notes_for_plan(state), *notes)
    return Preview(
        {"silver": _found(found.messages, counts, stopped) | {"notes": list(notes)}},
        _rows(changes_table.schemas_of(staged, new_schemas, 0), changes, counts, found),
    )


def _waiting(run: Run, state: RunState) -> tuple[DataFrame, BatchExtent]:
    """The messages without an outcome, of configured sources that are not stopped, and their extent."""
    stopped = state.epoch_history(run.spark).stopped_sources()
    moving = [name for name in run.config.sources if name not in stopped]
    messages = run.lake.read(run.spark, MESSAGES_TABLE).where(F.col("source").isin(*moving))
    without_outcome(messages, state).write.parquet(_place(run, "messages"))
    found = read_parquet(run.spark, messages.schema, _place(run, "messages"))
    return found, batch_extent(found, state.config)


def _place(run: Run, name: str) -> str:
    return f"{run.scratch}/silver/{name}"


def _still_stopped(spark: SparkSession, state: RunState) -> list[dict[str, Any]]:
    """The sources that have stopped before, and that a run would leave so."""
    found = state.epoch_history(spark).stopped_sources()
    return [
        _stop(stopped.first, stopped.error().action, is_new=False)
        for name, stopped in sorted(found.items())
        if name in state.config.sources
    ]


def _would_stop(stop: StopPoint, state: RunState) -> dict[str, Any]:
    return _stop(stop, advice(stop, state.config.sources[stop.source].epoch), is_new=True)


def _stop(stop: StopPoint, action: str, *, is_new: bool) -> dict[str, Any]:
    told = {"reason": stop.reason, "detail": stop.detail, "action": action}
    return {"source": stop.source, "is_new": is_new, **told}


def _found(messages: int, counts: Sequence[Row], stopped: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    kinds: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    for row in counts:
        kinds[row["kind"]] += row["rows"]
        if row["kind"] == "quarantined":
            refused[row["reason"]] += row["rows"]
    return {
        "messages": messages,
        "kinds": dict(kinds.most_common()),
        "quarantined": dict(refused),
        "stopped": list(stopped),
    }


def _rows(
    schemas: DataFrame, changes: DataFrame, counts: Sequence[Row], arrived: BatchExtent
) -> Mapping[str, DataFrame]:
    """The rows that the commit and its derivation would append, of the tables that gold reads."""
    spark = changes.sparkSession
    counted = [(*row, arrived.landed_at) for row in counts]
    return {
        CHANGES_TABLE: changes,
        BATCHES_TABLE: local_frame(spark, counted, batch_counts.COUNTS_SCHEMA),
        SCHEMAS_TABLE: schemas,
        STATEMENTS_TABLE: changes_table.statements_of(changes),
    }
