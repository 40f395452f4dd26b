"""Bringing one table up to a silver batch, as its plan says: merged in place, or rebuilt from silver in one commit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.config_rules import BadValues
from framework.crash import crash_point
from framework.tables import Lakehouse, read_table
from gold import account, bad_values, merge, moves
from gold.changes import effects, key_names
from gold.gate import refuse_broken
from gold.held import changes_of
from gold.merge import Layout
from gold.plan import Plan, Task, decide, folder_of, made_as, refuse_rival, refuse_statements
from gold.profile import SchemaColumn
from gold.state import State, TableState
from gold.strategies import append, history, replica


@dataclass(frozen=True, slots=True)
class Applied:
    """What came of a task: the new state, cells to list, and a line for people. `applied` counts changes, `seconds` is what it took."""

    state: TableState
    applied: int = 0
    late: int = 0
    ops: Mapping[str, int] = field(default_factory=dict)
    faults: tuple[tuple[Any, ...], ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class _Target:
    """Where the replica is, and the history where the table has one."""

    replica: str
    history: str | None


def apply_table(
    spark: SparkSession, lake: Lakehouse, task: Task, schemas: Mapping[str, Sequence[SchemaColumn]], held: pa.Table | None = None
) -> Applied:
    """Bring one table up to date, from the changes that are held where they are. Raises for what parks it."""
    if task.lineage.renamed_to is not None:
        return Applied(replace(task.state, batch=task.top, state=State.DROPPED, reason="renamed"))
    changes, plan = decided(spark, lake, task, schemas, held)
    if plan is None:
        is_gone = task.lineage.is_dropped
        return Applied(replace(task.state, batch=task.top, state=State.DROPPED if is_gone else State.ACTIVE, reason=None))
    is_new = F.col("batch") > task.state.batch
    new = account.named(changes.where(is_new), plan)
    if task.settings.bad_values is BadValues.PARK:
        _refuse_bad_values(account.whole(account.named(changes, plan), plan) if plan.rebuild else new, plan)
    crash_point("gold.before_table")
    past = lake.place("gold/" + folder_of(task, is_history=True)) if task.settings.history and plan.layout.keys else None
    target = _Target(lake.place("gold/" + folder_of(task)), past)
    if plan.rebuild is not None:
        _rebuild(account.named(changes, plan), plan, target, _truncates(spark, task, after=-1))
    else:
        _change_columns(spark, plan, target)
        _merge(changes, new, plan, target, _truncates(spark, task, after=task.state.batch))
    crash_point("gold.after_table")
    return _applied(new if plan.older_keys is None else account.keyed(changes, plan).where(is_new), plan, target)


def decided(
    spark: SparkSession, lake: Lakehouse, task: Task, schemas: Mapping[str, Sequence[SchemaColumn]], held: pa.Table | None = None
) -> tuple[DataFrame, Plan | None]:
    """Silver's changes up to the task's batch, and the plan for them; nothing is written. Raises for what parks the table."""
    refuse_rival(task)
    refuse_statements(task)
    changes = changes_of(spark, lake, task, held)
    return changes, decide(spark, lake, changes, task, schemas)


def _refuse_bad_values(named: DataFrame, plan: Plan) -> None:
    """Park the table when a row that it is to hold has a cell that does not fit."""
    layout = plan.layout
    if layout.keys and not plan.task.settings.history:
        rules = replica.rules_of(plan.task, plan.profile)
        named = replica.newest(effects(named, layout.key_columns), layout, plan.profile, rules).where("is_put")
    bad_values.refuse(named, layout, plan.task.name)


def _change_columns(spark: SparkSession, plan: Plan, target: _Target) -> None:
    old = {c.name: c.type for c in plan.task.state.columns}
    new = [c.name for c in plan.layout.columns if c.name not in old]
    wider = [c.name for c in plan.layout.columns if c.name in old and old[c.name] != c.type]
    for path in (target.replica, target.history):
        if path is None:
            continue
        have = set(read_table(spark, path).columns)
        missing = [n for n in new if plan.layout.gold_names[n] not in have]
        if missing:
            merge.add_columns(spark, path, plan.layout, missing)
        if wider:
            merge.widen_columns(spark, path, plan.layout, wider)


def _rebuild(rows: DataFrame, plan: Plan, target: _Target, truncates: DataFrame) -> None:
    layout = plan.layout
    if not layout.keys:
        refuse_broken(_put(rows), layout, plan.task.gates, plan.task.name.table)
        append.rewrite(rows, truncates, target.replica, layout)
        return
    rules = replica.rules_of(plan.task, plan.profile)
    rows = account.whole(rows, plan)
    if plan.task.gates:
        states = replica.newest(effects(rows, layout.key_columns), layout, plan.profile, rules)
        refuse_broken(states, layout, plan.task.gates, plan.task.name.table)
    replica.rewrite(rows, target.replica, layout, plan.profile, rules)
    if target.history is not None:
        frame = history.versions(rows, plan.past, plan.profile, _closings(plan), plan.task.settings.track)
        history.rewrite(frame, target.history, plan.past)


def _put(rows: DataFrame) -> DataFrame:
    """The changes of a table without a key as a gate reads them."""
    return rows.select("after", (F.col("op") != "delete").alias("is_put"), (~F.coalesce("partial", F.lit(False))).alias("is_whole"))


def _closings(plan: Plan) -> list[tuple[str, Any]]:
    times = plan.task.truncate_times
    return [(sequence, times[sequence][0] if sequence in times else None) for sequence, _ in plan.task.lineage.truncates]


def _merge(changes: DataFrame, named: DataFrame, plan: Plan, target: _Target, truncates: DataFrame) -> None:
    """Merge the new changes, `named`; `changes` are all there are, for the keys that must be folded again."""
    task, layout = plan.task, plan.layout
    if not layout.keys:
        refuse_broken(_put(named), layout, task.gates, task.name.table)
        append.append(named, truncates, target.replica, layout)
        return
    keys = key_names(len(layout.keys))
    everything = account.named(changes, plan)
    rules = replica.rules_of(plan.task, plan.profile)
    if target.history is not None or plan.batch_profile.has_moves or _is_late(plan):
        everything = account.whole(everything, plan)
        named = everything.where(F.col("batch") > task.state.batch)
    late = _late_keys(named, everything, plan)
    found = replica.newest(effects(named, layout.key_columns), layout, plan.profile, rules).withColumn("is_forced", F.lit(False))
    if late is not None:
        again = replica.newest(_of_keys(effects(everything, layout.key_columns), late, keys), layout, plan.profile, rules)
        found = _of_keys(found, late, keys, without=True).unionByName(again.withColumn("is_forced", F.lit(True)), allowMissingColumns=True)
    refuse_broken(found, layout, task.gates, task.name.table)
    replica.merge_rows(found, target.replica, layout, rules)
    crash_point("gold.between_replica_and_history")
    if target.history is not None:
        touched = effects(named, layout.key_columns).select(*keys)
        touched = (touched if late is None else touched.union(late)).distinct()
        rows = _rows_of_keys(everything, layout, touched, keys)
        frame = history.versions(rows, plan.past, plan.profile, _closings(plan), task.settings.track)
        frame = _of_keys(frame, touched, keys)
        history.merge_keys(frame, touched, target.history, plan.past)


def _is_late(plan: Plan) -> bool:
    """Whether a change of the batch lies below one that has been applied."""
    top, low = plan.task.state.sequence, plan.batch_profile.min_sequence
    return top is not None and low is not None and low <= top


def _late_keys(named: DataFrame, everything: DataFrame, plan: Plan) -> DataFrame | None:
    """Keys that must be folded again from silver: those of late changes, and old keys of key changes.

    What a late change says of a row also stands in the rows that partial changes of the key have made of it since.
    """
    is_late = _is_late(plan)
    if not is_late and not plan.batch_profile.has_moves:
        return None
    columns, keys = plan.layout.key_columns, key_names(len(plan.layout.keys))
    test = F.col("is_move") & ~F.col("is_put")
    if is_late:
        test = test | (F.col("sequence") <= F.lit(plan.task.state.sequence))
    found = effects(named, columns).where(test).select(*keys)
    if is_late and plan.profile.has_partial_moves:
        found = found.union(moves.reached(everything, columns, plan.batch_profile.min_sequence or ""))
    return found.distinct()


def _of_keys(frame: DataFrame, wanted: DataFrame, keys: Sequence[str], without: bool = False) -> DataFrame:
    renamed = wanted.select(*(F.col(k).alias(f"_{k}") for k in keys))
    same = F.lit(True)
    for key in keys:
        same = same & F.col(key).eqNullSafe(F.col(f"_{key}"))
    return frame.join(renamed, same, "left_anti" if without else "left_semi")


def _rows_of_keys(rows: DataFrame, layout: Layout, wanted: DataFrame, keys: Sequence[str]) -> DataFrame:
    ids = _of_keys(effects(rows, layout.key_columns), wanted, keys).select("change_id").distinct()
    return rows.join(ids, "change_id", "left_semi")


def _truncates(spark: SparkSession, task: Task, after: int) -> DataFrame:
    rows = []
    for sequence, change_id in task.lineage.truncates:
        event_time, batch = task.truncate_times.get(sequence, (None, -1))
        if batch > after:
            rows.append((change_id, sequence, event_time))
    return spark.createDataFrame(rows, "change_id string, sequence string, event_time timestamp").dropDuplicates(["change_id"])


def _applied(new: DataFrame, plan: Plan, target: _Target) -> Applied:
    task = plan.task
    faults = bad_values.listed(new, plan.layout, has_other_keys=plan.older_keys is not None)
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
        made_as=made_as(task.settings),
    )
    return Applied(state, number, late, plan.counts, faults, tuple(_notes(plan)))


def _notes(plan: Plan) -> Iterator[str]:
    if plan.rebuild not in (None, "new table", "its first rows"):
        yield f"rebuilt: {plan.rebuild}"
    if plan.task.missed:
        yield f"without the {plan.task.missed} messages that came while it was excluded"
    unclear = plan.task.lineage.not_understood
    if unclear:
        yield f"{len(unclear)} statements not applied, the last: {unclear[-1][1]}"


def _newest_sequence(plan: Plan) -> str | None:
    statements = [s for s, _ in plan.task.lineage.steps] + [s for s, _ in plan.task.lineage.truncates]
    return max([s for s in (plan.profile.max_sequence, *statements) if s], default=None)
