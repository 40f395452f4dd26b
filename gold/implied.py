"""The keys that a table's changes imply against those that its replica holds."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from framework.contracts.actions import TableName
from framework.contracts.quality import MOST_KEYS
from framework.layer import Run
from framework.quality.finding import Finding
from framework.quality.measure import key_text
from framework.quality.question import Look, Question, asked
from framework.quality.rules import Rule
from framework.tables import read_table
from gold.changes import effects, key_names, rows_of, under_todays_names
from gold.held import changes_of, held_changes
from gold.merge import Layout
from gold.plan import Task, names_since
from gold.rekeyed import older_keys, under_todays_key
from gold.spelling import fitted
from gold.state import TableState
from gold.strategies import replica
from gold.tasks import Desk, all_tasks


@dataclass(frozen=True, slots=True)
class KeyRules:
    """The rules that comparing keys answers: each row has a key, each key one row, and the keys are those that are implied."""

    not_null: Rule | None
    unique: Rule | None
    implied: Rule


class Implied:
    """What the changes imply; the tables' statements and, of a small pipeline, its changes are read once, when first asked for."""

    def __init__(self, run: Run, states: Mapping[tuple[str, TableName], TableState]) -> None:
        self._run, self._states = run, states
        self._lock = threading.Lock()
        self._tasks: dict[tuple[str, TableName], Task] | None = None
        self._held: pa.Table | None = None

    def question(self, look: Look, rules: KeyRules, state: TableState, since: int) -> Question:
        """Compare the keys that changes after the silver batch `since` touch: those that must stand do, those that must not do not.

        What looks wrong then is compared again with all changes, so that a late change is no false alarm.
        """
        asked = tuple(rule for rule in (rules.not_null, rules.unique, rules.implied) if rule is not None)
        task = self._task(state)
        if task is None or task.lineage.is_dropped:
            unknown = [Finding(rule, 0, 0, (), "silver shows no such table", is_judged=False) for rule in asked]
            return Question(asked, lambda: look.spark.range(1).select(F.array("id")), lambda _: unknown)
        found = _Compared(task, state, rules, since, self._changes(look, task, state, since))
        again = self.question(look, rules, state, -1) if since >= 0 else None
        return Question(asked, lambda: found.counts(look), lambda counts: found.findings(look, counts, again))

    def _task(self, state: TableState) -> Task | None:
        with self._lock:
            if self._tasks is None:
                desk = Desk(self._run.spark, self._run.lake, self._run.config)
                tasks = all_tasks(desk, self._states)
                self._tasks = {(task.source, task.name): task for task in tasks}
                self._held = held_changes(desk.spark, desk.lake, tasks) if tasks else None
        return self._tasks.get((state.source, state.name))

    def _changes(self, look: Look, task: Task, state: TableState, since: int) -> DataFrame:
        changes = changes_of(look.spark, self._run.lake, task, self._held)
        return changes.where((F.col("batch") <= state.batch) & (F.col("batch") > since))


@dataclass(frozen=True, slots=True)
class _Compared:
    """A replica against the changes of its table after the silver batch `since`, -1 for all of them."""

    task: Task
    state: TableState
    rules: KeyRules
    since: int
    changes: DataFrame

    @property
    def layout(self) -> Layout:
        """The replica's columns."""
        return Layout(self.state.columns, self.state.keys, {})

    def counts(self, look: Look) -> DataFrame:
        """Rows, those without a key, those beyond the first of a key, and keys that differ."""
        no_key = reduce(lambda a, b: a | b, (F.col(key).isNull() for key in self._keys))
        n = F.coalesce("n", F.lit(0))
        counts = (F.sum(n), F.sum(F.when(no_key, n)), F.sum(F.greatest(n - 1, F.lit(0))), F.count("fate"))
        return self._both(look).agg(F.array(*counts))

    def findings(self, look: Look, counts: Sequence[int], again: Question | None) -> Sequence[Finding]:
        """What the counts come to; what fails of new keys alone is asked of all."""
        rows, nulls, doubles, differing = counts
        if again is not None and (nulls or doubles or differing):
            return asked(again)
        found = []
        for rule, failed, which in (
            (self.rules.not_null, nulls, " OR ".join(f"{key} IS NULL" for key in self._keys)),
            (self.rules.unique, doubles, "n > 1"),
        ):
            if rule is not None:
                named = self._named(look, which, F.col("key")) if failed else ()
                found.append(Finding(rule, rows, failed, named, f"{failed:,} of {rows:,} {'new rows' if self.since >= 0 else 'rows'}"))
        return [*found, self._implied(look, differing)]

    def _implied(self, look: Look, differing: int) -> Finding:
        state = self.state
        through = f"verified through {state.sequence} at {state.event_time} UTC"
        detail = f"mainstem rebuild {state.name.dotted}" if differing else None
        observed = f"{differing:,} keys differ" if differing else f"{self._which} keys as implied, {through}"
        named = self._named(look, "fate IS NOT NULL", F.concat("key", F.lit(": "), "fate")) if differing else ()
        return Finding(self.rules.implied, state.changes_applied, differing, named, observed, detail)

    @property
    def _which(self) -> str:
        return "new" if self.since >= 0 else "all"

    @property
    def _keys(self) -> tuple[str, ...]:
        return tuple(key_names(len(self.state.keys)))

    def _named(self, look: Look, which: str, text: Column) -> tuple[str, ...]:
        names = [self.layout.gold_names[key] for key in self.layout.keys]
        both = self._both(look).where(which).select(*(F.col(k).alias(name) for k, name in zip(self._keys, names, strict=True)), "fate")
        rows = both.select(key_text(names).alias("key"), "fate").select(text.alias("key")).orderBy("key").limit(MOST_KEYS)
        return tuple(row[0] for row in rows.collect())

    def _both(self, look: Look) -> DataFrame:
        """A row a key: k0…, `n` rows of the replica, null where there is none, and `fate`, null where all is as it should be."""
        task, state, layout = self.task, self.state, self.layout
        lineage = fitted(task.lineage, state.profile.seen)
        names = names_since(lineage, task.settings, state.profile)
        rows = under_todays_names(rows_of(self.changes, task.source, lineage), lineage, names)
        if self.since < 0:
            older, is_partial = older_keys(state.profile, lineage, names, layout), state.profile.has_partial_moves
            rows = under_todays_key(rows, older, lineage.truncated_at, has_partial_moves=is_partial)
        newest = _newest(look.whole(rows), layout, task, state)
        gold = replica.live_keys(read_table(look.spark, state.replica or ""), layout)
        if self.since >= 0 and not look.is_small:  # so that a large replica is read, and not sorted
            gold = _joined(gold, newest.select(*self._keys), self._keys, "left_semi").select("g.*")
        stored = look.whole(gold).groupBy(*self._keys).agg(F.max("_cdc_sequence").alias("stored"), F.count("*").alias("n"))
        both = _joined(newest, stored, self._keys, "full_outer" if self.since < 0 else "left")
        keys = [F.coalesce(F.col(f"g.{key}"), F.col(f"c.{key}")).alias(key) for key in self._keys]
        return both.select(*keys, "n", _fate(is_all=self.since < 0).alias("fate"))


def _joined(left: DataFrame, right: DataFrame, keys: Sequence[str], how: str) -> DataFrame:
    same = reduce(lambda a, b: a & b, (F.col(f"g.{key}").eqNullSafe(F.col(f"c.{key}")) for key in keys))
    return left.alias("g").join(right.alias("c"), same, how)


def _newest(rows: DataFrame, layout: Layout, task: Task, state: TableState) -> DataFrame:
    """Each key's newest state; `is_put` is false where no row stands, or one that is marked as deleted."""
    profile = replace(state.profile, has_partials=False)  # which columns are told decides nothing about keys
    newest = replica.newest(effects(rows, layout.key_columns), layout, profile, replica.rules_of(task, profile))
    is_there = F.col("is_put") & ~F.col("is_deleted")
    return newest.select(*key_names(len(layout.keys)), "sequence", is_there.alias("is_put"))


def _fate(*, is_all: bool) -> Column:
    """What is wrong with a key; `n` is null where the replica has no row of it, `is_put` where no change told it."""
    is_put, sequence, stored = F.col("is_put"), F.col("sequence"), F.col("stored")
    found = (
        F.when(is_put & F.col("n").isNull(), F.lit("missing in the replica"))
        .when(~is_put & (stored <= sequence), F.lit("deleted in the source"))
        .when(is_put & (stored < sequence), F.lit("older in the replica than its newest change"))
    )
    if not is_all:
        return found
    return F.when(is_put.isNull() & F.col("n").isNotNull(), F.lit("no change put it there")).otherwise(found)
