"""Logs of silver that are gone: repairs, encodings and the progress of partitions.

Each is written again: repairs from the copy beside the checkpoints, the others from messages and changes. If
that copy is gone as well, every table is treated as repaired. An older copy of the encodings gets what it
lacks in the same way.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from framework.contracts.ddl_actions import TableName
from framework.contracts.table_names import (
    CHANGES_TABLE,
    ENCODINGS_TABLE,
    MESSAGES_TABLE,
    PARTITIONS_TABLE,
    PENDING_TABLE,
    QUARANTINE_TABLE,
    REPAIRS_TABLE,
)
from framework.contracts.table_schemas import CHANGES, MESSAGE_ID, MESSAGES, QUARANTINE
from framework.lakehouse.commits import OPERATION_SQL, OVERWRITE
from framework.lakehouse.inventory import Inventory
from framework.lakehouse.lakehouse import ALL_COMMITS, Lakehouse
from silver.batches import encodings, partition_progress
from silver.batches.contents import evidence_by_source
from silver.batches.decoding import decode
from silver.batches.landings import identify_all, outcomes_in_epochs
from silver.batches.run_state import RunState
from silver.changes.adjacent_halves import SHARED_POSITIONS
from silver.stream import repair_log
from silver.stream.resume import last_batch_id

TABLES = (REPAIRS_TABLE, ENCODINGS_TABLE, PARTITIONS_TABLE)


def restore_logs(
    spark: SparkSession, state: RunState, noted: Inventory | None, older: Collection[str] = ()
) -> tuple[str, ...]:
    """Write the logs again that are gone, except repairs. Returns a note for people on each.

    Of the `older` ones, which are older copies, only encodings get what they lack here.
    """
    known = TABLES if noted is None else noted.tables
    if not state.lake.exists(spark, CHANGES_TABLE):  # all messages are read again, which writes the logs
        return ()
    is_older = ENCODINGS_TABLE in older
    found = (_encodings(spark, state, known, is_older=is_older), _partitions(spark, state, known))
    return tuple(note for note in found if note is not None)


def restore_repairs(spark: SparkSession, lake: Lakehouse, noted: Inventory | None) -> tuple[str, ...]:
    """Restore the repairs from their copy; or record a repair of every table, if there was one.

    Must come before anything records a repair, which writes the copy anew. Returns a note for people.
    """
    name, known = REPAIRS_TABLE, TABLES if noted is None else noted.tables
    if lake.exists(spark, name):
        return ()
    if repair_log.restore(spark, lake):
        return (f"{name} was gone: it has been written again from its copy",)
    if (
        name not in known
        or not lake.exists(spark, CHANGES_TABLE)
        or (known is TABLES and not _has_replaced(spark, lake))
    ):
        return ()
    changes = (
        lake.read(spark, CHANGES_TABLE).select("source", "database", "schema", "table").distinct().collect()
    )
    for source in sorted({row["source"] for row in changes}):
        tables = {
            TableName(*row[1:]) for row in changes if row["source"] == source and row["table"] is not None
        }
        repair_log.begin(spark, lake, source, sorted(tables, key=repr))
    return (
        f"{name} was gone, and its copy: all that follows from {CHANGES_TABLE} is derived again,"
        " and every table is rebuilt",
    )


def _has_replaced(spark: SparkSession, lake: Lakehouse) -> bool:
    """Whether rows of `silver/changes` were ever replaced, or its log does not tell."""
    commits = lake.history(spark, CHANGES_TABLE, ALL_COMMITS)
    is_replaced = F.expr(OPERATION_SQL).isin("MERGE", OVERWRITE)
    return not commits.where(is_replaced).isEmpty() or commits.where("version = 0").isEmpty()


def _encodings(spark: SparkSession, state: RunState, known: Collection[str], *, is_older: bool) -> str | None:
    """Restore the evidence of encodings and positions, and that quarantined messages wait."""
    name, lake = ENCODINGS_TABLE, state.lake
    with_modes = [source for source, plan in state.plans.items() if plan.format.modes]
    with_halves = [source for source, plan in state.plans.items() if plan.format.halves]
    if not (with_modes or with_halves) or name not in known:
        return None
    if lake.exists(spark, name) and not is_older:
        return None
    last = last_batch_id(spark, state)
    rows = _shown_modes(spark, state, with_modes, last) if with_modes else []
    if with_halves:
        shown = dict.fromkeys(_with_shared_positions(spark, lake, with_halves), (SHARED_POSITIONS,))
        rows += encodings.read_encodings(spark, lake).news(shown, last)
    if rows:
        encodings.append_rows(spark, lake, rows)
        state.encodings = None
    state.append_definitions(spark, last)
    state.forget_shown()  # the table may have some whose messages are gone
    if is_older:
        return f"{name} was an older copy: what {MESSAGES_TABLE} and {CHANGES_TABLE} show has been added"
    if not rows:
        return None
    return f"{name} was gone: it has been written again from what {MESSAGES_TABLE} and {CHANGES_TABLE} show"


def _shown_modes(
    spark: SparkSession, state: RunState, sources: Sequence[str], last: int
) -> list[encodings.EncodingRow]:
    """What the messages of these sources show of their modes, and which sources wait for modes.

    Messages without an outcome show it when they get one: their epoch may not have begun.
    """
    lake, known = state.lake, state.source_epochs(spark)
    messages = lake.rows(spark, MESSAGES_TABLE, MESSAGES).where(F.col("source").isin(*sources))
    outcomes = outcomes_in_epochs(lake.rows(spark, CHANGES_TABLE, CHANGES), known).select(*MESSAGE_ID)
    decided = identify_all(messages, lake, known).join(outcomes.distinct(), list(MESSAGE_ID), "left_semi")
    state.encodings = encodings.Encodings()
    decoded = decode(decided, state)
    shown = decoded.groupBy("source").agg(F.collect_set("evidence").alias("evidence")).collect()
    seen = evidence_by_source(shown)
    rows = encodings.read_encodings(spark, lake).news(seen, last)
    refused = lake.rows(spark, QUARANTINE_TABLE, QUARANTINE).where("NOT is_resolved")
    refused = refused.where(F.col("source").isin(*sources) & F.col("reason").isin(*encodings.WAITING_REASONS))
    rows += [
        encodings.waiting_row_of_unknown_modes(row[0], last)
        for row in refused.select("source").distinct().orderBy("source").collect()
    ]
    state.encodings = None
    return rows


def _with_shared_positions(spark: SparkSession, lake: Lakehouse, sources: Sequence[str]) -> list[str]:
    """The sources of which several updates of a table have one position, by their changes and halves."""
    place = ("source", "database", "schema", "table", "sequence")
    updates = lake.rows(spark, CHANGES_TABLE, CHANGES).where("kind = 'row' AND op = 'update'")
    halves = lake.rows(spark, PENDING_TABLE, CHANGES)
    rows, waiting = (frame.select(*place, "half", "change_id") for frame in (updates, halves))
    rows = rows.unionByName(waiting).where(F.col("source").isin(*sources) & F.col("sequence").isNotNull())
    grouped = rows.groupBy(*place, F.col("half").eqNullSafe(F.lit("before")))
    several = grouped.agg(F.min("change_id").alias("first"), F.max("change_id").alias("last"))
    found = several.where("first <> last").select("source").distinct().collect()
    return [row["source"] for row in found]


def _partitions(spark: SparkSession, state: RunState, known: Collection[str]) -> str | None:
    """Restore the progress of partitions from the changes."""
    name, lake = PARTITIONS_TABLE, state.lake
    if name not in known or lake.exists(spark, name):
        return None
    batch = last_batch_id(spark, state)
    if not partition_progress.restore_progress(lake.rows(spark, CHANGES_TABLE, CHANGES), lake, batch):
        return None
    return f"{name} was gone: it has been derived again from {CHANGES_TABLE}"
