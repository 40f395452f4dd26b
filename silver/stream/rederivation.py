"""The tables that follow from the changes of a source, corrected: quarantine, pending, counts and more.

If committed changes were replaced, what was derived from them no longer fits. Each function compares it with
all changes of the source and writes only the difference, so a repeat changes nothing. Few changes are
compared in this process first (`derived_here`), because most tables agree with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.contracts.table_names import (
    BATCHES_TABLE,
    CHANGES_TABLE,
    MESSAGES_TABLE,
    PENDING_TABLE,
    QUARANTINE_TABLE,
    STATEMENTS_TABLE,
)
from framework.contracts.table_schemas import CHANGES, MESSAGE_AT, MESSAGE_ID, QUARANTINE
from framework.lakehouse.lakehouse import save
from framework.lakehouse.merge import Merge
from framework.lakehouse.session_size import tune_for_lakehouse
from framework.lakehouse.staging import materialize
from framework.naming import text_literal
from framework.pipeline.fault_injection import crash_point
from silver.batches import batch_counts, changes_table, landings, pending, quarantine
from silver.batches.landings import HOLDS_COORDINATES, identify_all, outcomes_in_epochs
from silver.batches.partition_progress import complete_progress
from silver.batches.run_state import RunState
from silver.changes.staged_rows import OF_FIRST_LANDING, SETTLED_HALF
from silver.stream.checkpoint import counted_from
from silver.stream.derived_here import tables_that_agree

_ROW_AT = (*MESSAGE_ID, "ordinal")
_SINCE = ("event_time", "detail")
"""From when a half waits: earlier releases have let halves wait from times that are impossible."""
_WAITS_LATER = "(t.event_time > s.event_time AND s.detail IS NOT NULL)"
_IMAGES = ("before", "after")
_IS_READ_ANEW = " OR ".join(
    (
        f"NOT (array_sort(map_entries(t.`{name}`)) <=> array_sort(map_entries(s.`{name}`)))"
        if name in _IMAGES
        else f"NOT (t.`{name}` <=> s.`{name}`)"
    )
    for name in pending.READ_AGAIN
)
"""Whether a half that waits was decoded again since, with another outcome."""
_DIFFERS = " OR ".join(f"`{name}` <> 0" for name in batch_counts.SUMS)


def rederive(spark: SparkSession, state: RunState, source: str) -> None:
    """Correct everything that is derived from the changes of a source."""
    tune_for_lakehouse(spark, state.lake)
    changes = state.lake.rows(spark, CHANGES_TABLE, CHANGES).where(F.col("source") == source)
    changes = outcomes_in_epochs(changes, state.source_epochs(spark))
    met = landings.before_halves_of(changes).select(*MESSAGE_ID)
    agree = tables_that_agree(spark, state, source)
    if QUARANTINE_TABLE not in agree:
        _quarantine(spark, state, source, changes, met)
    if PENDING_TABLE not in agree:
        _pending(spark, state, source, changes, met)
    crash_point("silver.between_derived_again")
    if STATEMENTS_TABLE not in agree:
        _statements(spark, state, source, changes)
    if source in state.plans and state.plans[source].by_partition:
        complete_progress(changes, state.lake)
        state.partitions.clear()
    if BATCHES_TABLE not in agree:
        _counts(spark, state, source, changes)


def _quarantine(
    spark: SparkSession, state: RunState, source: str, changes: DataFrame, met: DataFrame
) -> None:
    """Open what the changes say is refused, with its bytes, and resolve the rest."""
    lake, at = state.lake, list(_ROW_AT)
    later = (
        changes.where("kind <> 'quarantined'")
        .where(OF_FIRST_LANDING)
        .groupBy(*at)
        .agg(F.max("batch").alias("decided_in"))
    )
    refused = (
        changes.where("kind = 'quarantined'").join(met, list(MESSAGE_ID), "left_anti").join(later, at, "left")
    )
    last = F.max_by(F.struct("format", "reason", "detail", "batch"), "batch").alias("last")
    implied = (
        refused.where("decided_in IS NULL OR decided_in < batch").groupBy(*at).agg(last).select(*at, "last.*")
    )
    messages = lake.read(spark, MESSAGES_TABLE).where(F.col("source") == source)
    near = messages.join(implied.select(*MESSAGE_AT).distinct(), list(MESSAGE_AT), "left_semi")
    known = identify_all(near, lake, state.source_epochs(spark)).where(HOLDS_COORDINATES)
    raw = known.select(*MESSAGE_ID, "key", "value", F.col("ingested_at").alias("seen")).dropDuplicates(
        list(MESSAGE_ID)
    )
    stamps = {"first_seen_at": F.col("seen"), "last_seen_at": F.col("seen"), "is_resolved": F.lit(False)}
    rows = implied.join(raw, list(MESSAGE_ID), "left").withColumns(stamps)
    rows = rows.select("*", *quarantine.not_dismissed()).select(*QUARANTINE.names)
    is_row = f"{landings.SAME_MESSAGE} AND t.ordinal <=> s.ordinal"
    is_open = f"t.source = {text_literal(source)} AND NOT t.is_resolved"
    resolved = {"is_resolved": "true", "last_seen_at": "current_timestamp()"}
    with materialize(rows, lake, "quarantine_again") as found:  # a merge reads its source twice
        merge = Merge(lake.location(QUARANTINE_TABLE), found, is_row)
        merge = merge.update(quarantine.REOPENED, "t.is_resolved").insert_all()
        merge.update_unmatched(resolved, is_open).execute()


def _pending(spark: SparkSession, state: RunState, source: str, changes: DataFrame, met: DataFrame) -> None:
    settled = changes.where(SETTLED_HALF).select(*MESSAGE_ID).unionByName(met)
    times = {name: shown.event_time for name, shown in state.source_progress(spark).items()}
    clocks = _clocks(state.lake.rows(spark, BATCHES_TABLE, batch_counts.COUNTS_SCHEMA), source)
    timed = changes.join(F.broadcast(clocks), "batch", "left")
    rows = (
        pending.pending_rows(timed, F.col("clock"), times)
        .join(settled, list(MESSAGE_ID), "left_anti")
        .dropDuplicates(list(MESSAGE_ID))
    )
    with materialize(rows.select(*CHANGES.names), state.lake, "pending_again") as found:
        merge = Merge(state.lake.location(PENDING_TABLE), found, landings.SAME_MESSAGE)
        merge = merge.update(_waiting_values(), f"{_WAITS_LATER} OR {_IS_READ_ANEW}")
        merge = merge.insert(pending.WAITING_VALUES)
        merge.delete_unmatched(f"t.source = {text_literal(source)}").execute()


def _waiting_values() -> dict[str, str]:
    """The cells of a half that waits already: its new reading, from when it has waited."""
    since = {name: f"CASE WHEN {_WAITS_LATER} THEN s.{name} ELSE t.{name} END" for name in _SINCE}
    return {f"`{name}`": f"s.`{name}`" for name in pending.READ_AGAIN} | since


def _clocks(log: DataFrame, source: str) -> DataFrame:
    """When the newest message of each batch landed (`batch`, `clock`), from rows of `ops/batches`."""
    mine = log.where(F.col("source") == source)
    return mine.groupBy("batch").agg(F.max("max_ingested_at").alias("clock"))


def _statements(spark: SparkSession, state: RunState, source: str, changes: DataFrame) -> None:
    rows = changes_table.statements_of(changes)
    if not state.lake.exists(spark, STATEMENTS_TABLE) and rows.isEmpty():
        return
    place, options = (
        state.lake.location(STATEMENTS_TABLE),
        {"replaceWhere": f"source = {text_literal(source)}", "mergeSchema": "true"},
    )
    if state.lake.exists(spark, STATEMENTS_TABLE):
        save(rows.coalesce(1).write.format("delta").mode("overwrite").options(**options), place)
    else:
        changes_table.append_statements(state.lake, changes, None)


def _counts(spark: SparkSession, state: RunState, source: str, changes: DataFrame) -> None:
    """Correct the counts: a batch's count is the sum over its rows, and its ends are the outermost of them.

    What is missing is added, and what is superfluous subtracted. Ends that are not those of the changes are
    replaced: messages that are decoded again may have other positions and times.
    """
    lake = state.lake
    log = lake.rows(spark, BATCHES_TABLE, batch_counts.COUNTS_SCHEMA).where(F.col("source") == source)
    clocks = _clocks(log, source)
    timed = changes.join(F.broadcast(clocks), "batch", "left")
    held = timed.groupBy(*batch_counts.COUNTED_BY).agg(*batch_counts.counting(F.col("clock")))
    # tables of earlier releases lack some columns
    ends = [name for name in batch_counts.ENDS if name in log.columns]
    live = log.where(F.col("batch") >= counted_from(spark, lake))
    wrong = _wrong_counts(held, live, ends)
    if wrong.isEmpty():
        return
    with materialize(wrong.join(F.broadcast(clocks), "batch", "left"), lake, "counts_again") as found:
        moved = found.where("is_moved")
        if not moved.isEmpty():
            is_group = " AND ".join(f"t.`{name}` <=> s.`{name}`" for name in batch_counts.COUNTED_BY)
            cells = {name: f"s.{name}" for name in (*ends, "server") if name in log.columns}
            Merge(lake.location(BATCHES_TABLE), moved, is_group).update(cells).execute()
            state.tables = None
            state.tops.clear()
        rows = found.where(_DIFFERS).select(
            *(F.col(f"`{name}`") for name in batch_counts.COUNTED), F.col("clock").alias("max_ingested_at")
        )
        if not rows.isEmpty():
            lake.append(rows.coalesce(1), BATCHES_TABLE, None, {"mergeSchema": "true"})


def _wrong_counts(held: DataFrame, live: DataFrame, ends: Sequence[str]) -> DataFrame:
    """What the rows `live` of `ops/batches` lack of the counts of the changes (`held`), by batch and table.

    `is_moved` says that they have other `ends`; the server counts along where these differ.
    """
    by = list(batch_counts.COUNTED_BY)
    less = [(-F.col(n) if n in live.columns else F.lit(0)).cast("long").alias(n) for n in batch_counts.SUMS]
    logged = [F.col(name).alias(f"logged_{name}") for name in ends]
    counted = live.select(*by, *less, *logged, F.lit(True).alias("is_logged"))
    others = [name for name in batch_counts.COUNTED if name not in (*by, *batch_counts.SUMS)]
    both = (
        held.unionByName(counted, allowMissingColumns=True)
        .groupBy(*by)
        .agg(
            *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in batch_counts.SUMS),
            *(F.max(name).alias(name) for name in others),
            *(
                (F.min if name.startswith("min_") else F.max)(f"logged_{name}").alias(f"logged_{name}")
                for name in ends
            ),
            F.coalesce(F.max("is_logged"), F.lit(False)).alias("is_logged"),
        )
    )
    differs = reduce(or_, (~F.col(name).eqNullSafe(F.col(f"logged_{name}")) for name in ends), F.lit(False))
    return both.withColumn("is_moved", F.col("is_logged") & differs).where(f"is_moved OR {_DIFFERS}")
