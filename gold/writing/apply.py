"""Bringing one table up to a batch of silver: merged in place, or rebuilt from silver in one commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.config.tables import BadValues
from framework.lakehouse.commits import rows_written
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.merge import Merged
from framework.lakehouse.older_copies import Mark, newest_marks
from framework.pipeline.fault_injection import crash_point
from framework.spark.required_settings import refuse_references
from framework.spark.tuning import tune_for_rows
from gold.changes.effects import effects, key_names
from gold.changes.few_changes import FewChange, TableChanges
from gold.changes.profile import SchemaColumn
from gold.planning.gates import refuse_failing_rows
from gold.planning.knowledge import CachedChanges
from gold.planning.plan import Plan, make_plan, policy_of
from gold.planning.rebuild import Rebuild, RebuildReason, settings_fingerprint
from gold.planning.refusals import refuse_rival, refuse_statements
from gold.planning.table_state import RENAMED, Collisions, State, TableState
from gold.planning.task import Task, folder_of
from gold.writing import append, bad_values, history, merge, replica, stored_columns, table_changes
from gold.writing.bad_values import Faults
from gold.writing.certain_fit import certainly_fit
from gold.writing.certain_inserts import certainly_meet_none
from gold.writing.certain_rows import certain_rows
from gold.writing.change_cache import table_changes_of
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
from gold.writing.notes import notes_of
from gold.writing.table_changes import ChangeFrames
from gold.writing.workload import rows_read

FEW_CHANGES = 100_000
"""The keys of this many changes fit into memory: finding them in a large table needs no sort."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What was done with a task.

    Attributes:
        state: The table's new state.
        applied: How many changes were applied.
        late: How many of them were late.
        ops: How many of them there are by operation.
        faults: The cells to list in `ops/bad_values`.
        notes: Texts for people.
        seconds: How long it took.
    """

    state: TableState
    applied: int = 0
    late: int = 0
    ops: Mapping[str, int] = field(default_factory=dict)
    faults: Faults = field(default_factory=Faults)
    notes: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class _Target:
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


def _target(lake: Lakehouse, plan: Plan) -> _Target:
    task, replica = plan.task, lake.location("gold/" + folder_of(plan.task))
    has_history = task.settings.history and plan.layout.keys
    history = lake.location("gold/" + folder_of(task, is_history=True)) if has_history else None
    return _Target(replica, history)


def apply_table(
    spark: SparkSession,
    lake: Lakehouse,
    task: Task,
    schemas: Mapping[str, Sequence[SchemaColumn]],
    cached: CachedChanges | None = None,
) -> Applied:
    """Brings one table up to date.

    Args:
        spark: The session.
        lake: The lakehouse.
        task: The table.
        schemas: The columns of each schema that changes name.
        cached: The changes of small tables; None where silver must be read.

    Raises:
        MainstemError: For what parks the table.
    """
    if task.lineage.renamed_to is not None:
        gone = replace(
            task.state,
            batch=task.top,
            state=State.DROPPED,
            reason=RENAMED,
            repair=task.repair,
            is_unlisted=False,
        )
        return Applied(gone)  # the cells of its rows are listed with its new name
    found, plan = plan_task(spark, lake, task, schemas, cached)
    unlike = _unlike_planned(spark, lake, plan)
    if unlike is not None:
        found, plan = plan_task(spark, lake, replace(task, is_rebuild=True), schemas, cached)
        plan = plan and replace(plan, task=task, rebuild=Rebuild(RebuildReason.TYPE_CHANGE, unlike))
    if plan is None:
        is_gone = task.lineage.is_dropped
        state = State.DROPPED if is_gone else State.ACTIVE
        return Applied(
            replace(
                task.state, batch=task.top, state=state, reason=None, repair=task.repair, is_unlisted=False
            )
        )
    refuse_references(spark, plan.layout.gold_names.values())
    since = _written_after(plan)

    @cache
    def new() -> DataFrame:
        return table_changes.current_changes(found.after(since), plan)

    if task.settings.bad_values is BadValues.PARK and not tests_states(plan):
        bad_values.refuse(new(), plan.layout, task.name)
    crash_point("gold.before_table")
    target = _target(lake, plan)
    tune_for_rows(spark, rows_read(spark, lake, plan, (target.replica, target.history)))
    if plan.rebuild is not None:
        met, all_fit = _rebuild(spark, new, plan, target, few=found.few_after(since))
    else:
        places = (target.replica, target.history)
        merge.keep_change_feed(spark, places, plan.layout)
        begins_marks = merge.begin_marks(spark, places, plan.layout, plan.profile)
        target = replace(target, begins_marks=begins_marks)
        met, all_fit = _merge(spark, found, new, plan, target)
    crash_point("gold.after_table")
    stored = [place for place in (target.replica, target.history) if place is not None]
    marks = newest_marks(spark, stored)
    return _applied(_list_faults(found, plan, all_fit=all_fit), plan, replace(target, marks=marks), met)


def _written_after(plan: Plan) -> int:
    """The batch after which the changes begin that the table gets: -1 where it is rebuilt from all."""
    return -1 if plan.rebuild is not None else plan.task.state.batch


def _unlike_planned(spark: SparkSession, lake: Lakehouse, plan: Plan | None) -> str | None:
    """Which stored column keeps the table from being changed in place; None where there is none."""
    if plan is None or plan.rebuild is not None:
        return None
    target = _target(lake, plan)
    places = (target.replica, target.history)
    checks = (
        stored_columns.unlike_planned,
        stored_columns.widened_unpublished,
        stored_columns.taken_by_others,
    )
    return next(filter(None, (check(spark, plan, *places) for check in checks)), None)


def _list_faults(changes: TableChanges, plan: Plan, *, all_fit: bool) -> Faults:
    """The cells to list of the new changes; of all changes where the table was rebuilt or is unlisted.

    `all_fit`: the changes that were written surely have none.
    """
    since = -1 if plan.task.state.is_unlisted else _written_after(plan)
    if all_fit and since == _written_after(plan):
        return Faults()
    is_new_alone = since == plan.task.state.batch
    has_other_keys = plan.has_new_former_keys if is_new_alone else plan.former_keys is not None
    few = changes.few_after(since)
    if few is not None and not has_other_keys and certainly_fit(few, plan):
        return Faults()
    if has_other_keys:
        rows = table_changes.changes_with_current_key(changes.all_rows(), plan).where(F.col("batch") > since)
    else:
        rows = table_changes.current_changes(changes.after(since), plan)
    return bad_values.list_faults(rows, plan.layout, has_other_keys=has_other_keys)


def plan_task(
    spark: SparkSession,
    lake: Lakehouse,
    task: Task,
    schemas: Mapping[str, Sequence[SchemaColumn]],
    cached: CachedChanges | None = None,
) -> tuple[TableChanges, Plan | None]:
    """The changes of silver up to the task's batch, and the plan for them; writes nothing.

    Raises:
        MainstemError: For what parks the table.
    """
    refuse_rival(task)
    refuse_statements(task)
    changes = table_changes_of(spark, lake, task, cached)
    return changes, make_plan(spark, lake, changes, task, schemas)


def _rebuild(
    spark: SparkSession,
    changes: Callable[[], DataFrame],
    plan: Plan,
    target: _Target,
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
    return table_changes.truncates(spark, plan.task, after=_written_after(plan))


def _refuse_failing_changes(changes: Callable[[], DataFrame], plan: Plan) -> None:
    """Raises where a change of a table without a key does not pass a gate."""
    if plan.task.gates:
        rows = changes().select(
            "after",
            (F.col("op") != "delete").alias("is_upsert"),
            (~F.coalesce("partial", F.lit(False))).alias("is_whole"),
        )
        refuse_failing_rows(rows, plan.layout, plan.task.gates, plan.task.name.table)


def _merge(
    spark: SparkSession, changes: TableChanges, new: Callable[[], DataFrame], plan: Plan, target: _Target
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


def _applied(faults: Faults, plan: Plan, target: _Target, met: Collisions) -> Applied:
    """The result of a plan that was carried out.

    Args:
        faults: The cells to list of the new changes; of all changes where the table was rebuilt or is
            unlisted.
        plan: The plan.
        target: Where the replica and the history are.
        met: How many added rows met an existing one.
    """
    task, is_rebuild = plan.task, plan.rebuild is not None
    are_all = is_rebuild or task.state.is_unlisted
    faults = replace(faults, replaces=are_all and (task.state.bad_values > 0 or faults.others > 0))
    number, late = sum(plan.counts.values()), plan.late
    is_active = State.ACTIVE if plan.layout.keys else State.APPEND_ONLY
    state = replace(
        task.state,
        state=State.DROPPED if task.lineage.is_dropped else is_active,
        reason=None,
        replica=target.replica,
        history=target.history,
        keys=plan.layout.keys,
        columns=plan.layout.columns,
        comment=plan.layout.comment,
        lineage=plan.digest,
        batch=task.top,
        sequence=_newest_sequence(plan),
        event_time=plan.profile.event_time,
        changes_applied=task.state.changes_applied + number,
        late=task.state.late + late,
        bad_values=faults.count if are_all else task.state.bad_values + faults.count,
        profile=plan.profile,
        built_with=settings_fingerprint(task.settings),
        repair=task.repair,
        collisions=met if is_rebuild else task.state.collisions + met,
        is_unlisted=False,
        marks=target.marks,
        erased=(),
    )
    return Applied(
        state,
        number,
        late,
        plan.counts,
        faults,
        tuple(notes_of(plan, faults, met, begins_marks=target.begins_marks)),
    )


def _newest_sequence(plan: Plan) -> str | None:
    statements = [s for s, _ in plan.task.lineage.column_changes] + [
        s for s, _ in plan.task.lineage.truncates
    ]
    return max([s for s in (plan.profile.max_sequence, *statements) if s], default=None)
