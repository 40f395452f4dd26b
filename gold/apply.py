"""Bringing one table up to a silver batch: in place where that gives the right table, else by a rebuild from silver.

A table is changed in place when its schema grew only in ways that Delta adds or widens, and its statements only added
columns. Renames, drops, other keys, types that Delta cannot widen, and statements that arrive behind rows beyond them
lead to a rebuild, which is one fold of all the table's changes and gives the same rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.config_rules import TableSettings
from framework.contracts.actions import AddColumn, DropColumn, TableName
from framework.crash import crash_point
from framework.errors import MainstemError
from framework.names import history_folder, replica_folder
from framework.tables import Lakehouse
from gold import columns as shape
from gold import merge
from gold.cast import fault, typed
from gold.changes import CHANGES_TABLE, effects, key_names, rows_of, under_todays_names
from gold.columns import Stretch, TableColumn
from gold.latest import latest
from gold.lineage import Lineage
from gold.merge import Layout, Rules
from gold.profile import Past, Profile, SchemaColumn, joined, measure
from gold.state import State, TableState
from gold.strategies import append, history, replica

MAX_LISTED = 100_000


@dataclass(frozen=True, slots=True)
class Task:
    """One table to bring up to `top`, the newest silver batch. `waiting_rows` is at least what a rebuild would read."""

    source: str
    lineage: Lineage
    state: TableState
    settings: TableSettings
    top: int
    waiting_rows: int
    truncate_times: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> TableName:
        """The table's newest name."""
        return self.lineage.table


@dataclass(frozen=True, slots=True)
class Applied:
    """What came of a task: the new state, cells to list, and a line for people. `applied` counts changes."""

    state: TableState
    applied: int = 0
    late: int = 0
    ops: Mapping[str, int] = field(default_factory=dict)
    faults: tuple[tuple[Any, ...], ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Plan:
    """Everything that is decided before the first write."""

    task: Task
    layout: Layout
    past: Layout
    profile: Profile
    batch_profile: Profile
    mapped: tuple[Stretch, ...]
    rebuild: str | None
    digest: str
    counts: Mapping[str, int]
    late: int


@dataclass(frozen=True, slots=True)
class _Target:
    """Where the replica is, and the history where the table has one."""

    replica: str
    history: str | None


def apply_table(spark: SparkSession, lake: Lakehouse, task: Task, schemas: Mapping[str, Sequence[SchemaColumn]]) -> Applied:
    """Bring one table up to date. Raises for what parks it."""
    if task.lineage.renamed_to is not None:
        return Applied(replace(task.state, batch=task.top, state=State.DROPPED, reason="renamed"))
    _refuse_statements(task)
    changes = lake.read(spark, CHANGES_TABLE).where(F.col("batch") <= task.top)
    plan = _decide(spark, lake, changes, task, schemas)
    if plan is None:
        return Applied(replace(task.state, batch=task.top, state=State.DROPPED if task.lineage.is_dropped else task.state.state))
    new = rows_of(changes.where(F.col("batch") > task.state.batch), task.source, task.lineage)
    crash_point("gold.before_table")
    past = lake.path("gold/" + _folder(task, is_history=True)) if task.settings.history and plan.layout.keys else None
    target = _Target(lake.path("gold/" + _folder(task)), past)
    if plan.rebuild is not None:
        _rebuild(rows_of(changes, task.source, task.lineage), plan, target, _truncates(lake, spark, task, after=-1))
    else:
        _change_columns(spark, plan, target)
        _merge(changes, plan, target, _truncates(lake, spark, task, after=task.state.batch))
    crash_point("gold.after_table")
    return _applied(new, plan, target)


def _refuse_statements(task: Task) -> None:
    """Park what the statements leave no right table for, and under the policy `fail` any change of the schema."""
    unclear = [reason for _, reason in task.lineage.not_understood]
    is_strict = str(task.settings.schema_policy) == "fail"
    lost = [reason for reason in unclear if is_strict or reason.startswith("erase_without_statement")]
    if lost or (is_strict and task.lineage.steps):
        raise MainstemError(
            "SCHEMA_CHANGE_REFUSED",
            found=lost[0] if lost else "a schema change, under schema_policy fail",
            where=f"table {task.name.table}",
            action="set another schema_policy for the table, or exclude it, and run again",
        )


def _folder(task: Task, is_history: bool = False) -> str:
    folder = history_folder if is_history else replica_folder
    if task.settings.replica:
        parts = task.settings.replica.split(".")
        return folder(parts[0], parts[1] if len(parts) == 3 else None, parts[-1])
    return folder(task.name.database, task.name.schema, task.name.table)


def _decide(
    spark: SparkSession, lake: Lakehouse, changes: DataFrame, task: Task, schemas: Mapping[str, Sequence[SchemaColumn]]
) -> _Plan | None:
    state, lineage = task.state, task.lineage
    digest = lineage_digest(lineage)
    fresh = _rebuild_reason(spark, lake, task, digest)
    since = -1 if fresh else state.batch
    batch_profile = measure(
        rows_of(changes.where(F.col("batch") > since), task.source, lineage), lineage, schemas, Past(state.batch, state.sequence)
    )
    profile = batch_profile if fresh else joined(state.profile, batch_profile)
    if not profile.rows and not shape.declared_by_statements(lineage, shape.stretches(lineage, task.settings.schema_policy, ())):
        return None
    mapped = shape.stretches(lineage, task.settings.schema_policy, _reused(lineage, profile))
    order = shape.ordered_names(profile.shapes, lineage, mapped)
    found = shape.resolve(order, shape.seen_today(profile.seen, mapped), shape.declared_by_statements(lineage, mapped), task.settings)
    keys = _keys(task.settings, profile, mapped, found)
    _refuse_case_twins(found)
    layout = Layout(found, keys, _own_columns(task.settings, keys))
    past = Layout(found, keys, {**merge.OWN, **history.VALIDITY})
    rebuild = fresh or _growth_reason(state, layout)
    counts, late = batch_profile.ops, batch_profile.late
    if rebuild and not fresh:
        batch_profile = profile = measure(rows_of(changes, task.source, lineage), lineage, schemas)
    return _Plan(task, layout, past, profile, batch_profile, mapped, rebuild, digest, counts, late)


def lineage_digest(lineage: Lineage) -> str:
    """What of the statements shapes the table: equal digests, equal columns and pieces."""
    parts = (lineage.pieces, lineage.steps, lineage.keys)
    return f"{len(lineage.steps)}:{hashlib.blake2b(repr(parts).encode(), digest_size=12).hexdigest()}"


def _rebuild_reason(spark: SparkSession, lake: Lakehouse, task: Task, digest: str) -> str | None:
    state, lineage = task.state, task.lineage
    if state.replica is None or (state.state is State.DROPPED and not lineage.is_dropped):
        return "new table"
    if not lake.exists(spark, "gold/" + _folder(task)):
        return "its replica is gone"
    if task.settings.history and state.keys and not lake.exists(spark, "gold/" + _folder(task, is_history=True)):
        return "its history is to be made"
    if state.lineage != digest:
        return None if _only_adds(state, lineage) else "a schema change"
    late = [s for s, _ in lineage.truncates if state.sequence and s <= state.sequence]
    new_late = [s for s in late if s in task.truncate_times and task.truncate_times[s][1] > state.batch]
    if new_late and (state.profile.has_partials or task.settings.history):
        return "a late truncate"
    if task.settings.history and any(batch > state.batch for _, batch in task.truncate_times.values()):
        return "a truncate"
    return None


def _only_adds(state: TableState, lineage: Lineage) -> bool:
    """Whether the statements since the state only add columns without a default, behind all rows applied so far."""
    known = int(state.lineage.partition(":")[0] or 0)
    if replace(lineage, steps=lineage.steps[:known]) and lineage_digest(replace(lineage, steps=lineage.steps[:known])) != state.lineage:
        return False
    return all(
        isinstance(action, AddColumn) and action.default is None and (state.sequence is None or sequence > state.sequence)
        for sequence, action in lineage.steps[known:]
    )


def _reused(lineage: Lineage, profile: Profile) -> set[str]:
    """Names that rows use again after a drop of that name."""
    found: set[str] = set()
    for at, (_, action) in enumerate(lineage.steps):
        if isinstance(action, DropColumn):
            found.update(name for stretch, name in profile.seen if stretch > at and name == action.name)
    return found


def _keys(settings: TableSettings, profile: Profile, mapped: Sequence[Stretch], found: Sequence[TableColumn]) -> tuple[str, ...]:
    names = {c.name for c in found}
    if settings.keys is not None:
        missing = [k for k in settings.keys if k not in names]
        if missing and profile.rows:
            raise MainstemError(
                "KEY_COLUMN_MISSING",
                found=f"no row has the configured key column {missing[0]!r}",
                where="tables.keys",
                action=f"name key columns among: {', '.join(sorted(names)[:20])}",
            )
        return settings.keys if not missing else ()
    keys = [mapped[profile.keys_stretch].column(k) for k in profile.keys or ()]
    return tuple(k for k in keys if k is not None)


def _own_columns(settings: TableSettings, keys: tuple[str, ...]) -> dict[str, str]:
    if not keys:
        return {**merge.OWN, "_cdc_op": "string"}
    return {**merge.OWN, "_cdc_deleted": "boolean"} if settings.deletes == "soft" else dict(merge.OWN)


def _refuse_case_twins(found: Sequence[TableColumn]) -> None:
    folded: dict[str, str] = {}
    for column in found:
        other = folded.setdefault(column.name.lower(), column.name)
        if other != column.name:
            raise MainstemError(
                "COLUMNS_DIFFER_BY_CASE",
                found=f"columns {other!r} and {column.name!r}",
                where="the source's table",
                action="Delta cannot hold both: rename one in the source, or exclude the table",
            )


def _growth_reason(state: TableState, layout: Layout) -> str | None:
    if state.keys != layout.keys:
        return "other key columns"
    old = {c.name: c.type for c in state.columns}
    if set(old) - {c.name for c in layout.columns}:
        return "a column is gone"
    for column in layout.columns:
        was = old.get(column.name, column.type)
        if was != column.type and not (shape.widens_in_place(was, column.type) and column.name not in layout.keys):
            return f"{column.name} changes from {was} to {column.type}"
    return None


def _change_columns(spark: SparkSession, plan: _Plan, target: _Target) -> None:
    old = {c.name: c.type for c in plan.task.state.columns}
    new = [c.name for c in plan.layout.columns if c.name not in old]
    wider = [c.name for c in plan.layout.columns if c.name in old and old[c.name] != c.type]
    for path in (target.replica, target.history):
        if path is None:
            continue
        have = set(spark.read.format("delta").load(path).columns)
        missing = [n for n in new if plan.layout.gold_names[n] not in have]
        if missing:
            merge.add_columns(spark, path, plan.layout, missing)
        if wider:
            merge.widen_columns(spark, path, plan.layout, wider)


def _rebuild(rows: DataFrame, plan: _Plan, target: _Target, truncates: DataFrame) -> None:
    lineage, layout = plan.task.lineage, plan.layout
    rows = under_todays_names(rows, lineage, plan.mapped)
    if not layout.keys:
        append.rewrite(rows, truncates, target.replica, layout)
        return
    replica.rewrite(rows, target.replica, layout, plan.profile, _floor(plan))
    if target.history is not None:
        frame = history.versions(rows, plan.past, plan.profile, _closings(plan), plan.task.settings.track)
        history.rewrite(frame, target.history, plan.past)


def _floor(plan: _Plan) -> str | None:
    """The newest truncate, below which no row stands; none where deletes are ignored."""
    return None if plan.task.settings.deletes == "ignore" else plan.task.lineage.truncated_at


def _closings(plan: _Plan) -> list[tuple[str, Any]]:
    times = plan.task.truncate_times
    return [(sequence, times[sequence][0] if sequence in times else None) for sequence, _ in plan.task.lineage.truncates]


def _merge(changes: DataFrame, plan: _Plan, target: _Target, truncates: DataFrame) -> None:
    task, layout = plan.task, plan.layout
    new = rows_of(changes.where(F.col("batch") > task.state.batch), task.source, task.lineage)
    named = under_todays_names(new, task.lineage, plan.mapped)
    if not layout.keys:
        append.append(named, truncates, target.replica, layout)
        return
    keys = key_names(len(layout.keys))
    floor = _floor(plan)
    found = replica.newest(named, layout, plan.profile, floor).withColumn("is_forced", F.lit(False))
    late = _late_keys(named, plan)
    everything = under_todays_names(rows_of(changes, task.source, task.lineage), task.lineage, plan.mapped)
    if late is not None:
        again = _of_keys(effects(everything, layout.key_columns), late, keys)
        if floor is not None:
            again = again.where(F.col("sequence") >= floor)
        folded = latest(again, keys, has_moves=plan.profile.has_moves, has_partials=plan.profile.has_partials)
        found = _of_keys(found, late, keys, without=True).unionByName(folded.withColumn("is_forced", F.lit(True)), allowMissingColumns=True)
    rules = Rules(str(task.settings.deletes), floor, plan.profile.has_partials)
    replica.merge_rows(found, target.replica, layout, rules)
    crash_point("gold.between_replica_and_history")
    if target.history is not None:
        touched = effects(named, layout.key_columns).select(*keys).distinct()
        rows = _rows_of_keys(everything, layout, touched, keys)
        frame = history.versions(rows, plan.past, plan.profile, _closings(plan), task.settings.track)
        frame = _of_keys(frame, touched, keys)
        history.merge_keys(frame, touched, target.history, plan.past)


def _late_keys(named: DataFrame, plan: _Plan) -> DataFrame | None:
    """Keys that must be folded again from silver: those of late changes, and old keys of key changes."""
    top, low = plan.task.state.sequence, plan.batch_profile.min_sequence
    is_late = top is not None and low is not None and low <= top
    if not is_late and not plan.batch_profile.has_moves:
        return None
    keys = key_names(len(plan.layout.keys))
    test = F.col("is_move") & ~F.col("is_put")
    if is_late:
        test = test | (F.col("sequence") <= F.lit(top))
    return effects(named, plan.layout.key_columns).where(test).select(*keys).distinct()


def _of_keys(frame: DataFrame, wanted: DataFrame, keys: Sequence[str], without: bool = False) -> DataFrame:
    renamed = wanted.select(*(F.col(k).alias(f"_{k}") for k in keys))
    same = F.lit(True)
    for key in keys:
        same = same & F.col(key).eqNullSafe(F.col(f"_{key}"))
    return frame.join(renamed, same, "left_anti" if without else "left_semi")


def _rows_of_keys(rows: DataFrame, layout: Layout, wanted: DataFrame, keys: Sequence[str]) -> DataFrame:
    ids = _of_keys(effects(rows, layout.key_columns), wanted, keys).select("change_id").distinct()
    return rows.join(ids, "change_id", "left_semi")


def _truncates(lake: Lakehouse, spark: SparkSession, task: Task, after: int) -> DataFrame:
    ids = [change_id for _, change_id in task.lineage.truncates]
    found = lake.read(spark, "ops/statements").where(F.col("change_id").isin(ids or [""]) & (F.col("batch") > after))
    return found.select("change_id", "sequence", "event_time").dropDuplicates(["change_id"])


def _applied(new: DataFrame, plan: _Plan, target: _Target) -> Applied:
    task = plan.task
    faults = _faults(under_todays_names(new, task.lineage, plan.mapped), plan)
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
        lineage=plan.digest,
        batch=task.top,
        sequence=_newest_sequence(plan),
        event_time=plan.profile.event_time,
        changes_applied=task.state.changes_applied + number,
        late=task.state.late + late,
        bad_values=task.state.bad_values + len(faults),
        profile=plan.profile,
    )
    notes = (f"rebuilt: {plan.rebuild}",) if plan.rebuild and plan.rebuild != "new table" else ()
    return Applied(state, number, late, plan.counts, faults, notes)


def _newest_sequence(plan: _Plan) -> str | None:
    statements = [s for s, _ in plan.task.lineage.steps] + [s for s, _ in plan.task.lineage.truncates]
    return max([s for s in (plan.profile.max_sequence, *statements) if s], default=None)


def _faults(named: DataFrame, plan: _Plan) -> tuple[tuple[Any, ...], ...]:
    """The cells of the new changes that are null or cut in gold, and changes whose key does not fit."""
    layout = plan.layout
    kinds = {c.name: c.type for c in layout.columns}
    image = F.when(F.col("op") == "delete", F.coalesce("before", "after")).otherwise(F.col("after"))
    tests = [
        _cell(name, image, fault(F.try_element_at(image, F.lit(name)), kind)) for name, kind in kinds.items() if name not in layout.keys
    ]
    for name in layout.keys:
        text = F.try_element_at(image, F.lit(name))
        does_not_fit = (text.isNotNull() & typed(text, kinds[name]).isNull()) | ~F.map_contains_key(image, F.lit(name))
        tests.append(_cell(name, image, F.when(does_not_fit, F.lit("bad_key"))))
    if not any(kind != "string" for kind in kinds.values()):
        return ()
    each = F.explode(F.filter(F.array(*tests), lambda e: e["reason"].isNotNull())).alias("e")
    listed = named.select("change_id", "sequence", each).select("change_id", "sequence", "e.*").limit(MAX_LISTED)
    return tuple(tuple(row) for row in listed.collect())


def _cell(name: str, image: Column, reason: Column) -> Column:
    return F.struct(F.lit(name).alias("column"), F.try_element_at(image, F.lit(name)).alias("text"), reason.alias("reason"))
