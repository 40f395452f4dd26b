"""Deciding what a table needs: its columns and key, and whether it is changed in place or rebuilt.

A table is changed in place when its schema grew only in ways that Delta adds or widens, and its statements
only added columns. Renames, drops, other keys, types that Delta cannot widen, and statements before applied
rows lead to a rebuild. A rebuild folds all changes of the table once, and gives the same rows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from framework.config.tables import Deletes, SchemaPolicy, TableSettings
from framework.contracts.ddl_actions import AddColumn
from framework.lakehouse.lakehouse import Lakehouse
from framework.spark.tuning import tune_for_rows
from gold.changes.effects import table_rows
from gold.changes.few_changes import FewMeasurements, OnlyFew, TableChanges
from gold.changes.former_keys import FormerKeys, former_keys
from gold.changes.merge_policy import MergePolicy
from gold.changes.profile import (
    NOTHING_APPLIED,
    Profile,
    Progress,
    SchemaColumn,
    has_unmeasured,
    merge_profiles,
    namings_for,
    profile_of,
)
from gold.changes.profile_queries import profile_rows
from gold.planning.keys import stored_key, table_key
from gold.planning.rebuild import (
    Rebuild,
    applied_column_changes,
    begins_as_applied,
    lineage_digest,
    rebuild_before_reading,
    rebuild_for_former_key,
    rebuild_for_layout,
    rebuild_for_names,
    refuse_large,
)
from gold.planning.recorded_measures import NotMeasured, recorded_measurements
from gold.planning.refusals import refuse_case_twins, refuse_changes, refuse_mixed_key
from gold.planning.stored_names import frozen_columns
from gold.planning.task import Task
from gold.planning.tracked_columns import tracked_columns
from gold.planning.unknown_keys import unknown_key_column, values_unknown
from gold.schema.case_matching import match_case
from gold.schema.cell_readings import with_readings
from gold.schema.columns import (
    ColumnNaming,
    ColumnOrder,
    TableColumn,
    column_namings,
    evidence_by_column,
    ordered_names,
    resolve_columns,
    types_from_statements,
)
from gold.schema.comments import Comments, comments_of
from gold.schema.layout import SYSTEM_COLUMNS, VALIDITY_COLUMNS, Layout
from gold.schema.lineage import Lineage


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that is decided before the first write.

    Attributes:
        task: The table.
        layout: The columns of its replica.
        history_layout: The columns of its history.
        profile: What all applied and new changes show.
        batch_profile: What the new changes show; all changes in a rebuild.
        namings: How the columns of its rows are named today.
        rebuild: The rebuild that it needs; None where it is changed in place.
        digest: The digest of its lineage.
        counts: The new changes by operation.
        late: How many of them are late.
        track: The columns whose changes make a version of its history; None for all.
        left_out: The columns that the policy `ignore` leaves out of its replica.
    """

    task: Task
    layout: Layout
    history_layout: Layout
    profile: Profile
    batch_profile: Profile
    namings: tuple[ColumnNaming, ...]
    rebuild: Rebuild | None
    digest: str
    counts: Mapping[str, int]
    late: int
    track: tuple[str, ...] | None = None
    left_out: tuple[str, ...] = ()

    @property
    def former_keys(self) -> FormerKeys | None:
        """The keys that the table had before the current one."""
        if not self.layout.keys:
            return None
        return former_keys(self.profile, self.task.lineage, self.namings, self.layout)

    @property
    def has_new_former_keys(self) -> bool:
        """Whether a new change came with a key that the table had before; in a rebuild all changes are new.

        The images of other changes need no earlier change to have the current key.
        """
        new, lineage = self.batch_profile, self.task.lineage
        return bool(self.layout.keys) and former_keys(new, lineage, self.namings, self.layout) is not None


def make_plan(
    spark: SparkSession,
    lake: Lakehouse,
    changes: TableChanges | OnlyFew,
    task: Task,
    schemas: Mapping[str, Sequence[SchemaColumn]],
) -> Plan | None:
    """The plan for a table; None where it has neither a row nor a replica yet, and where it yields.

    Args:
        spark: The session.
        lake: The lakehouse.
        changes: Rows of `silver/changes`, those of the table among them. Few of them take no job.
        task: The table.
        schemas: The columns of each schema that the changes name.

    Raises:
        MainstemError: For what parks the table: a missing column of the key or under `track`, a key whose
            values older rows do not show, columns that differ by case alone, a refused change, a rebuild that
            waits for somebody's command. Nothing of that for a task whose plan is only read.
    """
    if task.yields:
        return None
    state, lineage = task.state, task.lineage
    digest = lineage_digest(lineage)
    fresh = rebuild_before_reading(spark, lake, task, digest)
    refuse_large(task, fresh)
    since = -1 if fresh else state.batch

    def measure(lineage: Lineage, since: int, applied: Progress) -> Profile:
        few = changes.few_after(since)
        if few is not None:
            return profile_of(FewMeasurements(few, applied), lineage, schemas, state.profile)
        recorded = recorded_measurements(task, lineage, since, applied, schemas)
        if recorded is not None:
            with contextlib.suppress(NotMeasured):
                return profile_of(recorded, lineage, schemas, state.profile)
        tune_for_rows(spark, task.rows if since < 0 else task.new_rows)
        new = table_rows(changes.after(since), task.source, lineage)
        if applied.batch == since:  # all rows are new: without the batch, Spark compiles the query only once
            applied = Progress(-1, applied.sequence)
        return profile_rows(new, lineage, schemas, applied, state.profile)

    batch_profile = measure(lineage, since, Progress(state.batch, state.sequence))
    profile = batch_profile if fresh else merge_profiles(state.profile, batch_profile)
    if not fresh and has_unmeasured(state.profile, batch_profile):
        profile = replace(profile, evidence=measure(lineage, -1, NOTHING_APPLIED).evidence)
    if not profile.rows:
        return _empty_plan(task, digest, fresh)
    lineage = match_case(lineage, profile.evidence)
    namings = namings_for(lineage, task.settings.schema_policy, profile, state.columns)
    shown = evidence_by_column(profile.evidence, namings)
    columns = resolve_columns(
        ordered_names(profile.column_orders, lineage, namings),
        shown,
        types_from_statements(lineage, namings),
        task.settings,
    )
    known, columns = columns, frozen_columns(task, namings, columns)
    kept = {column.name for column in columns}
    left_out = tuple(column.name for column in known if column.name not in kept)
    namings = with_readings(namings, columns, profile.evidence)
    keys = table_key(task, profile, namings, columns)
    unknown = unknown_key_column(task, lineage, profile, keys)
    if unknown is not None and not task.is_read_only:
        raise values_unknown(task, unknown, keys)
    keys = keys if unknown is None else stored_key(task, namings, kept)
    if keys and keys != profile.keys:
        profile, batch_profile = _with_any_key_change(profile), _with_any_key_change(batch_profile)
    refuse_case_twins(task, columns)
    refuse_mixed_key(task, keys, columns, shown)
    track = tracked_columns(task, profile, namings, columns) if keys and profile.rows else None
    layout = _layout(columns, keys, task, comments_of(lineage, namings, (c.name for c in columns)))
    refuse_changes(task, layout, profile)
    rebuild = (
        fresh
        or rebuild_for_layout(state, layout)
        or rebuild_for_names(task, namings)
        or rebuild_for_former_key(state, batch_profile, namings, keys)
    )
    refuse_large(task, rebuild)
    counts, late = batch_profile.ops, batch_profile.late
    if rebuild and not fresh:
        profile = measure(lineage, -1, NOTHING_APPLIED)
        batch_profile = profile = profile if keys == profile.keys else _with_any_key_change(profile)
    return Plan(
        task,
        layout,
        _history_layout(layout),
        profile,
        batch_profile,
        namings,
        rebuild,
        digest,
        counts,
        late,
        track,
        left_out,
    )


def plan_to_read(
    spark: SparkSession,
    lake: Lakehouse,
    changes: TableChanges | OnlyFew,
    task: Task,
    schemas: Mapping[str, Sequence[SchemaColumn]],
) -> Plan | None:
    """The same for somebody who only reads what the changes lead to: what parks the table stops nothing.

    A key without a column in rows is that of the replica then.
    """
    return make_plan(spark, lake, changes, replace(task, is_read_only=True), schemas)


def policy_of(task: Task, profile: Profile) -> MergePolicy:
    """How the table's replica treats deletes and truncates, for changes of this profile.

    Only the merge that brings a truncate deletes the rows before it, as that clause of a merge reads the
    whole replica; `is_emptied` says that an earlier merge has done it.
    """
    deletes, times = task.settings.deletes, task.truncate_times
    floor = task.truncated_at
    is_emptied = floor is not None and floor in times and times[floor][1] <= task.state.batch
    is_newest = floor is not None and floor > (task.state.sequence or floor)
    has_partials = profile.has_partials or deletes is Deletes.SOFT
    return MergePolicy(deletes, floor, has_partials, is_emptied, is_newest)


def _empty_plan(task: Task, digest: str, fresh: Rebuild | None) -> Plan | None:
    """The empty plan of a table that was created again and has no row since; None without a replica."""
    state = task.state
    if fresh is None or task.lineage.is_dropped or (state.replica is None and not state.is_displaced):
        return None
    plan = plan_without_rows(task, digest, fresh)
    refuse_changes(task, plan.layout, Profile())
    return plan


def plan_without_rows(task: Task, digest: str, fresh: Rebuild | None = None) -> Plan:
    """What statements and the former replica tell of a table without a row.

    Its columns are those of its CREATE statement, as later statements changed them: no row has values in a
    dropped one. Where that statement lists none, later statements change the former ones. There may be
    neither columns nor a key.
    """
    state = task.state
    first = applied_column_changes(state) if begins_as_applied(state, task.lineage) else 0
    base = (0, task.lineage.created) if task.lineage.created else (first, state.columns)
    lineage = match_case(task.lineage, ((base[0], column.name) for column in base[1]))
    namings = column_namings(lineage, SchemaPolicy.EVOLVE, ())
    columns = _created_columns(task, lineage, namings, base)
    former = tuple(name for key in state.keys if (name := namings[first].current_name(key)) is not None)
    is_former = not lineage.keys and {column.name for column in columns}.issuperset(former)
    keys = (former if is_former else ()) or table_key(task, Profile(), namings, columns)
    layout = _layout(columns, keys, task, comments_of(lineage, namings, (c.name for c in columns)))
    return Plan(task, layout, _history_layout(layout), Profile(), Profile(), namings, fresh, digest, {}, 0)


def _created_columns(
    task: Task,
    lineage: Lineage,
    namings: Sequence[ColumnNaming],
    base: tuple[int, Sequence[AddColumn | TableColumn]],
) -> tuple[TableColumn, ...]:
    """The columns that statements give a table which has those of `base` after so many column changes."""
    at, known = base
    order = ColumnOrder(at, "", tuple(column.name for column in known))
    named = ((namings[at].current_name(column.name), column) for column in known)
    types = {name: (column.type, column.declared) for name, column in named if name is not None}
    types |= types_from_statements(lineage, namings)
    return resolve_columns(ordered_names((order,), lineage, namings), {}, types, task.settings)


def _layout(columns: Sequence[TableColumn], keys: tuple[str, ...], task: Task, comments: Comments) -> Layout:
    """The layout of the replica, with what the source says of it."""
    described = tuple(replace(column, comment=comments.columns.get(column.name)) for column in columns)
    return Layout(described, keys, _system_columns(task.settings, keys), comments.table)


def _history_layout(layout: Layout) -> Layout:
    return replace(layout, system={**SYSTEM_COLUMNS, **VALIDITY_COLUMNS})


def _system_columns(settings: TableSettings, keys: tuple[str, ...]) -> dict[str, str]:
    if not keys:
        return {**SYSTEM_COLUMNS, "_cdc_op": "string"}
    if settings.deletes == "soft":
        return {**SYSTEM_COLUMNS, "_cdc_deleted": "boolean"}
    return dict(SYSTEM_COLUMNS)


def _with_any_key_change(profile: Profile) -> Profile:
    """The profile for another key than that of the rows: any update may change that key."""
    return replace(profile, has_key_changes=True, has_partial_key_changes=profile.has_partials)
