"""What must always hold in silver: every message has one outcome, every change is there once, complete."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from framework.contracts.erasure import FORGOTTEN
from framework.contracts.table_names import (
    BATCHES_TABLE,
    CHANGES_TABLE,
    MESSAGES_TABLE,
    PENDING_TABLE,
    QUARANTINE_TABLE,
    SCHEMAS_TABLE,
    STATEMENTS_TABLE,
)
from framework.contracts.table_schemas import CHANGES, MESSAGE_ID, MESSAGES, QUARANTINE, SCHEMAS
from framework.pipeline.checks import Check
from framework.pipeline.layer import Run
from framework.spark.comparison import compare, count_differences
from silver.batches import batch_counts
from silver.batches.landings import (
    LANDING_ID,
    identify_all,
    landings_of,
    outcomes_in_epochs,
    relanding_of_outcome,
    with_landing_id,
)
from silver.batches.landings import before_halves_of as met_halves
from silver.batches.source_epochs import SourceEpochs, read_source_epochs
from silver.changes.staged_rows import OF_FIRST_LANDING, SETTLED_HALF
from silver.stream.checkpoint import counted_from, has_checkpoint
from silver.stream.lost_tables import lost_tables

_ROW_AT = (*MESSAGE_ID, "ordinal")
_NAMED = "run: what can be derived again is, and for the rest the run says what to do"
_REREAD = (
    "run again; if it stays, keep `silver` aside and read it again from bronze:"
    " delete silver/changes and the checkpoint of silver"
)
_RELEASED = f"(kind = 'row' OR kind = 'excluded' AND reason <=> '{FORGOTTEN}') AND half IS NOT NULL"
_DECIDED = f"kind NOT IN ('quarantined', 'half') AND NOT ({_RELEASED})"
"""Final outcomes of a message: not a half that waited, nor an AFTER half released without its partner.

A released half stays beside the whole update that completed it, also where `forget` has removed the row.
"""


def verify(run: Run) -> Sequence[Check]:
    """The checks of silver; messages of stopped or left-out sources may have no outcome."""
    known = read_source_epochs(run.spark, run.lake, run.config)
    changes = outcomes_in_epochs(run.lake.rows(run.spark, CHANGES_TABLE, CHANGES), known)
    met = met_halves(changes)
    return (
        *_there(run),
        *_outcomes(run, changes, known),
        _once(changes),
        _schemas(run, changes),
        _sequences(changes),
        _pending(run, changes, met, known),
        _quarantine(run, changes, met, known),
        _counts(run, changes),
        _statements(run, changes),
    )


def _there(run: Run) -> Sequence[Check]:
    """Whether the tables and the checkpoint that the last run left are still there."""
    lost = lost_tables(run.spark, run.lake)
    at = ", ".join(sorted(lost)) or "silver"
    has_read = run.lake.exists(run.spark, CHANGES_TABLE)
    missing = int(has_read and not has_checkpoint(run.spark, run.lake))
    where = f"{run.lake.checkpoints}/silver"
    return (
        Check("tables_there", "the tables that runs have left are there", len(lost), at, _NAMED),
        Check("checkpoint", "the stream over bronze has its checkpoint", missing, where, _NAMED),
    )


def _outcomes(run: Run, changes: DataFrame, known: SourceEpochs) -> Sequence[Check]:
    still = [*known.history.stopped_sources(), *known.history.left_out(run.config.sources)]
    bronze = identify_all(run.lake.rows(run.spark, MESSAGES_TABLE, MESSAGES), run.lake, known)
    messages = with_landing_id(bronze).select(*LANDING_ID)
    outcomes = landings_of(changes)
    without, invented = _one_sided(
        compare(messages, outcomes),
        ~F.col("source").isin(*still) if still else F.lit(True),
        F.col("source").isin(*run.config.sources),
    )
    decided = changes.where(_DECIDED).withColumn("relanding", relanding_of_outcome())
    twice = decided.groupBy(*_ROW_AT, "relanding").count().where("count > 1").count()
    at = CHANGES_TABLE
    return (
        Check(
            "every_fate",
            "every message has an outcome",
            without,
            MESSAGES_TABLE,
            "run: messages that have just landed have none yet",
        ),
        Check(
            "no_invention",
            "every outcome is that of a message",
            invented,
            at,
            "bring the messages back: bronze is not to be deleted from",
        ),
        Check("one_fate", "no message has two outcomes", twice, at, _REREAD),
    )


def _one_sided(both: DataFrame, must_have: Column, may_have: Column) -> tuple[int, int]:
    """The number of expected rows that were not found, and of found rows that were not expected."""
    missing = F.sum(F.when((F.col("found") == 0) & must_have, F.col("expected")))
    surplus = F.sum(F.when((F.col("expected") == 0) & may_have, F.col("found")))
    row = both.agg(missing, surplus).first()
    return (int(row[0] or 0), int(row[1] or 0)) if row else (0, 0)


def _once(changes: DataFrame) -> Check:
    rows = changes.where("kind IN ('row', 'ddl', 'truncate') AND half IS NULL")
    doubled = rows.groupBy("source", "change_id").count().where("count > 1").count()
    return Check("changes_once", "no change is there twice", doubled, CHANGES_TABLE, _REREAD)


def _schemas(run: Run, changes: DataFrame) -> Check:
    known = run.lake.rows(run.spark, SCHEMAS_TABLE, SCHEMAS).select("schema_id")
    missing = (
        changes.where("schema_id IS NOT NULL")
        .select("schema_id")
        .distinct()
        .join(known, "schema_id", "left_anti")
        .count()
    )
    return Check(
        "schemas_known", "every schema that a change names is known", missing, SCHEMAS_TABLE, _REREAD
    )


def _sequences(changes: DataFrame) -> Check:
    has_effect = F.expr(
        "forall(from_json(actions, 'array<struct<action:string>>'),"
        " a -> a.action IN ('NoEffect', 'SetComment'))"
    )
    is_placed = F.col("kind").isin("row", "truncate") | (
        (F.col("kind") == "ddl") & ~F.coalesce(has_effect, F.lit(False))
    )
    missing = changes.where(is_placed & F.col("sequence").isNull()).count()
    return Check("sequences", "every change has its place in the order", missing, CHANGES_TABLE, _REREAD)


def _pending(run: Run, changes: DataFrame, met: DataFrame, known: SourceEpochs) -> Check:
    settled = changes.where(SETTLED_HALF).select(*MESSAGE_ID).unionByName(met)
    halves = changes.where("kind = 'half' AND half IS NOT NULL")
    implied = _read(halves.join(settled, list(MESSAGE_ID), "left_anti")).distinct()
    pending = run.lake.rows(run.spark, PENDING_TABLE, CHANGES)
    there = _read(outcomes_in_epochs(pending, known))
    wrong = compare(implied, there).where("expected <> found").select(*MESSAGE_ID).distinct().count()
    action = "run again: what a crash left behind is derived then; if it stays, rebuild the table from bronze"
    return Check(
        "pending",
        "the halves that wait are those that changes imply",
        wrong,
        PENDING_TABLE,
        action,
    )


def _read(halves: DataFrame) -> DataFrame:
    """The messages of halves, and what was read from them, in columns that can be compared."""
    images = [F.array_sort(F.map_entries(name)).alias(name) for name in ("before", "after")]
    return halves.select(*MESSAGE_ID, "change_id", "op", "sequence", "schema_id", "keys", *images)


def _quarantine(run: Run, changes: DataFrame, met: DataFrame, known: SourceEpochs) -> Check:
    later = (
        changes.where("kind <> 'quarantined'")
        .where(OF_FIRST_LANDING)
        .groupBy(*_ROW_AT)
        .agg(F.max("batch").alias("decided_in"))
    )
    refused = (
        changes.where("kind = 'quarantined'")
        .join(met, list(MESSAGE_ID), "left_anti")
        .join(later, list(_ROW_AT), "left")
    )
    implied = refused.where("decided_in IS NULL OR decided_in < batch").select(*_ROW_AT).distinct()
    open_rows = run.lake.rows(run.spark, QUARANTINE_TABLE, QUARANTINE).where("NOT is_resolved")
    there = outcomes_in_epochs(open_rows, known).select(*_ROW_AT)
    action = "run again: what a crash left behind is derived then"
    return Check(
        "quarantine",
        "the open quarantine is what changes imply",
        count_differences(implied, there),
        QUARANTINE_TABLE,
        action,
    )


def _statements(run: Run, changes: DataFrame) -> Check:
    """Whether all statements are there.

    Changes that were lost and read again leave old rows beside the new ones.
    """
    implied = changes.where("kind IN ('ddl', 'truncate')").select("source", "change_id").distinct()
    there = run.lake.rows(run.spark, STATEMENTS_TABLE, CHANGES).select("source", "change_id")
    missing = implied.join(there, ["source", "change_id"], "left_anti").count()
    return Check("statements", "the statements are those of the changes", missing, STATEMENTS_TABLE, _NAMED)


def _counts(run: Run, changes: DataFrame) -> Check:
    since = F.col("batch") >= counted_from(run.spark, run.lake)
    at = ("batch", "source", "kind")
    counted = (
        run.lake.rows(run.spark, BATCHES_TABLE, batch_counts.COUNTS_SCHEMA)
        .where(since)
        .groupBy(*at)
        .agg(F.sum("rows").alias("n"))
    )
    counted = counted.where("n <> 0")  # corrections may subtract all that was counted
    there = changes.groupBy(*at).agg(F.count("*").alias("n"))
    action = "run again: what a crash left behind is derived then"
    return Check(
        "batches",
        "the counts of each batch are those of its rows",
        count_differences(counted, there),
        BATCHES_TABLE,
        action,
    )
