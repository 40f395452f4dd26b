"""Late changes and changes of keys: the keys whose rows must be folded again from all their changes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from framework.contracts.events import Op
from framework.lakehouse.table_reader import in_utc
from framework.text.times import micros_of
from gold.changes import key_changes
from gold.changes.effects import effects, key_names
from gold.changes.full_loads import has_no_position
from gold.planning.plan import Plan
from gold.schema.layout import Layout


def is_late(plan: Plan) -> bool:
    """Whether a change of the batch does not come after all applied changes."""
    top, low = plan.task.state.sequence, plan.batch_profile.min_sequence
    return top is not None and low is not None and low <= top


def newest_applied_time(plan: Plan) -> Column | None:
    """The newest event time of all changes and truncates that the table has applied; None without any."""
    times = [plan.task.state.profile.event_time]
    times += [moment for moment, _ in plan.task.truncate_times.values()]
    known = [moment.replace(tzinfo=UTC) for moment in map(in_utc, times) if moment is not None]
    return F.timestamp_micros(F.lit(micros_of(max(known)))) if known else None


def may_change_owners(new: DataFrame, everything: DataFrame, plan: Plan) -> bool:
    """Whether new changes may show that an applied row of a snapshot is of a later owner of its key.

    A row that left this key by a partial key change has values of that snapshot until then. It takes a job
    only in tables with such changes, and one that reads the past only where the times of new changes lie
    before those of applied ones.

    Args:
        new: The new changes, with current column names.
        everything: All changes.
        plan: The plan.
    """
    newest = newest_applied_time(plan)
    if newest is None or not plan.profile.has_partial_key_changes:
        return False
    if new.where(F.col("event_time") < newest).isEmpty():
        return False
    read = everything.where((F.col("op") == str(Op.READ)) & has_no_position(F.col("sequence")))
    oldest = new.agg(F.min("event_time").alias("oldest"))
    return not read.select("event_time").join(oldest, F.col("event_time") > F.col("oldest")).isEmpty()


def late_keys(new: DataFrame, everything: DataFrame, plan: Plan, *, are_owners_new: bool) -> DataFrame | None:
    """The keys that must be folded again from silver: those of late changes, and old keys of key changes.

    What a late change says of a row is also part of the rows that later partial key changes made of it.

    Args:
        new: The new changes, with current column names.
        everything: All changes.
        plan: The plan.
        are_owners_new: What `may_change_owners` says: rows of all key changes are folded again.
    """
    comes_late = is_late(plan)
    if not (comes_late or are_owners_new or plan.batch_profile.has_key_changes):
        return None
    columns, keys = plan.layout.key_columns, key_names(len(plan.layout.keys))
    test = F.col("is_key_change") & ~F.col("is_upsert")
    if comes_late:
        test = test | (F.col("sequence") <= F.lit(plan.task.state.sequence))
    found = effects(new, columns).where(test).select(*keys)
    if are_owners_new or (comes_late and plan.profile.has_partial_key_changes):
        after = "" if are_owners_new else plan.batch_profile.min_sequence or ""
        found = found.union(key_changes.keys_reached(everything, columns, after))
    return found.distinct()


def with_keys(frame: DataFrame, wanted: DataFrame, keys: Sequence[str], without: bool = False) -> DataFrame:
    """The rows that have one of the wanted keys (k0…); with `without`, those that have none of them."""
    renamed = wanted.select(*(F.col(k).alias(f"_{k}") for k in keys))
    same = F.lit(True)
    for key in keys:
        same = same & F.col(key).eqNullSafe(F.col(f"_{key}"))
    return frame.join(renamed, same, "left_anti" if without else "left_semi")


def changes_of_keys(rows: DataFrame, layout: Layout, wanted: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The changes that have an effect on one of the wanted keys (k0…)."""
    ids = with_keys(effects(rows, layout.key_columns), wanted, keys).select("change_id").distinct()
    return rows.join(ids, "change_id", "left_semi")
