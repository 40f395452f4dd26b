"""What gold is held against, as data: keys there and once, types as applied, the rules of the configuration; and its lag."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.contracts.actions import TableName
from framework.contracts.quality import MOST_KEYS, Severity
from framework.layer import Run
from framework.quality.compare import compared, read_snapshot, related
from framework.quality.finding import Finding
from framework.quality.measure import key_text
from framework.quality.question import Look, Question
from framework.quality.rules import Rule, configured, default_rules, digest, rule_of, told_apart
from framework.quality.subject import Past, Subject
from framework.tables import operations, read_table, table_version
from gold.bad_values import BAD_VALUES_TABLE
from gold.gate import CONDITION
from gold.implied import Implied, KeyRules
from gold.merge import Layout
from gold.state import State, TableState, read_states
from gold.strategies import replica
from gold.tasks import COUNTS_TABLE

TYPES = Rule("types", "types")
BAD_VALUES = Rule("bad_values", "bad_values", severity=Severity.WARN)
IMPLIED_KEYS = Rule("implied_keys", "implied_keys")
APPLIED = Rule("applied", "applied")
GATE = Rule("applied", "gate", is_gate=True)
_LOOKS = 8
KEY_KINDS = ("not_null", "unique", IMPLIED_KEYS.kind)
_IN_BRACKETS = re.compile(r"\[([^\]]*)\]")
FOREIGN = frozenset({"WRITE", "DELETE", "UPDATE", "RESTORE", "COPY INTO", "STREAMING UPDATE", "TRUNCATE"})
"""Operations of Delta by which gold never changes a replica."""

_States = Mapping[tuple[str, TableName], TableState]


@dataclass(frozen=True, slots=True)
class _Table:
    """A replica to judge: its state, what its columns are called in gold, and its rules under those names."""

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
        """The rows that stand; with soft deletes without those that are gone."""
        return _live_rows(spark, self.state)


def expectations(run: Run, past: Past) -> Sequence[Subject]:
    """Each replica that has changed since it was judged, and for each table whether it is applied and fresh."""
    states = read_states(run.spark, run.lake)
    implied = Implied(run, states)
    found: list[Subject] = []
    clock = _Clock(run) if states else None
    versions = _versions(run, states)
    for (source, name), state in sorted(states.items(), key=lambda item: repr(item[0])):
        settings = run.config.settings(name.database, name.schema, name.table)
        if source not in run.config.sources or settings.exclude or run.table not in (None, name.dotted):
            continue
        if clock is not None and state.state is not State.DROPPED:
            found.append(_standing(run, state, clock))
        if state.replica is not None and state.state is not State.DROPPED:
            found += _replica(_table(run, state, states, versions), implied, past)
    return found


def _versions(run: Run, states: _States) -> Mapping[str, int | None]:
    """The newest version of each replica; on an object store a look at each takes its time, so several are looked at at once."""
    places = sorted({state.replica for state in states.values() if state.replica is not None and state.state is not State.DROPPED})
    with ThreadPoolExecutor(max_workers=_LOOKS) as pool:
        return dict(zip(places, pool.map(partial(table_version, run.spark), places), strict=True))


def _table(run: Run, state: TableState, states: _States, versions: Mapping[str, int | None]) -> _Table:
    names = Layout(state.columns, state.keys, {}).gold_names
    quality = run.config.quality
    keys = [names[key] for key in state.keys]
    entries = [rule_of(entry) for entry in configured(quality.rules, state.name) if entry.on_change is None]
    rules = [_renamed(rule, names) for rule in entries]
    return _Table(run, state, names, told_apart([*(default_rules(keys) if quality.defaults else ()), *rules]), states, versions)


def _renamed(rule: Rule, names: Mapping[str, str]) -> Rule:
    """The rule under gold's column names, where the source's own are others."""
    columns = tuple(names.get(name, name) for name in rule.columns)
    return rule if columns == rule.columns else replace(rule, columns=columns)


def _replica(table: _Table, implied: Implied, past: Past) -> Sequence[Subject]:
    run, state = table.run, table.state
    place = state.replica or ""
    version = table.versions.get(place)
    quality = run.config.quality
    if version is None or not (table.rules or quality.defaults or quality.reconciliation):
        return ()
    suite = digest(table.rules, quality.model_dump(include={"defaults", "reconciliation", "scan"}), _beyond(table))
    shared = _key_rules(table) if quality.reconciliation and state.keys else None
    rules = tuple(rule for rule in table.rules if shared is None or rule not in (shared.not_null, shared.unique))
    subject = Subject(
        "gold", state.source, state.name, rules, table.rows, table.keys, version=version, batch=state.batch, suite=suite, replica=place
    )

    def questions(look: Look) -> Sequence[Question]:
        return [implied.question(look, shared, state, _since(run, subject, place, past))] if shared is not None else []

    def measured(spark: SparkSession) -> Sequence[Finding]:
        found = [check(spark) for check in _checks(table)]
        return [*found, _types(spark, table), _bad_values(spark, table)] if quality.defaults else found

    return (replace(subject, questions=questions, measured=measured, size=state.changes_applied),)


def _key_rules(table: _Table) -> KeyRules:
    """The rules of which comparing keys tells too; those that the configuration writes under their names stand for themselves."""
    defaults = {rule.kind: rule for rule in default_rules(table.keys) if rule in table.rules}
    return KeyRules(defaults.get("not_null"), defaults.get("unique"), IMPLIED_KEYS)


def _since(run: Run, subject: Subject, place: str, past: Past) -> int:
    """The silver batch after which keys are compared.

    All keys are, where they differed when they were last compared, and where somebody else has written to the replica.
    """
    since, last = past.batch(subject.place), past.of(subject.place, IMPLIED_KEYS.name)
    version = past.version(subject.place)
    has_failed = any(not result.success for result in past.results.get(subject.place, ()) if result.kind in KEY_KINDS)
    if last is None or has_failed or since == subject.batch or version is None:
        return -1
    done = operations(run.spark, place, version)
    return since if done is not None and done.isdisjoint(FOREIGN) else -1


def _beyond(table: _Table) -> tuple[object, ...]:
    """What rules look at besides the table: its verdicts hold as long as that has not changed either."""
    found: list[object] = []
    for rule in table.rules:
        other = _other(table, rule)
        if other is not None and other.replica:
            found.append((table.versions.get(other.replica), str(other.state)))
        if rule.snapshot and rule.snapshot.path and Path(rule.snapshot.path).exists():
            found.append(os.stat(rule.snapshot.path).st_mtime_ns)
    return tuple(found)


def _checks(table: _Table) -> list[Callable[[SparkSession], Finding]]:
    return [partial(_checked, table=table, rule=rule) for rule in table.rules if rule.kind in ("relationship", "snapshot")]


def _checked(spark: SparkSession, *, table: _Table, rule: Rule) -> Finding:
    """What a rule comes to; a snapshot that cannot be read breaks its rule alone, and no connection's text is told."""
    try:
        return (_related if rule.kind == "relationship" else _against_snapshot)(spark, table=table, rule=rule)
    except Exception as error:
        return Finding(rule, 0, 1, (), "could not be judged", f"{type(error).__name__}: look at the place, the options and the columns")


def _other(table: _Table, rule: Rule) -> TableState | None:
    if rule.to is None:
        return None
    for (_, name), state in table.others.items():
        settings = table.run.config.settings(name.database, name.schema, name.table)
        if rule.to in (name.dotted, settings.replica):
            return state
    return None


def _related(spark: SparkSession, *, table: _Table, rule: Rule) -> Finding:
    other = _other(table, rule)
    if other is None or other.replica is None:
        return Finding(rule, 0, 1, (), f"no replica {rule.to}", "it has no rows yet, or another name")
    if other.state is State.PARKED:
        return Finding(rule, 0, 0, (), f"{rule.to} is parked: it may lack rows", other.reason, is_judged=False)
    names = Layout(other.columns, other.keys, {}).gold_names
    keys = tuple(names.get(key, key) for key in rule.to_keys or other.keys)
    if len(keys) != len(rule.columns):
        return Finding(rule, 0, 1, (), f"{rule.to} has the key {', '.join(keys)}", "name as many columns as the key has, or write `keys`")
    return related(table.rows(spark), _live_rows(spark, other), replace(rule, to_keys=keys), table.keys)


def _live_rows(spark: SparkSession, state: TableState) -> DataFrame:
    return replica.live_rows(read_table(spark, state.replica or ""))


def _against_snapshot(spark: SparkSession, *, table: _Table, rule: Rule) -> Finding:
    if rule.snapshot is None:
        raise ValueError("a rule of kind snapshot names one")
    return compared(table.rows(spark), read_snapshot(spark, rule.snapshot), rule, table.keys)


def _types(spark: SparkSession, table: _Table) -> Finding:
    """The replica's columns as Delta has them against those that were applied; no job."""
    have = {field.name: field.dataType.simpleString() for field in table.rows(spark).schema.fields}
    wanted = {table.names[column.name]: column.type for column in table.state.columns}
    wrong = [f"{name}: {have.get(name, 'missing')}, applied as {kind}" for name, kind in wanted.items() if have.get(name) != kind]
    return Finding(TYPES, len(wanted), len(wrong), tuple(sorted(wrong)[:MOST_KEYS]), f"{len(wrong)} of {len(wanted)} columns differ")


def _bad_values(spark: SparkSession, table: _Table) -> Finding:
    """Cells that are null or cut in rows that stand, and changes whose key does not fit."""
    state = table.state
    if not state.bad_values:
        return Finding(BAD_VALUES, state.changes_applied, 0, (), "none")
    name = state.name
    mine = (F.col("source") == state.source) & F.col("database").eqNullSafe(F.lit(name.database))
    mine = mine & F.col("schema").eqNullSafe(F.lit(name.schema)) & (F.col("table") == name.table)
    listed = table.run.lake.read(spark, BAD_VALUES_TABLE).where(mine).select("change_id", F.col("column").alias("cell"), "reason")
    rows = table.rows(spark).select("_cdc_change_id", key_text(table.keys or ("_cdc_change_id",)).alias("key"))
    both = listed.join(rows, F.col("change_id") == F.col("_cdc_change_id"), "left").where("key IS NOT NULL OR reason = 'bad_key'")
    row_text = F.coalesce("key", F.concat(F.lit("change "), F.col("change_id")))
    text = F.concat(row_text, F.lit(": "), F.col("cell"), F.lit(" "), F.col("reason"))
    texts = F.collect_set(text)
    found = both.agg(F.size(texts), F.slice(F.sort_array(texts), 1, MOST_KEYS)).first()
    failed, named = (int(found[0]), tuple(found[1])) if found else (0, ())
    detail = "ops/bad_values has their texts" if failed else None
    return Finding(BAD_VALUES, state.changes_applied, failed, named, f"{failed:,} cells", detail)


@dataclass(frozen=True, slots=True)
class _Extent:
    batches: tuple[int, ...]
    newest: str | None
    age: int | None


class _Clock:
    """How far silver has come, by table and by source, heartbeats included: one job a run."""

    __slots__ = ("_of",)

    def __init__(self, run: Run) -> None:
        rows = run.lake.read(run.spark, COUNTS_TABLE).groupBy("source", "database", "schema", "table")
        is_change = F.col("kind").isin("row", "ddl", "truncate")
        newest = F.max("max_event_time")
        age = F.unix_timestamp(F.current_timestamp()) - F.unix_timestamp(newest)
        batches = F.collect_set(F.when(is_change, F.col("batch")))
        self._of = {
            (r[0], TableName(r[1], r[2], r[3]) if r[3] is not None else None): _Extent(tuple(r[4]), r[5], r[6])
            for r in rows.agg(batches, newest.cast("string"), age).collect()
        }

    def table(self, state: TableState) -> _Extent:
        """The table's own batches and newest event."""
        return self._of.get((state.source, state.name), _Extent((), None, None))

    def source_age(self, source: str) -> int | None:
        """How old the source's newest event is, whatever it speaks of."""
        return min((e.age for (name, _), e in self._of.items() if name == source and e.age is not None), default=None)


def _standing(run: Run, state: TableState, clock: _Clock) -> Subject:
    """Whether the table is applied, fresh, and let through by its gates; from logs alone, in every run."""
    entries = [rule_of(entry) for entry in configured(run.config.quality.rules, state.name) if entry.freshness]
    rules = (APPLIED, *told_apart(entries))
    extent = clock.table(state)
    behind = sum(batch > state.batch for batch in extent.batches)

    def measured(_: SparkSession) -> Sequence[Finding]:
        return [_applied(state, behind), *(_fresh(rule, state, behind, extent, clock) for rule in told_apart(entries))]

    return Subject("source", state.source, state.name, measured=measured, suite=digest(rules))


def _applied(state: TableState, behind: int) -> Finding:
    is_parked = state.state is State.PARKED
    through = f"verified through {state.sequence} at {_moment(state.event_time)}" if state.sequence else "nothing applied"
    reason = (state.reason or "").replace("\n", " ")
    if is_parked and reason.startswith(CONDITION):
        return Finding(GATE, state.changes_applied, 1, tuple(_IN_BRACKETS.findall(reason)), f"parked, {behind} batches behind", reason)
    if not is_parked:
        return Finding(APPLIED, state.changes_applied, 0, (), f"{through}; {behind} batches behind; {state.late:,} late changes")
    return Finding(APPLIED, state.changes_applied, 1, (), f"parked, {behind} batches behind", reason)


def _fresh(rule: Rule, state: TableState, behind: int, extent: _Extent, clock: _Clock) -> Finding:
    """An idle table is as fresh as its source; one that has not applied what silver has is not."""
    ages = [extent.age] if behind else [extent.age, clock.source_age(state.source)]
    age = min((a for a in ages if a is not None), default=None)
    if age is None or rule.limit is None:
        return Finding(rule, 0, 1, (state.name.dotted,), "no event yet")
    failed = int(age > rule.limit.total_seconds())
    keys = (state.name.dotted,) if failed else ()
    return Finding(rule, 1, failed, keys, f"newest event {extent.newest} UTC", f"the source is {timedelta(seconds=age)} behind the clock")


def _moment(moment: datetime | None) -> str:
    return moment.isoformat(sep=" ") if moment else "an unknown time"
