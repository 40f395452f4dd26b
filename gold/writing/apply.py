"""Bringing one table up to a batch of silver: merged in place, or rebuilt from silver in one commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.config.tables import BadValues
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.older_copies import newest_marks
from framework.pipeline.fault_injection import crash_point
from framework.spark.required_settings import refuse_references
from framework.spark.tuning import tune_for_rows
from gold.changes.few_changes import TableChanges
from gold.changes.profile import SchemaColumn
from gold.planning.knowledge import CachedChanges
from gold.planning.plan import Plan, make_plan
from gold.planning.rebuild import Rebuild, RebuildReason, settings_fingerprint
from gold.planning.refusals import refuse_rival, refuse_statements
from gold.planning.table_state import RENAMED, Collisions, State, TableState
from gold.planning.task import Task
from gold.writing import bad_values, merge, stored_columns, table_changes
from gold.writing.bad_values import Faults
from gold.writing.certain_fit import certainly_fit
from gold.writing.change_cache import table_changes_of
from gold.writing.merge_rows import (
    tests_states,
)
from gold.writing.notes import notes_of
from gold.writing.replica_and_history import Target, merge_new, rewrite, target_of, written_after
from gold.writing.workload import rows_read


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
    since = written_after(plan)

    @cache
    def new() -> DataFrame:
        return table_changes.current_changes(found.after(since), plan)

    if task.settings.bad_values is BadValues.PARK and not tests_states(plan):
        bad_values.refuse(new(), plan.layout, task.name)
    crash_point("gold.before_table")
    target = target_of(lake, plan)
    tune_for_rows(spark, rows_read(spark, lake, plan, (target.replica, target.history)))
    if plan.rebuild is not None:
        met, all_fit = rewrite(spark, new, plan, target, few=found.few_after(since))
    else:
        places = (target.replica, target.history)
        merge.keep_change_feed(spark, places, plan.layout)
        begins_marks = merge.begin_marks(spark, places, plan.layout, plan.profile)
        target = replace(target, begins_marks=begins_marks)
        met, all_fit = merge_new(spark, found, new, plan, target)
    crash_point("gold.after_table")
    stored = [place for place in (target.replica, target.history) if place is not None]
    marks = newest_marks(spark, stored)
    return _applied(_list_faults(found, plan, all_fit=all_fit), plan, replace(target, marks=marks), met)


def _unlike_planned(spark: SparkSession, lake: Lakehouse, plan: Plan | None) -> str | None:
    """Which stored column keeps the table from being changed in place; None where there is none."""
    if plan is None or plan.rebuild is not None:
        return None
    target = target_of(lake, plan)
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
    since = -1 if plan.task.state.is_unlisted else written_after(plan)
    if all_fit and since == written_after(plan):
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


def _applied(faults: Faults, plan: Plan, target: Target, met: Collisions) -> Applied:
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
