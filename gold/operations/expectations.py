"""What must hold in gold: keys exist and are unique, types are as applied, and the configured rules pass."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from framework.contracts.ddl_actions import TableName
from framework.contracts.expectations import (
    CheckTarget,
    Finding,
    KnownFindings,
    Measurement,
    MeasurementContext,
    PreviousResults,
    Rule,
)
from framework.contracts.quality import MOST_KEYS, UNMEASURED, Severity
from framework.contracts.table_names import BAD_VALUES_TABLE
from framework.lakehouse.commits import OVERWRITE, operations
from framework.lakehouse.lakehouse import read_table, table_version
from framework.lakehouse.local_tables import local_table
from framework.pipeline.layer import Run
from framework.pipeline.named_table import KnownTable, tables_called
from framework.quality.row_checks import key_text
from framework.quality.rules import default_rules, digest, for_keys, rule_of, unique_by_name
from framework.quality.table_checks import check_relationship, compare_snapshot, read_snapshot
from framework.text.formatting import noun_for, quantity
from gold.operations.key_comparison import ImpliedKeys, KeyRules
from gold.operations.new_rows import new_rows
from gold.operations.progress import Clock, progress_target
from gold.planning.keys import narrow_key
from gold.planning.knowledge import remembered
from gold.planning.table_state import RENAMED, State, TableState, read_states
from gold.schema.layout import Layout
from gold.writing import replica
from gold.writing.bad_values import NOT_LISTED, cells

TYPES = Rule("types", "types")
BAD_VALUES = Rule("bad_values", "bad_values", severity=Severity.WARN)
INSERTS_MET = Rule("inserts_met", "inserts_met", severity=Severity.WARN)
IMPLIED_KEYS = Rule("implied_keys", "implied_keys")
_THREADS = 8
FOREIGN = frozenset(
    {"WRITE", OVERWRITE, "DELETE", "UPDATE", "RESTORE", "CLONE", "COPY INTO", "STREAMING UPDATE", "TRUNCATE"}
)
"""The operations of Delta with which gold never changes a replica."""

_States = Mapping[tuple[str, TableName], TableState]


@dataclass(frozen=True, slots=True)
class _Table:
    """A replica to check: its state, its columns' names in gold, and its rules with those names."""

    run: Run
    state: TableState
    names: Mapping[str, str]
    rules: tuple[Rule, ...]
    others: _States
    versions: Mapping[str, int | None]

    @property
    def keys(self) -> tuple[str, ...]:
        """The key's columns in gold."""
        return tuple(self.names[key] for key in self.state.keys)

    def rows(self, spark: SparkSession) -> DataFrame:
        """The rows of the replica, without those that a soft delete has marked."""
        return _live_rows(spark, self.state)


def expectations(run: Run, previous: PreviousResults) -> Sequence[CheckTarget]:
    """The check targets of gold: each replica, and the progress of each table."""
    known = remembered(run)
    states = read_states(run.spark, run.lake) if known is None else known.states
    implied, versions = ImpliedKeys(run, states), _versions(run, states)
    found: list[CheckTarget] = []
    clock = Clock(run, states) if states else None
    for state in _asked_states(run, states):
        if clock is not None and state.state is not State.DROPPED:
            found.append(progress_target(run, state, clock))
        if state.replica is not None and state.state is not State.DROPPED:
            found += _replica(_table(run, state, states, versions), implied, previous)
    return found


def _asked_states(run: Run, states: _States) -> list[TableState]:
    """The states of the tables that gold keeps up: of all, or of those that the run is about."""
    known = [
        KnownTable(source, name, run.config.settings(source, name.database, name.schema, name.table))
        for source, name in sorted(states, key=repr)
        if source in run.config.sources
    ]
    if run.table is not None:
        known = tables_called(run.table, known, lambda one: states[one.source, one.name].reason == RENAMED)
    return [states[one.source, one.name] for one in known if not one.settings.exclude]


def _versions(run: Run, states: _States) -> Mapping[str, int | None]:
    """The newest version of each replica, read in parallel: in an object store each request takes time."""
    places = sorted(
        {
            state.replica
            for state in states.values()
            if state.replica is not None and state.state is not State.DROPPED
        }
    )
    with ThreadPoolExecutor(max_workers=_THREADS) as pool:
        return dict(zip(places, pool.map(partial(table_version, run.spark), places), strict=True))


def _table(run: Run, state: TableState, states: _States, versions: Mapping[str, int | None]) -> _Table:
    names = Layout(state.columns, state.keys, {}).gold_names
    quality = run.config.quality
    keys = [names[key] for key in state.keys]
    entries = [rule_of(entry) for entry in quality.rules_of(state.name) if entry.on_change is None]
    rules = [for_keys(_with_gold_names(rule, names), keys) for rule in entries]
    return _Table(
        run,
        state,
        names,
        unique_by_name([*(default_rules(keys) if quality.defaults else ()), *rules]),
        states,
        versions,
    )


def _with_gold_names(rule: Rule, names: Mapping[str, str]) -> Rule:
    """The rule with gold's column names, where those of the source differ."""
    columns = tuple(names.get(name, name) for name in rule.columns)
    return rule if columns == rule.columns else replace(rule, columns=columns)


def _replica(table: _Table, implied: ImpliedKeys, previous: PreviousResults) -> Sequence[CheckTarget]:
    run, state = table.run, table.state
    path = state.replica or ""
    version = table.versions.get(path)
    quality = run.config.quality
    if version is None or not (table.rules or quality.defaults or quality.reconciliation):
        return ()
    suite = digest(
        table.rules, quality.model_dump(include={"defaults", "reconciliation", "scan"}), _other_inputs(table)
    )
    shared = _key_rules(table) if quality.reconciliation and state.keys else None
    rules = tuple(
        rule for rule in table.rules if shared is None or rule not in (shared.not_null, shared.unique)
    )
    target = CheckTarget(
        "gold",
        state.source,
        state.name,
        rules,
        table.rows,
        table.keys,
        version=version,
        batch=state.batch,
        suite=suite,
        replica=path,
        size=state.changes_applied,
        reads_beyond=any(_has_no_version(rule) for rule in table.rules),
    )

    def measurements(context: MeasurementContext) -> Sequence[Measurement]:
        return (
            [implied.measurement(context, shared, state, _since(run, target, shared, path, previous))]
            if shared is not None
            else []
        )

    def known_findings() -> KnownFindings | None:
        stored = local_table(path, version)
        found: Sequence[Finding] | None = ()
        if stored is not None and shared is not None:
            found = implied.known_findings(shared, state, _since(run, target, shared, path, previous), stored)
        if stored is None or found is None:
            return None
        if quality.defaults:
            found = [*found, _types(StructType.fromJson(dict(stored.schema)), table), *_by_state(state)]
        is_measured = any(rule.kind != "freshness" for rule in rules)
        if not is_measured and not (quality.defaults and state.bad_values):
            return KnownFindings(found)
        rest, new = replace(target, own_findings=unknown_findings), new_rows(target, stored, previous)
        if new is not None:
            rest = replace(rest, rows=new.rows, judged_rows=new.judged, size=new.count)
        return KnownFindings(found, rest)

    def unknown_findings(spark: SparkSession) -> Sequence[Finding]:
        found = [check(spark) for check in _table_checks(table)]
        return [*found, _bad_values(spark, table)] if quality.defaults and state.bad_values else found

    def own_findings(spark: SparkSession) -> Sequence[Finding]:
        found = unknown_findings(spark)
        if not quality.defaults:
            return found
        return [*found, _types(table.rows(spark).schema, table), *_by_state(state)]

    return (
        replace(
            target,
            measurements=measurements,
            own_findings=own_findings,
            known_findings=known_findings,
        ),
    )


def _key_rules(table: _Table) -> KeyRules:
    """The default rules that a comparison of keys also measures; configured rules are separate."""
    defaults = {rule.kind: rule for rule in default_rules(table.keys) if rule in table.rules}
    return KeyRules(defaults.get("not_null"), defaults.get("unique"), IMPLIED_KEYS)


def _since(run: Run, target: CheckTarget, rules: KeyRules, path: str, previous: PreviousResults) -> int:
    """The silver batch after which keys are compared.

    All keys are compared where they differed the last time, where something else has written to the replica,
    and where an older copy of it was put back.
    """
    since, last = previous.batch(target.id), previous.of(target.id, IMPLIED_KEYS.name)
    version, judged_at = previous.version(target.id), previous.started_at(target.id)
    names = {rule.name for rule in rules.all}
    has_failed = any(
        not result.success for result in previous.results.get(target.id, ()) if result.rule in names
    )
    if last is None or has_failed or since == target.batch or version is None or judged_at is None:
        return -1
    done = operations(run.spark, path, version, judged_at)
    return since if done is not None and done.isdisjoint(FOREIGN) else -1


def _other_inputs(table: _Table) -> tuple[object, ...]:
    """What rules read besides the table: their results are valid as long as that has not changed either."""
    found: list[object] = []
    for rule in table.rules:
        other = _other(table, rule)
        if other is not None and other.replica:
            found.append((table.versions.get(other.replica), str(other.state)))
        if rule.snapshot and rule.snapshot.path and Path(rule.snapshot.path).exists():
            found.append(os.stat(rule.snapshot.path).st_mtime_ns)
    return tuple(found)


def _has_no_version(rule: Rule) -> bool:
    """Whether the rule reads a dump of which nothing tells whether it has changed: all but a local file."""
    snapshot = rule.snapshot
    return snapshot is not None and not (snapshot.path and Path(snapshot.path).is_file())


def _table_checks(table: _Table) -> list[Callable[[SparkSession], Finding]]:
    return [
        partial(_check, table=table, rule=rule)
        for rule in table.rules
        if rule.kind in ("relationship", "snapshot")
    ]


def _check(spark: SparkSession, *, table: _Table, rule: Rule) -> Finding:
    """The finding of a rule; an unreadable snapshot fails its rule alone, and its error text is left out."""
    try:
        return (_related if rule.kind == "relationship" else _against_snapshot)(spark, table=table, rule=rule)
    except Exception as error:
        return Finding(
            rule,
            0,
            1,
            (),
            UNMEASURED,
            f"{type(error).__name__}: look at the place, the options and the columns",
        )


def _other(table: _Table, rule: Rule) -> TableState | None:
    if rule.to is None:
        return None
    found = []
    for (source, name), state in table.others.items():
        settings = table.run.config.settings(source, name.database, name.schema, name.table)
        if rule.to in (name.dotted, settings.replica):
            found.append(state)
    mine = (state for state in found if state.source == table.state.source)
    return next(mine, found[0] if found else None)


def _related(spark: SparkSession, *, table: _Table, rule: Rule) -> Finding:
    other = _other(table, rule)
    if other is None or other.replica is None:
        return Finding(rule, 0, 1, (), f"no replica {rule.to}", "it has no rows yet, or another name")
    if other.state is State.PARKED:
        return Finding(
            rule, 0, 0, (), f"{rule.to} is parked: it may lack rows", other.reason, is_judged=False
        )
    names = Layout(other.columns, other.keys, {}).gold_names
    keys = tuple(names.get(key, key) for key in rule.to_keys or other.keys)
    if len(keys) != len(rule.columns):
        return Finding(
            rule,
            0,
            1,
            (),
            f"{rule.to} has the key {', '.join(keys)}",
            "name as many columns as the key has, or write `keys`",
        )
    return check_relationship(
        table.rows(spark), _live_rows(spark, other), replace(rule, to_keys=keys), table.keys
    )


def _live_rows(spark: SparkSession, state: TableState) -> DataFrame:
    return replica.live_rows(read_table(spark, state.replica or ""))


def _against_snapshot(spark: SparkSession, *, table: _Table, rule: Rule) -> Finding:
    if rule.snapshot is None:
        raise ValueError("a rule of kind snapshot names one")
    dump, name = read_snapshot(spark, rule.snapshot), table.state.name.dotted
    return compare_snapshot(table.rows(spark), dump, rule, table.keys, name)


def _types(columns: StructType, table: _Table) -> Finding:
    """The replica's columns in Delta compared with those that were applied; runs no job."""
    have = {field.name: field.dataType.simpleString() for field in columns.fields}
    wanted = {table.names[column.name]: column.type for column in table.state.columns}
    wrong = [
        f"{name}: {have.get(name, 'missing')}, applied as {kind}"
        for name, kind in wanted.items()
        if have.get(name) != kind
    ]
    return Finding(
        TYPES,
        len(wanted),
        len(wrong),
        tuple(sorted(wrong)[:MOST_KEYS]),
        f"{len(wrong)} of {quantity(len(wanted), 'column')} {noun_for(len(wrong), 'differs', 'differ')}",
    )


def _by_state(state: TableState) -> Sequence[Finding]:
    """What the state alone tells: that no cell is bad, and whether added rows met existing ones."""
    found = [] if state.bad_values else [Finding(BAD_VALUES, state.changes_applied, 0, (), "none")]
    if not state.keys:
        return found
    total = state.collisions.total
    detail = narrow_key(state.keys) if total else None
    return [
        *found,
        Finding(INSERTS_MET, state.changes_applied, total, (), str(state.collisions), detail),
    ]


def _bad_values(spark: SparkSession, table: _Table) -> Finding:
    """The cells that are null or truncated in existing rows, and the changes whose key does not fit."""
    state, name = table.state, table.state.name
    mine = (F.col("source") == state.source) & F.col("database").eqNullSafe(F.lit(name.database))
    mine = mine & F.col("schema").eqNullSafe(F.lit(name.schema)) & (F.col("table") == name.table)
    listed = table.run.lake.read(spark, BAD_VALUES_TABLE).where(mine)
    listed = listed.select("change_id", F.col("column").alias("cell"), "reason", cells().alias("cells"))
    rows = table.rows(spark).select(
        "_cdc_change_id", key_text(table.keys or ("_cdc_change_id",)).alias("key")
    )
    both = listed.join(rows, F.col("change_id") == F.col("_cdc_change_id"), "left")
    both = both.where(F.col("key").isNotNull() | F.col("reason").isin("bad_key", NOT_LISTED))
    row_text = F.coalesce("key", F.concat(F.lit("change "), F.col("change_id")))
    text = F.concat(row_text, F.lit(": "), F.col("cell"), F.lit(" "), F.col("reason"))
    both = both.select(F.when(F.col("reason") != NOT_LISTED, text).alias("key"), "cells")
    others = F.coalesce(F.sum(F.when(F.col("key").isNull(), F.col("cells"))), F.lit(0))
    failed, unlisted = both.agg(F.count_distinct("key"), others).collect()[0]
    named = (
        both.where(F.col("key").isNotNull())
        .select("key")
        .distinct()
        .orderBy("key")
        .limit(MOST_KEYS)
        .collect()
        if failed
        else []
    )
    detail = "ops/bad_values has their texts" if failed else None
    if unlisted:
        detail = f"{quantity(unlisted, 'more cell')} beyond the number that ops/bad_values lists"
    count = failed + unlisted
    return Finding(
        BAD_VALUES,
        state.changes_applied,
        count,
        tuple(row[0] for row in named),
        quantity(count, "cell"),
        detail,
    )
