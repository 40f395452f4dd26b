"""The keys that a table's changes imply against those that its replica holds."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.contracts.quality import MOST_KEYS
from framework.layer import Run
from framework.quality.measure import key_text
from framework.quality.rules import Rule
from framework.quality.subject import Finding
from framework.tables import read_table
from gold.changes import CHANGES_TABLE, effects, key_names, rows_of, under_todays_names
from gold.merge import Layout
from gold.plan import Task, names_since
from gold.rekeyed import older_keys, under_todays_key
from gold.spelling import fitted
from gold.state import TableState
from gold.strategies import replica
from gold.tasks import Desk, all_tasks


class Implied:
    """What the changes imply; the tables' statements are read once, when a table is first compared."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._lock = threading.Lock()
        self._tasks: dict[tuple[str, object], Task] | None = None

    def compared(self, spark: SparkSession, rule: Rule, state: TableState, since: int) -> Finding:
        """The keys that changes after the silver batch `since` touch: those that must stand do, those that must not do not.

        What looks wrong then is folded again from all changes, so that a late change is no false alarm.
        """
        task = self._task(state)
        through = f"verified through {state.sequence} at {state.event_time} UTC"
        if task is None or task.lineage.is_dropped:
            return Finding(rule, 0, 0, (), "silver shows no such table", is_judged=False)
        differing = self._differing(spark, task, state, since)
        counts = differing.agg(F.count("*")).first()
        failed = int(counts[0]) if counts else 0
        if failed and since >= 0:
            differing = self._differing(spark, task, state, -1)
            failed = differing.count()
        named = differing.orderBy("key").limit(MOST_KEYS).collect() if failed else []
        detail = f"mainstem rebuild {state.name.dotted}" if failed else None
        observed = f"{failed:,} keys differ" if failed else f"{'new' if since >= 0 else 'all'} keys as implied, {through}"
        return Finding(rule, state.changes_applied, failed, tuple(f"{r['key']}: {r['fate']}" for r in named), observed, detail)

    def _task(self, state: TableState) -> Task | None:
        with self._lock:
            if self._tasks is None:
                desk = Desk(self._run.spark, self._run.lake, self._run.config)
                self._tasks = {(task.source, task.name): task for task in all_tasks(desk)}
        return self._tasks.get((state.source, state.name))

    def _differing(self, spark: SparkSession, task: Task, state: TableState, since: int) -> DataFrame:
        layout = Layout(state.columns, state.keys, {})
        keys = key_names(len(layout.keys))
        changes = self._run.lake.read(spark, CHANGES_TABLE).where((F.col("batch") <= state.batch) & (F.col("batch") > since))
        lineage = fitted(task.lineage, state.profile.seen)
        names = names_since(lineage, task.settings, state.profile)
        rows = under_todays_names(rows_of(changes, task.source, lineage), lineage, names)
        if since < 0:
            older, is_partial = older_keys(state.profile, lineage, names, layout), state.profile.has_partial_moves
            rows = under_todays_key(rows, older, lineage.truncated_at, has_partial_moves=is_partial)
        newest = _newest(rows, layout, task, state).alias("c")
        gold = _stored(spark, layout, state).alias("g")
        same = reduce(lambda a, b: a & b, (F.col(f"c.{key}").eqNullSafe(F.col(f"g.{key}")) for key in keys))
        both = newest.join(gold, same, "full_outer" if since < 0 else "left")
        fate = _fate(task, is_all=since < 0)
        key = [F.coalesce(F.col(f"c.{k}"), F.col(f"g.{k}")).alias(name) for k, name in zip(keys, layout.keys, strict=True)]
        found = both.select(*key, fate.alias("fate")).where("fate IS NOT NULL")
        return found.select(key_text(layout.keys).alias("key"), "fate")


def _newest(rows: DataFrame, layout: Layout, task: Task, state: TableState) -> DataFrame:
    """Each key's newest state; `is_put` is false where no row stands, or one that is marked as deleted."""
    profile = replace(state.profile, has_partials=False)  # which columns are told decides nothing about keys
    newest = replica.newest(effects(rows, layout.key_columns), layout, profile, replica.rules_of(task, profile))
    is_there = F.col("is_put") & ~F.col("is_deleted")
    return newest.select(*key_names(len(layout.keys)), "sequence", is_there.alias("is_put"))


def _stored(spark: SparkSession, layout: Layout, state: TableState) -> DataFrame:
    rows = read_table(spark, state.replica or "")
    return replica.live_keys(rows, layout).withColumnRenamed("_cdc_sequence", "stored")


def _fate(task: Task, *, is_all: bool) -> Column:
    is_put, sequence, stored = F.col("is_put"), F.col("sequence"), F.col("stored")
    found = (
        F.when(is_put & stored.isNull(), F.lit("missing in the replica"))
        .when(~is_put & (stored <= sequence), F.lit("deleted in the source"))
        .when(is_put & (stored < sequence), F.lit("older in the replica than its newest change"))
    )
    if not is_all:
        return found
    return F.when(is_put.isNull() & stored.isNotNull(), F.lit("no change put it there")).otherwise(found)
