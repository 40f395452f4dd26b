"""What must hold in silver at any time: every message has its fate, every change is there once and complete."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from framework.checks import Check
from framework.contracts.tables import CHANGES, MESSAGE_AT, QUARANTINE, SCHEMAS
from framework.layer import Run
from silver import derived
from silver.batch import MESSAGES_TABLE
from silver.checkpoint import counted_from
from silver.epochs import read_history
from silver.pairing import MET

_ROW_AT = (*MESSAGE_AT, "ordinal")
_REREAD = "run again; if it stays, keep `silver` aside and read it again from bronze: delete silver/changes and the checkpoint of silver"
_DECIDED = "kind NOT IN ('quarantined', 'half') AND NOT (kind = 'row' AND half IS NOT NULL)"
"""Rows that are a message's last word: not the half that waited, not the after half that was released before its partner came."""


def verify(run: Run) -> Sequence[Check]:
    """The checks of silver; the messages of sources that stand still, or are not configured, may have no fate."""
    if not run.lake.exists(run.spark, derived.CHANGES_TABLE):
        return ()
    changes = run.lake.read(run.spark, derived.CHANGES_TABLE)
    met = changes.where("paired_with IS NOT NULL").select("source", "paired_with.*")
    return (
        *_fates(run, changes, met),
        _once(changes),
        _schemas(run, changes),
        _sequences(changes),
        _pending(run, changes, met),
        _quarantine(run, changes, met),
        _counts(run, changes),
    )


def _fates(run: Run, changes: DataFrame, met: DataFrame) -> Sequence[Check]:
    history = read_history(run.spark, run.lake)
    still = [*history.halts(), *history.left_out(run.config.sources)]
    messages = run.lake.read(run.spark, MESSAGES_TABLE).select(*MESSAGE_AT)
    told = changes.select(*MESSAGE_AT).unionByName(met).distinct()
    waiting = messages.where(~F.col("source").isin(*still)) if still else messages
    without = waiting.join(told, list(MESSAGE_AT), "left_anti").count()
    invented = told.join(messages, list(MESSAGE_AT), "left_anti").count()
    several = changes.where(_DECIDED).groupBy(*_ROW_AT).count().where("count > 1")
    landed = messages.join(several, list(MESSAGE_AT), "left_semi").groupBy(*MESSAGE_AT).agg(F.count("*").alias("landed"))
    twice = several.join(landed, list(MESSAGE_AT), "left").where("count > coalesce(landed, 1)").count()
    at = derived.CHANGES_TABLE
    return (
        Check("every_fate", "every message has a fate", without, MESSAGES_TABLE, "run: messages that have just landed have none yet"),
        Check("no_invention", "every fate is that of a message", invented, at, "bring the messages back: bronze is not to be deleted from"),
        Check("one_fate", "no message has two fates", twice, at, _REREAD),
    )


def _once(changes: DataFrame) -> Check:
    rows = changes.where("kind IN ('row', 'ddl', 'truncate') AND half IS NULL")
    doubled = rows.groupBy("source", "change_id").count().where("count > 1").count()
    return Check("changes_once", "no change is there twice", doubled, derived.CHANGES_TABLE, _REREAD)


def _schemas(run: Run, changes: DataFrame) -> Check:
    known = run.lake.rows(run.spark, derived.SCHEMAS_TABLE, SCHEMAS).select("schema_id")
    missing = changes.where("schema_id IS NOT NULL").select("schema_id").distinct().join(known, "schema_id", "left_anti").count()
    return Check("schemas_known", "every schema that a change names is known", missing, derived.SCHEMAS_TABLE, _REREAD)


def _sequences(changes: DataFrame) -> Check:
    has_effect = F.expr("forall(from_json(actions, 'array<struct<action:string>>'), a -> a.action = 'NoEffect')")
    is_placed = F.col("kind").isin("row", "truncate") | ((F.col("kind") == "ddl") & ~F.coalesce(has_effect, F.lit(False)))
    missing = changes.where(is_placed & F.col("sequence").isNull()).count()
    return Check("sequences", "every change has its place in the order", missing, derived.CHANGES_TABLE, _REREAD)


def _pending(run: Run, changes: DataFrame, met: DataFrame) -> Check:
    is_settled = F.col("kind").isin("row", "quarantined") | ((F.col("kind") == "duplicate") & (F.col("detail") == MET))
    settled = changes.where(is_settled).select(*MESSAGE_AT).unionByName(met)
    halves = changes.where("kind = 'half' AND half IS NOT NULL").select(*MESSAGE_AT)
    implied = halves.join(settled, list(MESSAGE_AT), "left_anti").distinct()
    there = run.lake.rows(run.spark, derived.PENDING_TABLE, CHANGES).select(*MESSAGE_AT)
    action = "run again: what a crash left behind is derived then"
    return Check("pending", "the halves that wait are those that changes imply", _differing(implied, there), derived.PENDING_TABLE, action)


def _quarantine(run: Run, changes: DataFrame, met: DataFrame) -> Check:
    later = changes.where("kind <> 'quarantined'").groupBy(*_ROW_AT).agg(F.max("batch").alias("told_in"))
    refused = changes.where("kind = 'quarantined'").join(met, list(MESSAGE_AT), "left_anti").join(later, list(_ROW_AT), "left")
    implied = refused.where("told_in IS NULL OR told_in < batch").select(*_ROW_AT).distinct()
    there = run.lake.rows(run.spark, derived.QUARANTINE_TABLE, QUARANTINE).where("NOT is_resolved").select(*_ROW_AT)
    action = "run again: what a crash left behind is derived then"
    return Check("quarantine", "the open quarantine is what changes imply", _differing(implied, there), derived.QUARANTINE_TABLE, action)


def _counts(run: Run, changes: DataFrame) -> Check:
    since = F.col("batch") >= counted_from(run.spark, run.lake)
    at = ("batch", "source", "kind")
    counted = run.lake.rows(run.spark, derived.COUNTS_TABLE, derived.COUNTS_SCHEMA).where(since).groupBy(*at).agg(F.sum("rows").alias("n"))
    counted = counted.where("n <> 0")  # corrections may take away all that was counted
    there = changes.groupBy(*at).agg(F.count("*").alias("n"))
    action = "run again: what a crash left behind is derived then"
    return Check("batches", "the counts of each batch are those of its rows", _differing(counted, there), derived.COUNTS_TABLE, action)


def _differing(one: DataFrame, other: DataFrame) -> int:
    other = other.select(*one.columns)
    return one.exceptAll(other).count() + other.exceptAll(one).count()
