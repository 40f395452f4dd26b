"""Messages whose values can be read in several ways: they wait in quarantine until the encoding is known."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.contracts import dismissals
from framework.contracts.quarantine_reasons import Reason
from framework.contracts.table_names import MESSAGES_TABLE, QUARANTINE_TABLE
from framework.contracts.table_schemas import MESSAGE_AT, MESSAGES, QUARANTINE
from framework.errors import MainstemError
from framework.pipeline.fault_injection import crash_point
from framework.text.formatting import quantity
from silver.batches.encodings import WAITING_REASONS, append_rows, read_encodings, retried_row
from silver.batches.run_state import RunState
from silver.changes.decode import SourcePlan
from silver.decoding.encoding_modes import kind_of_fault
from silver.stream.resume import process_in_portions, spare_batch_id


def retry_ambiguous(spark: SparkSession, state: RunState) -> tuple[MainstemError, ...]:
    """Decode again what a setting, or later values, have made readable.

    Returns an error for each source that still waits.
    """
    plans = [plan for plan in state.plans.values() if plan.format.modes]
    if not plans:
        return ()
    state.encodings = read_encodings(spark, state.lake)
    for plan in plans:
        if not state.encodings.is_due(plan):
            continue
        batch = spare_batch_id(spark, state)
        waiting = _waiting(spark, state, plan.context.source).select(*MESSAGE_AT).distinct()
        messages = (
            state.lake.read(spark, MESSAGES_TABLE)
            .join(waiting, list(MESSAGE_AT), "left_semi")
            .select(*MESSAGES.names)
        )
        process_in_portions(messages, state, is_replay=True)
        crash_point("silver.before_taken")
        append_rows(spark, state.lake, [retried_row(plan, state.encodings, batch)])
        state.encodings = read_encodings(spark, state.lake)
    return tuple(
        error for plan in plans if state.encodings.waits(plan) and (error := _error(spark, state, plan))
    )


def _waiting(spark: SparkSession, state: RunState, source: str) -> DataFrame:
    rows = state.lake.rows(spark, QUARANTINE_TABLE, QUARANTINE)
    is_waiting = (F.col("source") == source) & F.col("reason").isin(*WAITING_REASONS)
    return rows.where(dismissals.IS_OPEN).where(is_waiting)


def _error(spark: SparkSession, state: RunState, plan: SourcePlan) -> MainstemError | None:
    """The error for what waits of a source.

    None if nothing waits, or if the rest was not written as the setting says.
    """
    states = state.known_encodings(spark).states(plan)
    rows = (
        _waiting(spark, state, plan.context.source)
        .groupBy("reason", "detail")
        .count()
        .orderBy(F.desc("count"), "detail")
        .collect()
    )
    found = [
        row for row in rows if row[0] == Reason.ENCODING_UNKNOWN or not states[kind_of_fault(row[1])].left
    ]
    if not found:
        return None
    reason, detail, _ = found[0]
    others = f" (and {quantity(len(found) - 1, 'more such column')})" if len(found) > 1 else ""
    waiting = quantity(sum(row[2] for row in found), "message waits", "messages wait")
    return MainstemError(
        "ENCODING_UNKNOWN" if reason == Reason.ENCODING_UNKNOWN else "ENCODING_CONTRADICTED",
        found=f"{waiting} in quarantine: {detail}{others}",
        where=f"source {plan.context.source}",
        action="write the setting as the connector has it and run again: the messages are decoded then,"
        " nothing is lost; `mainstem rebuild TABLE --from bronze` corrects tables that were read in another"
        " mode before",
    )
