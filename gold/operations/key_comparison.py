"""Comparing the keys that a table's changes imply with the keys of its replica."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from framework.contracts.ddl_actions import TableName
from framework.contracts.expectations import Finding, Measurement, MeasurementContext, Rule
from framework.contracts.quality import MOST_KEYS
from framework.contracts.table_names import CHANGES_TABLE
from framework.contracts.table_schemas import CHANGES
from framework.lakehouse.lakehouse import read_table
from framework.lakehouse.local_tables import DataFile, LocalTable
from framework.pipeline.layer import Run
from framework.quality.batch_log import batch_log, new_changes
from framework.quality.measurement import measure
from framework.quality.memory import memory_of
from framework.quality.row_checks import key_text
from framework.text.formatting import quantity
from gold.changes.effects import effects, key_names, table_rows, with_current_names
from gold.changes.former_keys import former_keys, with_current_key
from gold.changes.merge_policy import MergePolicy
from gold.changes.profile import Profile, namings_for
from gold.operations.many_keys import ChangeFile, change_files, many_rows_as_implied
from gold.operations.new_keys import NotTold, rows_as_implied
from gold.planning.discovery import all_tasks
from gold.planning.knowledge import CachedChanges, remembered
from gold.planning.plan import policy_of
from gold.planning.table_state import TableState
from gold.planning.task import Task
from gold.schema.case_matching import match_case
from gold.schema.cell_readings import with_readings
from gold.schema.layout import Layout
from gold.writing import replica
from gold.writing.change_cache import cache_all_changes, changes_of


@dataclass(frozen=True, slots=True)
class KeyRules:
    """The rules that a comparison of keys measures.

    Each row has a key, each key has one row, and the keys are those that the changes imply.
    """

    not_null: Rule | None
    unique: Rule | None
    implied: Rule

    @property
    def all(self) -> tuple[Rule, ...]:
        """Those of the three that there are."""
        return tuple(rule for rule in (self.not_null, self.unique, self.implied) if rule is not None)


class ImpliedKeys:
    """Compares keys of tables.

    Reads statements, and the changes of a small pipeline, once and when needed, unless gold has read them in
    the same run.
    """

    def __init__(self, run: Run, states: Mapping[tuple[str, TableName], TableState]) -> None:
        self._run, self._states = run, states
        self._lock = threading.Lock()
        self._tasks: dict[tuple[str, TableName], Task] | None = None
        self._cached: CachedChanges | None = None
        self._is_cached = False

    def measurement(
        self, context: MeasurementContext, rules: KeyRules, state: TableState, since: int
    ) -> Measurement:
        """Compares the keys that changes after the silver batch `since` touch; -1 compares all keys.

        If new keys seem to fail, all keys are compared, so that a late change causes no false alarm.
        """
        measured_rules = rules.all
        task = self._tasks_by_place().get((state.source, state.name))
        if task is None or task.lineage.is_dropped:
            unknown = [
                Finding(rule, 0, 0, (), "silver shows no such table", is_judged=False)
                for rule in measured_rules
            ]
            return Measurement(
                measured_rules, lambda: context.spark.range(1).select(F.array("id")), lambda _: unknown
            )
        since = since_truncates(task, state, since)
        comparison = _Comparison(task, state, rules, since, self._changes(context, task, state, since))
        comparison_of_all = self.measurement(context, rules, state, -1) if since >= 0 else None
        return Measurement(
            measured_rules,
            lambda: comparison.counts(context),
            lambda counts: comparison.findings(context, counts, comparison_of_all),
        )

    def known_findings(
        self, rules: KeyRules, state: TableState, since: int, stored: LocalTable | None
    ) -> Sequence[Finding] | None:
        """The findings where this process can tell that new keys are as implied; None where Spark must look.

        `stored` is the replica.
        """
        known = remembered(self._run)
        task = None if known is None else self._tasks_by_place().get((state.source, state.name))
        if task is None or task.lineage.is_dropped or stored is None:
            return None
        memory, since = memory_of(self._run), since_truncates(task, state, since)
        is_new = memory.batch <= since and (memory.batch >= 0 or memory.is_first)
        try:
            if is_new and (few := self._few_new_changes) is not None:
                rows = rows_as_implied(task, state, few, since, stored)
            elif is_new and since >= 0 and (new := self._new_change_files) is not None:
                rows = many_rows_as_implied(task, state, new, since, stored)
            elif since < 0 and (every := self._change_files) is not None:
                rows = many_rows_as_implied(task, state, every, since, stored)
            else:
                return None
        except NotTold:
            return None
        return _all_implied(rules, state, rows, since)

    @cached_property
    def _new_files(self) -> Sequence[DataFile] | None:
        """The files of the changes that came after those of earlier runs; None where Spark must read them."""
        memory = memory_of(self._run)
        return new_changes(memory, batch_log(memory))

    @cached_property
    def _few_new_changes(self) -> pa.Table | None:
        """The changes that came after those of earlier runs; None where they are not few."""
        memory = memory_of(self._run)
        if self._new_files is None:
            return None
        return memory.new_rows(CHANGES_TABLE, memory.marks.get(CHANGES_TABLE), CHANGES.names)

    @cached_property
    def _new_change_files(self) -> Sequence[ChangeFile] | None:
        return change_files(self._new_files)

    @cached_property
    def _change_files(self) -> Sequence[ChangeFile] | None:
        """The files of all changes; None where Spark must read them."""
        table = memory_of(self._run).table(CHANGES_TABLE)
        return change_files(None if table is None else table.files)

    def _tasks_by_place(self) -> Mapping[tuple[str, TableName], Task]:
        with self._lock:
            if self._tasks is None:
                known = remembered(self._run)
                tasks = all_tasks(self._run, self._states) if known is None else known.tasks
                self._tasks = {(task.source, task.name): task for task in tasks}
        return self._tasks

    def _cached_changes(self, task: Task) -> CachedChanges | None:
        """What gold has kept of the table's changes, or what is read once for all tables."""
        known, tasks = remembered(self._run), self._tasks_by_place()
        if known is not None and known.changes is not None and known.changes.covers(task):
            return known.changes
        with self._lock:
            if not self._is_cached:
                run = self._run
                self._cached = cache_all_changes(run.spark, run.lake, list(tasks.values()))
                self._is_cached = True
        return self._cached

    def _changes(self, context: MeasurementContext, task: Task, state: TableState, since: int) -> DataFrame:
        changes = changes_of(context.spark, self._run.lake, task, self._cached_changes(task), since)
        return changes.where((F.col("batch") <= state.batch) & (F.col("batch") > since))


def since_truncates(task: Task, state: TableState, since: int) -> int:
    """The batch after which keys are compared; -1 where a truncate was applied after it.

    A truncate removes rows whose keys no new change names.
    """
    batches = [batch for _, batch in task.truncate_times.values() if since < batch <= state.batch]
    return -1 if batches and task.truncated_at is not None else since


@dataclass(frozen=True, slots=True)
class _Comparison:
    """A comparison of a replica with changes after the silver batch `since`; -1 for all changes."""

    task: Task
    state: TableState
    rules: KeyRules
    since: int
    changes: DataFrame

    @property
    def layout(self) -> Layout:
        """The replica's columns."""
        return Layout(self.state.columns, self.state.keys, {})

    def counts(self, context: MeasurementContext) -> DataFrame:
        """The numbers of rows, rows without a key, rows beyond the first of a key, and differing keys."""
        no_key = reduce(lambda a, b: a | b, (F.col(key).isNull() for key in self._keys))
        n = F.coalesce("n", F.lit(0))
        counts = (
            F.sum(n),
            F.sum(F.when(no_key, n)),
            F.sum(F.greatest(n - 1, F.lit(0))),
            F.count("difference"),
        )
        return self._compared(context).agg(F.array(*counts))

    def findings(
        self, context: MeasurementContext, counts: Sequence[int], comparison_of_all: Measurement | None
    ) -> Sequence[Finding]:
        """The findings for these counts; where new keys fail, those of the comparison of all keys."""
        rows, nulls, doubles, differing = counts
        if comparison_of_all is not None and (nulls or doubles or differing):
            return measure(comparison_of_all)
        found = []
        for rule, failed, which in (
            (self.rules.not_null, nulls, " OR ".join(f"{key} IS NULL" for key in self._keys)),
            (self.rules.unique, doubles, "n > 1"),
        ):
            if rule is not None:
                named = self._examples(context, which, F.col("key")) if failed else ()
                found.append(Finding(rule, rows, failed, named, _observed(failed, rows, self.since)))
        if not differing:
            return [*found, _implied(self.rules, self.state, self.since)]
        text = F.concat("key", F.lit(": "), "difference")
        named = self._examples(context, "difference IS NOT NULL", text)
        told = quantity(differing, "key differs", "keys differ")
        detail = f"mainstem rebuild {self.state.name.dotted}"
        implied = Finding(self.rules.implied, self.state.changes_applied, differing, named, told, detail)
        return [*found, implied]

    @property
    def _keys(self) -> tuple[str, ...]:
        return tuple(key_names(len(self.state.keys)))

    def _examples(self, context: MeasurementContext, which: str, text: Column) -> tuple[str, ...]:
        names = [self.layout.gold_names[key] for key in self.layout.keys]
        both = (
            self._compared(context)
            .where(which)
            .select(*(F.col(k).alias(name) for k, name in zip(self._keys, names, strict=True)), "difference")
        )
        rows = (
            both.select(key_text(names).alias("key"), "difference")
            .select(text.alias("key"))
            .orderBy("key")
            .limit(MOST_KEYS)
        )
        return tuple(row[0] for row in rows.collect())

    def _compared(self, context: MeasurementContext) -> DataFrame:
        """One row for each key: k0…, `n` and `difference`.

        `n` is how many rows the replica has, null where it has none; `difference` is null where the key is
        as implied.
        """
        task, state, layout = self.task, self.state, self.layout
        lineage = match_case(task.lineage, state.profile.evidence)
        names = namings_for(lineage, task.settings.schema_policy, state.profile, state.columns)
        names = with_readings(names, state.columns, state.profile.evidence)
        rows = with_current_names(table_rows(self.changes, task.source, lineage), lineage, names)
        if self.since < 0:
            former, is_partial = (
                former_keys(state.profile, lineage, names, layout),
                state.profile.has_partial_key_changes,
            )
            rows = with_current_key(rows, former, task.truncated_at, has_partial_key_changes=is_partial)
        profile = replace(state.profile, has_partials=False)  # the columns of an image do not matter for keys
        newest = newest_keys(context.whole(rows), layout, profile, policy_of(task, profile))
        gold = replica.live_keys(read_table(context.spark, state.replica or ""), layout)
        if self.since >= 0 and not context.is_small:  # a large replica is read, but not sorted
            gold = _joined(gold, newest.select(*self._keys), self._keys, "left_semi").select("g.*")
        stored = (
            context.whole(gold)
            .groupBy(*self._keys)
            .agg(F.max("_cdc_sequence").alias("stored"), F.count("*").alias("n"))
        )
        both = _joined(newest, stored, self._keys, "full_outer" if self.since < 0 else "left")
        keys = [F.coalesce(F.col(f"g.{key}"), F.col(f"c.{key}")).alias(key) for key in self._keys]
        return both.select(*keys, "n", _difference(is_all=self.since < 0).alias("difference"))


def _all_implied(rules: KeyRules, state: TableState, rows: int, since: int) -> list[Finding]:
    """The findings where so many rows have a key, each one of its own, and all keys are as implied."""
    found = [Finding(rule, rows, 0, (), _observed(0, rows, since)) for rule in rules.all[:-1]]
    return [*found, _implied(rules, state, since)]


def _observed(failed: int, rows: int, since: int) -> str:
    return f"{failed:,} of {quantity(rows, 'new row' if since >= 0 else 'row')}"


def _implied(rules: KeyRules, state: TableState, since: int) -> Finding:
    which = "new" if since >= 0 else "all"
    through = f"verified through {state.sequence} at {state.event_time} UTC"
    return Finding(rules.implied, state.changes_applied, 0, (), f"{which} keys as implied, {through}")


def _joined(left: DataFrame, right: DataFrame, keys: Sequence[str], how: str) -> DataFrame:
    same = reduce(lambda a, b: a & b, (F.col(f"g.{key}").eqNullSafe(F.col(f"c.{key}")) for key in keys))
    return left.alias("g").join(right.alias("c"), same, how)


def newest_keys(rows: DataFrame, layout: Layout, profile: Profile, policy: MergePolicy) -> DataFrame:
    """The newest state of each key that changes with current names touch.

    Returns:
        k0…, `sequence`, and `is_upsert`: false where there is no row, or one that is marked as deleted.
    """
    found = effects(rows, layout.key_columns)
    if not profile.has_key_changes:  # only these are told apart by their images
        nothing = F.create_map().cast("map<string,string>")
        found = found.withColumns(dict.fromkeys(("before", "after"), nothing))
    newest = replica.newest_states(found, layout, profile, policy)
    has_row = F.col("is_upsert") & ~F.coalesce("is_deleted", F.lit(False))
    return newest.select(*key_names(len(layout.keys)), "sequence", has_row.alias("is_upsert"))


def _difference(*, is_all: bool) -> Column:
    """What is wrong with a key; without a row in the replica `n` is null, without a change `is_upsert`."""
    is_upsert, sequence, stored = F.col("is_upsert"), F.col("sequence"), F.col("stored")
    difference = (
        F.when(is_upsert & F.col("n").isNull(), F.lit("missing in the replica"))
        .when(~is_upsert & (stored <= sequence), F.lit("deleted in the source"))
        .when(is_upsert & (stored < sequence), F.lit("older in the replica than its newest change"))
    )
    if not is_all:
        return difference
    return F.when(is_upsert.isNull() & F.col("n").isNotNull(), F.lit("no change put it there")).otherwise(
        difference
    )
