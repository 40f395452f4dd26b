"""Deciding what one table needs: its columns and key, and whether it can be changed in place or is rebuilt from silver.

A table is changed in place when its schema grew only in ways that Delta adds or widens, and its statements only added
columns. Renames, drops, other keys, types that Delta cannot widen, and statements that arrive behind rows beyond them
lead to a rebuild, which is one fold of all the table's changes and gives the same rows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.config_rules import SchemaPolicy, TableSettings
from framework.contracts.actions import AddColumn, ChangeType, DropColumn, TableName
from framework.errors import MainstemError
from framework.names import history_folder, replica_folder
from framework.quality.rules import Rule
from framework.tables import Lakehouse, is_called
from gold import columns as shape
from gold import merge
from gold.changes import rows_of
from gold.columns import Stretch, TableColumn
from gold.lineage import ColumnAction, Lineage
from gold.merge import Layout
from gold.profile import Past, Profile, SchemaColumn, joined, measure
from gold.rekeyed import Keys, older_keys, others
from gold.spelling import fitted
from gold.state import State, TableState
from gold.strategies import history

FAILED_REBUILD = "a rebuild that failed"


@dataclass(frozen=True, slots=True)
class Task:
    """One table to bring up to `top`, the newest silver batch; `newest` is the last that speaks of this table.

    `rows` is what a rebuild would read; `is_rebuild` asks for one. `rival` names the table that has this one's place in gold,
    `missed` counts messages that came while the table was excluded: silver has no images of them.
    `gates` are the rules that its rows must keep before they are merged.
    """

    source: str
    lineage: Lineage
    state: TableState
    settings: TableSettings
    top: int
    newest: int
    rows: int
    truncate_times: Mapping[str, Any] = field(default_factory=dict)
    is_rebuild: bool = False
    rival: str | None = None
    missed: int = 0
    gates: tuple[Rule, ...] = ()

    @property
    def name(self) -> TableName:
        """The table's newest name."""
        return self.lineage.table

    @property
    def has_place(self) -> bool:
        """Whether the table is to have a replica."""
        return self.lineage.renamed_to is None and not self.settings.exclude

    @property
    def is_behind(self) -> bool:
        """Whether there is something to do: new changes, what parked the table, or other settings than it was made by."""
        if self.newest > self.state.batch or self.state.state is State.PARKED:
            return True
        is_kept = self.has_place and self.state.replica is not None and self.state.state is not State.DROPPED
        return is_kept and other_settings(self) is not None


@dataclass(frozen=True, slots=True)
class Plan:
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

    @property
    def older_keys(self) -> Keys | None:
        """The keys under which rows were told before today's."""
        return older_keys(self.profile, self.task.lineage, self.mapped, self.layout) if self.layout.keys else None


def decide(
    spark: SparkSession, lake: Lakehouse, changes: DataFrame, task: Task, schemas: Mapping[str, Sequence[SchemaColumn]]
) -> Plan | None:
    """The plan for a table; None where neither rows nor statements show any column yet."""
    state, lineage = task.state, task.lineage
    digest = lineage_digest(lineage)
    fresh = _rebuild_reason(spark, lake, task, digest)
    since = -1 if fresh else state.batch
    batch_profile = measure(
        rows_of(changes.where(F.col("batch") > since), task.source, lineage), lineage, schemas, Past(state.batch, state.sequence)
    )
    profile = batch_profile if fresh else joined(state.profile, batch_profile)
    lineage = fitted(lineage, profile.seen)
    if not profile.rows and not shape.declared_by_statements(lineage, shape.stretches(lineage, task.settings.schema_policy, ())):
        return _emptied(task, digest, fresh)
    mapped = names_since(lineage, task.settings, profile)
    order = shape.ordered_names(profile.shapes, lineage, mapped)
    found = shape.resolve(order, shape.seen_today(profile.seen, mapped), shape.declared_by_statements(lineage, mapped), task.settings)
    if task.settings.schema_policy is SchemaPolicy.IGNORE:
        found = _frozen(state, mapped, found)
    keys = _keys(task, profile, mapped, found)
    if keys and keys != profile.keys:
        profile, batch_profile = _with_any_moves(profile), _with_any_moves(batch_profile)
    _refuse_case_twins(found)
    layout = Layout(found, keys, _own_columns(task.settings, keys))
    if task.settings.schema_policy is SchemaPolicy.FAIL:
        _refuse_growth(task, layout)
    past = Layout(found, keys, {**merge.OWN, **history.VALIDITY})
    rebuild = (
        fresh or _growth_reason(state, layout) or _renamed_reason(task, mapped) or _other_key_reason(state, batch_profile, mapped, keys)
    )
    counts, late = batch_profile.ops, batch_profile.late
    if rebuild and not fresh:
        profile = measure(rows_of(changes, task.source, lineage), lineage, schemas)
        batch_profile = profile = profile if keys == profile.keys else _with_any_moves(profile)
    return Plan(task, layout, past, profile, batch_profile, mapped, rebuild, digest, counts, late)


def _emptied(task: Task, digest: str, fresh: str | None) -> Plan | None:
    """The plan for a table that was created again and has no row since: empty. None where there is no replica to empty."""
    state, created = task.state, task.lineage.created
    if fresh is None or state.replica is None or task.lineage.is_dropped:
        return None
    found = tuple(TableColumn(c.name, c.type or "string", c.declared) for c in created) or state.columns
    told = task.lineage.keys[-1][1] if task.lineage.keys else state.keys
    keys = tuple(c.name for key in told for c in found if c.name.casefold() == key.casefold())
    layout = Layout(found, keys, _own_columns(task.settings, keys))
    past = Layout(found, keys, {**merge.OWN, **history.VALIDITY})
    return Plan(task, layout, past, Profile(), Profile(), (), fresh, digest, {}, 0)


def _with_any_moves(profile: Profile) -> Profile:
    """The profile of a table whose key is not the one by which its rows were measured: any update may change it."""
    return replace(profile, has_moves=True, has_partial_moves=profile.has_partials)


def names_since(lineage: Lineage, settings: TableSettings, profile: Profile) -> tuple[Stretch, ...]:
    """How the names of each stretch of the table's life map to today's; the lineage is fitted to the profile."""
    return shape.stretches(lineage, settings.schema_policy, _reused(lineage, profile))


def _refuse_growth(task: Task, layout: Layout) -> None:
    """Under the policy `fail`, park a table whose rows bring other columns or types than its replica has."""
    old = {column.name: column.type for column in task.state.columns}
    changed = [f"column {c.name!r} of type {c.type}" for c in layout.columns if old and old.get(c.name) != c.type]
    if changed:
        raise _refused(task, f"{changed[0]}, under schema_policy fail")


def _refused(task: Task, found: str) -> MainstemError:
    return MainstemError(
        "SCHEMA_CHANGE_REFUSED",
        found=found,
        where=f"table {task.name.table}",
        action="set another schema_policy for the table, or exclude it, and run again",
    )


def _frozen(state: TableState, mapped: Sequence[Stretch], found: tuple[TableColumn, ...]) -> tuple[TableColumn, ...]:
    """The columns that the replica has, with their types, under today's names; the first columns of a table are all taken."""
    known = _known_steps(state)
    if not state.columns or known >= len(mapped):
        return found
    frozen = {mapped[known].column(column.name): column.type for column in state.columns}
    return tuple(replace(column, type=frozen[column.name]) for column in found if column.name in frozen)


def _known_steps(state: TableState) -> int:
    """How many steps on its columns the table has taken."""
    return int(state.lineage.partition(":")[0] or 0)


def lineage_digest(lineage: Lineage) -> str:
    """What of the statements shapes the table: equal digests, equal columns and pieces."""
    parts = (lineage.pieces, lineage.steps, lineage.keys)
    return f"{len(lineage.steps)}:{hashlib.blake2b(repr(parts).encode(), digest_size=12).hexdigest()}"


def made_as(settings: TableSettings) -> str:
    """The settings on which the rows of a replica and its history depend."""
    policy = SchemaPolicy.LENIENT if settings.schema_policy is SchemaPolicy.FAIL else settings.schema_policy
    kinds = {name: str(rule.type or rule.decode) for name, rule in sorted(settings.columns.items()) if rule.type or rule.decode}
    return json.dumps([settings.deletes, settings.track, policy, kinds])


def other_settings(task: Task) -> str | None:
    """Why a table that is there is not the one that the configuration asks for; None where it is."""
    state = task.state
    if state.replica is None or not is_called(state.replica, "gold/" + folder_of(task)):
        return "another place"
    if task.settings.history and state.keys and not is_called(state.history or "", "gold/" + folder_of(task, is_history=True)):
        return "its history is to be made"
    if state.made_as == FAILED_REBUILD:
        return "asked for"
    if state.made_as is not None and state.made_as != made_as(task.settings):
        return "other settings"
    return None


def _rebuild_reason(spark: SparkSession, lake: Lakehouse, task: Task, digest: str) -> str | None:
    state, lineage = task.state, task.lineage
    if state.replica is None or (state.state is State.DROPPED and not lineage.is_dropped):
        return "new table"
    if not state.profile.rows and state.columns:
        return "its first rows"
    if is_called(state.replica, "gold/" + folder_of(task)) and not lake.exists(spark, "gold/" + folder_of(task)):
        return "its replica is gone"
    other = other_settings(task)
    if other is not None:
        return other
    if task.settings.history and state.keys and not lake.exists(spark, "gold/" + folder_of(task, is_history=True)):
        return "its history is gone"
    if task.is_rebuild:
        return "asked for"
    if state.lineage != digest:
        return None if _only_adds(state, lineage) else "a schema change"
    late = [s for s, _ in lineage.truncates if state.sequence and s <= state.sequence]
    new_late = [s for s in late if s in task.truncate_times and task.truncate_times[s][1] > state.batch]
    if new_late and (state.profile.has_partials or state.profile.has_moves or task.settings.history):
        return "a late truncate"  # which rows stood on a key decides what its changes mean
    if task.settings.history and any(batch > state.batch for _, batch in task.truncate_times.values()):
        return "a truncate"
    return None


def _only_adds(state: TableState, lineage: Lineage) -> bool:
    """Whether the statements since the state, all behind the rows applied so far, change no row that is there.

    They add columns without a default, or declare a column anew where it stands: types follow the rows.
    """
    known = _known_steps(state)
    if replace(lineage, steps=lineage.steps[:known]) and lineage_digest(replace(lineage, steps=lineage.steps[:known])) != state.lineage:
        return False
    return all(_keeps_rows(action) and (state.sequence is None or sequence > state.sequence) for sequence, action in lineage.steps[known:])


def _keeps_rows(action: ColumnAction) -> bool:
    if isinstance(action, ChangeType):
        return not action.first and action.after is None
    return isinstance(action, AddColumn) and action.default is None


def _reused(lineage: Lineage, profile: Profile) -> set[str]:
    """Names that rows use again after a drop of that name."""
    found: set[str] = set()
    for at, (_, action) in enumerate(lineage.steps):
        if isinstance(action, DropColumn):
            found.update(name for stretch, name in profile.seen if stretch > at and name.casefold() == action.name.casefold())
    return found


def _keys(task: Task, profile: Profile, mapped: Sequence[Stretch], found: Sequence[TableColumn]) -> tuple[str, ...]:
    """The key that the feed names, by its newest row or by a statement behind that, else the configured one."""
    settings, names = task.settings, {c.name for c in found}
    told = _keys_of_statements(task.lineage, profile.keys_sequence, mapped, names)
    named = [mapped[profile.keys_stretch].column(k) for k in profile.keys or ()] if told is None else told
    keys = tuple(k for k in named if k is not None)
    if keys or settings.keys is None:
        return keys
    missing = [k for k in settings.keys if k not in names]
    if missing and profile.rows:
        raise MainstemError(
            "KEY_COLUMN_MISSING",
            found=f"no row has the configured key column {missing[0]!r}",
            where="tables.keys",
            action=f"name key columns among: {', '.join(sorted(names)[:20])}",
        )
    return settings.keys if not missing else ()


def _keys_of_statements(lineage: Lineage, after: str, mapped: Sequence[Stretch], names: set[str]) -> list[str | None] | None:
    """The key by the newest statement behind a position; None where there is none, or the rows lack its columns."""
    if not lineage.keys or lineage.keys[-1][0] <= after:
        return None
    sequence, told = lineage.keys[-1]
    stretch = mapped[sum(at <= sequence for at, _ in lineage.steps)]
    spelled = {name.casefold(): name for name in names}
    columns = [stretch.column(key) for key in told]
    keys = [key if key is None or key in names else spelled.get(key.casefold()) for key in columns]
    return None if None in keys else keys


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
    gold, was_gold = layout.gold_names, replace(layout, columns=state.columns).gold_names
    if any(gold.get(name, was) != was for name, was in was_gold.items()):
        return "a column has the name that another one had in gold"
    if set(old) - {c.name for c in layout.columns}:
        return "a column is gone"
    for column in layout.columns:
        was = old.get(column.name, column.type)
        if was != column.type and not (shape.widens_in_place(was, column.type) and column.name not in layout.keys):
            return f"{column.name} changes from {was} to {column.type}"
    return None


def _renamed_reason(task: Task, mapped: Sequence[Stretch]) -> str | None:
    """Whether columns of the rows that are there have other names in gold now: a dropped one whose name came back."""
    state = task.state
    known = replace(task.lineage, steps=task.lineage.steps[: _known_steps(state)])
    before = fitted(known, state.profile.seen)
    old = shape.stretches(before, task.settings.schema_policy, _reused(before, state.profile))
    for stretch, name in state.profile.seen:
        if old[stretch].column(name) != mapped[stretch].column(name):
            return f"{name} has another name in gold"
    return None


def _other_key_reason(state: TableState, batch_profile: Profile, mapped: Sequence[Stretch], keys: tuple[str, ...]) -> str | None:
    """Whether changes have come late that were told under another key: which rows they mean, the changes before them tell."""
    found = others(batch_profile, mapped, keys) if keys and state.sequence is not None else {}
    return "late changes under another key" if any(low <= (state.sequence or "") for low in found.values()) else None


def refuse_rival(task: Task) -> None:
    """Park a table whose replica would be another table's."""
    if task.rival is not None:
        raise MainstemError(
            "REPLICA_TAKEN",
            found=f"its replica would be that of {task.rival}",
            where=f"table {task.name.table} of source {task.source}",
            action="give one of them another name: tables: - match: … replica: database.other_name",
        )


def refuse_statements(task: Task) -> None:
    """Park what the statements leave no right table for, and under the policy `fail` any change of the schema."""
    unclear = [reason for _, reason in task.lineage.not_understood]
    is_strict = str(task.settings.schema_policy) == "fail"
    lost = [reason for reason in unclear if is_strict or reason.startswith("erase_without_statement")]
    if lost or (is_strict and task.lineage.steps):
        raise _refused(task, lost[0] if lost else "a schema change, under schema_policy fail")


def folder_of(task: Task, is_history: bool = False) -> str:
    """The folder of the table's replica, or of its history, below `gold/`."""
    folder = history_folder if is_history else replica_folder
    return folder(*(task.settings.replica_parts or (task.name.database, task.name.schema, task.name.table)))
