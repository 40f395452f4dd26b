"""The replica of a table and its history: rewritten from all changes, or merged with the new ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.lakehouse.commits import rows_written
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.merge import Merged
from framework.lakehouse.older_copies import Mark
from framework.pipeline.fault_injection import crash_point
from framework.spark.tuning import tune_for_rows
from gold.changes.effects import effects, key_names
from gold.changes.few_changes import FewChange, TableChanges
from gold.planning.gates import refuse_failing_rows
from gold.planning.plan import Plan, policy_of
from gold.planning.table_state import Collisions
from gold.planning.task import folder_of
from gold.writing import append, history, merge, replica, stored_columns, table_changes
from gold.writing.certain_inserts import certainly_meet_none
from gold.writing.certain_rows import certain_rows
from gold.writing.collisions import count_collisions
from gold.writing.key_bounds import key_bounds
from gold.writing.late_changes import changes_of_keys, is_late, late_keys, with_keys
from gold.writing.merge_rows import (
    Bounds,
    Look,
    computed_once,
    merge_many,
    refuse_states,
    rows_to_merge,
    tests_states,
)
from gold.writing.new_versions import can_continue, merge_new_versions
from gold.writing.table_changes import ChangeFrames

FEW_CHANGES = 100_000
"""The keys of this many changes fit into memory: finding them in a large table needs no sort."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where the replica is, and the history where the table has one.

    Attributes:
        replica: The replica.
        history: The history; None where the table has none.
        begins_marks: From now on merges mark rows that are gone instead of writing their files again.
        marks: Their newest commits, once they are written.
    """

    replica: str
    history: str | None
    begins_marks: bool = False
    marks: tuple[Mark, ...] = ()


def target_of(lake: Lakehouse, plan: Plan) -> Target:
    """Where a table is to be."""
    task, replica = plan.task, lake.location("gold/" + folder_of(plan.task))
    has_history = task.settings.history and plan.layout.keys
    history = lake.location("gold/" + folder_of(task, is_history=True)) if has_history else None
    return Target(replica, history)


def written_after(plan: Plan) -> int:
    """The batch after which the changes begin that the table gets: -1 where it is rebuilt from all."""
    return -1 if plan.rebuild is not None else plan.task.state.batch


def rewrite(
    spark: SparkSession,
    changes: Callable[[], DataFrame],
    plan: Plan,
    target: Target,
    *,
    few: Sequence[FewChange] | None,
) -> tuple[Collisions, bool]:
    """Writes the whole table.

    Args:
        spark: The session.
        changes: Makes all changes, with current column names.
        plan: The plan.
        target: Where the replica and the history are.
        few: The same changes, as they came; None where they are not in this process.

    Returns:
        How many added rows met an existing one, and whether every change surely fits its columns.
    """
    layout = plan.layout
    if not layout.keys:
        _refuse_failing_changes(changes, plan)
        append.rewrite(changes(), _truncates(spark, plan), target.replica, layout)
        return Collisions(), False
    policy = policy_of(plan.task, plan.profile)

    @cache
    def rows() -> DataFrame:
        return table_changes.complete_changes(changes(), plan)

    certain = certain_rows(spark, few, plan, policy)
    if certain is not None:
        kept = certain.where("is_upsert") if "is_upsert" in certain.columns else certain
        merge.replace_table(kept, target.replica, layout)
    elif plan.task.gates or tests_states(plan):
        states = replica.newest_states(effects(rows(), layout.key_columns), layout, plan.profile, policy)
        refuse_states(states, plan)
    all_fit = certain is not None or replica.rewrite(rows(), target.replica, plan, is_watched=few is None)
    if target.history is not None:
        history.rewrite(history.versions_of(rows(), plan), target.history, plan.history_layout)
    if not plan.batch_profile.additions or (few is not None and certainly_meet_none(few, plan)):
        return Collisions(), all_fit
    added = rows_written(spark, target.replica)
    return count_collisions(spark, ChangeFrames(rows), plan, target.replica, added=added), all_fit


def _truncates(spark: SparkSession, plan: Plan) -> DataFrame:
    """The truncates that a table without a key gets."""
    return table_changes.truncates(spark, plan.task, after=written_after(plan))


def _refuse_failing_changes(changes: Callable[[], DataFrame], plan: Plan) -> None:
    """Raises where a change of a table without a key does not pass a gate."""
    if plan.task.gates:
        rows = changes().select(
            "after",
            (F.col("op") != "delete").alias("is_upsert"),
            (~F.coalesce("partial", F.lit(False))).alias("is_whole"),
        )
        refuse_failing_rows(rows, plan.layout, plan.task.gates, plan.task.name.table)


def merge_new(
    spark: SparkSession, changes: TableChanges, new: Callable[[], DataFrame], plan: Plan, target: Target
) -> tuple[Collisions, bool]:
    """Merges the new changes.

    Args:
        spark: The session.
        changes: All changes, for the keys that must be folded again.
        new: Makes the new changes, with current column names.
        plan: The plan.
        target: Where the replica and the history are.

    Returns:
        How many added rows met an existing one, and whether every change surely fits its columns.
    """
    task, layout = plan.task, plan.layout
    if not layout.keys:
        _refuse_failing_changes(new, plan)
        stored_columns.change_columns(spark, plan, target.replica, target.history)
        append.append(
            new(), _truncates(spark, plan), target.replica, layout, table_changes.new_positions(plan)
        )
        return Collisions(), False
    frames = _frames(changes, new, plan, has_history=target.history is not None)
    policy = policy_of(plan.task, plan.profile)
    few, place = changes.few_after(task.state.batch), target.replica

    def merge_rows(rows: DataFrame, bounds: Bounds | None) -> Merged:
        return merge.merge_latest(rows, place, layout, policy, bounds)

    def merge_with(late: DataFrame | None) -> tuple[Collisions, bool]:
        certain = None if late is not None else certain_rows(spark, few, plan, policy)
        facts = None
        if certain is None:
            given, facts = rows_to_merge(frames, late, plan, is_watched=few is None)
        else:
            given = certain
        stored_columns.change_columns(spark, plan, target.replica, target.history)
        if few is None or late is not None:
            merged, look = merge_many(given, plan, merge_rows, facts)
        else:
            look = Look(key_bounds(few, plan), certain is not None)
            merged = merge_rows(given, look.bounds)
        met = count_collisions(spark, frames, plan, place, added=merged.inserted)
        crash_point("gold.between_replica_and_history")
        if target.history is not None:
            _merge_history(frames, late, plan, target.history)
        return met, look.all_fit

    late = late_keys(frames, plan)
    return merge_with(None) if late is None else computed_once(late, lambda kept, _: merge_with(kept))


def _frames(
    changes: TableChanges, new: Callable[[], DataFrame], plan: Plan, *, has_history: bool
) -> ChangeFrames:
    """The new changes and all changes, complete where a merge needs earlier changes."""

    @cache
    def everything() -> DataFrame:
        rows = table_changes.current_changes(changes.all_rows(), plan)
        return table_changes.complete_changes(rows, plan) if is_complete else rows

    @cache
    def complete_new() -> DataFrame:
        return everything().where(F.col("batch") > plan.task.state.batch)

    is_folded_again = has_history and not can_continue(plan)
    is_complete = is_folded_again or plan.batch_profile.has_key_changes or is_late(plan)
    return ChangeFrames(complete_new if is_complete else new, everything)


def _merge_history(frames: ChangeFrames, late: DataFrame | None, plan: Plan, path: str) -> None:
    """Brings the versions of all keys that the new changes touch up to date."""
    layout, keys, new = plan.layout, key_names(len(plan.layout.keys)), frames.new()
    are_few = plan.batch_profile.rows <= FEW_CHANGES and (
        late is None or not plan.profile.has_partial_key_changes
    )
    if can_continue(plan):
        if merge_new_versions(new, plan, path, are_few=are_few):
            return
        tune_for_rows(new.sparkSession, plan.task.rows)
        everything = table_changes.complete_changes(frames.everything(), plan)
    else:
        everything = frames.everything()

    def merge_with(touched: DataFrame) -> None:
        rows = changes_of_keys(everything, layout, touched, keys)
        frame = with_keys(history.versions_of(rows, plan), touched, keys)
        history.merge_keys(frame, touched, path, plan.history_layout, are_few=are_few)

    touched = effects(new, layout.key_columns).select(*keys)
    if late is None:
        merge_with(touched.distinct())
    else:
        computed_once(touched.union(late).distinct(), lambda kept, _: merge_with(kept))
