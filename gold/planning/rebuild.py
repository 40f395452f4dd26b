"""Whether a table is behind, and why it must be rebuilt instead of changed in place."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain

from pyspark.sql import SparkSession

from framework.config.tables import Deletes, SchemaPolicy, TableSettings
from framework.contracts.ddl_actions import AddColumn, ChangeType, TableName
from framework.errors import MainstemError
from framework.lakehouse.lakehouse import Lakehouse, is_called
from framework.lakehouse.older_copies import Mark, is_put_back
from gold.changes.former_keys import other_keys
from gold.changes.profile import Profile, namings_for
from gold.planning.table_state import State, TableState
from gold.planning.task import Task, folder_of
from gold.schema.case_matching import match_case
from gold.schema.columns import ColumnNaming
from gold.schema.layout import Layout
from gold.schema.lineage import ColumnAction, Lineage
from gold.schema.type_inference import can_widen

FAILED_REBUILD = "a rebuild that failed"
"""The value of `built_with` after a failed rebuild: the next run rebuilds the table again."""
BEGUN_REBUILD = "a rebuild for other settings that has begun"
"""The value of `built_with` while a table is rebuilt for other settings.

Until that has ended, the rows may be in the old form or in the new one.
"""


MOST_CHANGES = 200_000_000
"""A late statement, or a type that Delta cannot widen, rebuilds a table of so many changes by itself.

That takes Spark about an hour on a few cores. A larger table waits for somebody who knows the hour.
"""


class RebuildReason(StrEnum):
    """Why a table is rebuilt; the values are what users read."""

    NEW_TABLE = "new table"
    UNKNOWN_PROGRESS = "its progress was not known"
    FIRST_ROWS = "its first rows"
    REPLICA_GONE = "its replica is gone"
    HISTORY_GONE = "its history is gone"
    OLDER_COPY = "it is an older copy of its replica or history"
    OTHER_FOLDER = "another place"
    PLACE_TAKEN = "another table was written in its place"
    HISTORY_ADDED = "its history is to be made"
    OTHER_SETTINGS = "other settings"
    REQUESTED = "asked for"
    REDECODED = "its messages were decoded again"
    SCHEMA_CHANGE = "a schema change"
    LATE_TRUNCATE = "a late truncate"
    TRUNCATE = "a truncate"
    OTHER_KEY = "other key columns"
    GOLD_NAME_TAKEN = "a column has the name that another one had in gold"
    COLUMN_GONE = "a column is gone"
    TYPE_CHANGE = "a column changes its type"
    WIDER_TYPE = "a column takes a wider type"
    COLUMN_RENAMED = "a column has another name in gold"
    LATE_UNDER_FORMER_KEY = "late changes under another key"


@dataclass(frozen=True, slots=True)
class Rebuild:
    """A rebuild and its reason; `detail` names the column where the reason is one column's."""

    reason: RebuildReason
    detail: str | None = None

    def __str__(self) -> str:
        return self.detail or str(self.reason)


@dataclass(frozen=True, slots=True)
class Piece:
    """A segment as digests of lineages contain it: its text is part of states that are already stored."""

    table: TableName
    start: str
    end: str | None


def is_behind(task: Task) -> bool:
    """Whether the table has something to do.

    It has new changes, was parked or repaired, lost its listed bad values or its replica, or has other
    settings or another configured key than it was built with.
    """
    state = task.state
    if task.newest > state.batch or state.state is State.PARKED or task.is_repaired or state.is_unlisted:
        return True
    if not task.has_place or state.state is State.DROPPED:
        return False
    if state.replica is None:
        return state.is_displaced
    return settings_mismatch(task) is not None or _has_other_keys(task)


def settings_mismatch(task: Task) -> RebuildReason | None:
    """Why the stored table is not the one that the configuration requests; None where it is."""
    state = task.state
    if state.replica is None or not is_called(state.replica, "gold/" + folder_of(task)):
        return RebuildReason.OTHER_FOLDER
    if (
        task.settings.history
        and state.keys
        and not is_called(state.history or "", "gold/" + folder_of(task, is_history=True))
    ):
        return RebuildReason.HISTORY_ADDED
    if state.built_with == FAILED_REBUILD:
        return RebuildReason.REQUESTED
    return RebuildReason.OTHER_SETTINGS if _has_other_settings(task) else None


def begun_rebuilds(tasks: Iterable[Task]) -> Iterator[TableState]:
    """The states of tables that the run rebuilds for other settings, with the mark of it.

    The states must be written before the replicas: where the run dies and the settings are put back, the
    replica would not be in the form that its state tells, and nothing would show it.
    """
    for task in tasks:
        state = task.state
        is_written = state.replica is not None and task.rival is None and task.lineage.renamed_to is None
        is_marked = state.built_with in (FAILED_REBUILD, BEGUN_REBUILD)
        if is_written and not is_marked and (_has_other_settings(task) or _has_other_keys(task)):
            yield replace(state, built_with=BEGUN_REBUILD)


def _has_other_settings(task: Task) -> bool:
    built_with = task.state.built_with
    return built_with is not None and built_with != settings_fingerprint(task.settings)


def _has_other_keys(task: Task) -> bool:
    """Whether the configuration names another key than before, of a table whose feed names none."""
    state = task.state
    is_named_by_feed = state.profile.keys or any(keys for _, keys in task.lineage.keys)
    return bool(state.profile.rows) and not is_named_by_feed and (task.settings.keys or ()) != state.keys


def settings_fingerprint(settings: TableSettings) -> str:
    """The settings on which the rows of a replica and its history depend, as one text."""
    policy = SchemaPolicy.LENIENT if settings.schema_policy is SchemaPolicy.FAIL else settings.schema_policy
    kinds = {
        name: str(rule.type or rule.decode)
        for name, rule in sorted(settings.columns.items())
        if rule.type or rule.decode
    }
    return json.dumps([settings.deletes, settings.track, policy, kinds])


def lineage_digest(lineage: Lineage) -> str:
    """A digest of the statements that shape the table: equal digests mean equal columns and segments.

    It starts with the number of column changes. States store it, so that another text here would rebuild
    every table.
    """
    pieces = tuple(Piece(segment.table, segment.start, segment.end) for segment in lineage.segments)
    parts = (pieces, lineage.column_changes, lineage.keys)
    text = hashlib.blake2b(repr(parts).encode(), digest_size=12).hexdigest()
    return f"{len(lineage.column_changes)}:{text}"


def applied_column_changes(state: TableState) -> int:
    """How many changes of its columns the table has applied."""
    return int(state.lineage.partition(":")[0] or 0)


def applied_lineage(state: TableState, lineage: Lineage) -> Lineage:
    """The lineage with as many of its first column changes as the table has applied."""
    return replace(lineage, column_changes=lineage.column_changes[: applied_column_changes(state)])


def begins_as_applied(state: TableState, lineage: Lineage) -> bool:
    """Whether the first column changes are those that the table has applied: none came late."""
    return lineage_digest(applied_lineage(state, lineage)) == state.lineage


def rebuild_before_reading(spark: SparkSession, lake: Lakehouse, task: Task, digest: str) -> Rebuild | None:
    """The rebuild that the table needs before its new changes are read; None where it needs none."""
    reason = _reason_before_reading(spark, lake, task, digest)
    return None if reason is None else Rebuild(reason)


def _reason_before_reading(
    spark: SparkSession, lake: Lakehouse, task: Task, digest: str
) -> RebuildReason | None:
    state, lineage = task.state, task.lineage
    if state.replica is None and not state.revision and _has_replica(spark, lake, task):
        return RebuildReason.UNKNOWN_PROGRESS
    if state.is_displaced and state.state is not State.DROPPED:
        return RebuildReason.PLACE_TAKEN
    if state.replica is None or (state.state is State.DROPPED and not lineage.is_dropped):
        return RebuildReason.NEW_TABLE
    if not state.profile.rows and state.columns:
        return RebuildReason.FIRST_ROWS
    if is_called(state.replica, "gold/" + folder_of(task)) and not lake.exists(
        spark, "gold/" + folder_of(task)
    ):
        return RebuildReason.REPLICA_GONE
    mismatch = settings_mismatch(task)
    if mismatch is not None:
        return mismatch
    if (
        task.settings.history
        and state.keys
        and not lake.exists(spark, "gold/" + folder_of(task, is_history=True))
    ):
        return RebuildReason.HISTORY_GONE
    if any(is_put_back(spark, lake.location(name), mark) for name, mark in marked_places(task)):
        return RebuildReason.OLDER_COPY
    if task.is_rebuild:
        return RebuildReason.REQUESTED
    if task.is_repaired:
        return RebuildReason.REDECODED
    if state.lineage != digest and not any(
        _only_adds(state, one) for one in (lineage, _without_later_end(state, lineage))
    ):
        return RebuildReason.SCHEMA_CHANGE
    return _truncate_reason(task)


def marked_places(task: Task) -> Iterator[tuple[str, Mark]]:
    """The stored tables that the table should have, with the last commits that gold has made in each.

    Besides that of the last run it is the one with which a row was forgotten since.
    """
    for marks in (task.state.marks, task.state.erased):
        for is_history, mark in enumerate(marks):
            if not is_history or task.settings.history:
                yield "gold/" + folder_of(task, is_history=bool(is_history)), mark


def refuse_large(task: Task, rebuild: Rebuild | None) -> None:
    """Parks a very large table that a late statement, or a type to which Delta cannot widen, would rebuild.

    Raises:
        MainstemError: REBUILD_WAITS.
    """
    if rebuild is None or task.is_read_only or task.rows <= MOST_CHANGES:
        return
    is_late = rebuild.reason is RebuildReason.SCHEMA_CHANGE and _has_late_statement(task)
    if is_late or rebuild.reason is RebuildReason.TYPE_CHANGE:
        raise MainstemError(
            "REBUILD_WAITS",
            found="a statement that came late" if is_late else str(rebuild),
            where=f"table {task.name.dotted}, with {task.rows:,} changes",
            action=f"mainstem rebuild {task.name.dotted}, at a time when it may take long; its changes wait",
        )


def _has_late_statement(task: Task) -> bool:
    """Whether a statement that the table has not applied lies before rows that it has applied.

    Of a table that was created again after all of them no such row is left.
    """
    state, lineage = task.state, task.lineage
    if state.sequence is None or lineage.segments[0].start > state.sequence:
        return False
    told = (at for at, batch in task.statement_batches.items() if batch > state.batch)
    # the statements of a copy that was swapped in have the place of the rename, and come without a batch
    moved = (at for at, _ in lineage.column_changes[applied_column_changes(state) :])
    return any(at <= state.sequence for at in chain(told, moved))


def _truncate_reason(task: Task) -> RebuildReason | None:
    """Why a truncate cannot be merged: rows depend on earlier rows, or there is a history."""
    state = task.state
    if task.settings.deletes is Deletes.IGNORE:
        return None
    late = [s for s, _ in task.lineage.truncates if state.sequence and s <= state.sequence]
    new_late = [s for s in late if s in task.truncate_times and task.truncate_times[s][1] > state.batch]
    if new_late and (state.profile.has_partials or state.profile.has_key_changes or task.settings.history):
        return RebuildReason.LATE_TRUNCATE  # the row before a change decides what the change means
    if task.settings.history and any(batch > state.batch for _, batch in task.truncate_times.values()):
        return RebuildReason.TRUNCATE
    return None


def _has_replica(spark: SparkSession, lake: Lakehouse, task: Task) -> bool:
    """Whether the replica exists; not checked in an object store, where the request costs too much."""
    return lake.local_root is not None and lake.exists(spark, "gold/" + folder_of(task))


def _only_adds(state: TableState, lineage: Lineage) -> bool:
    """Whether the statements on columns since the state, all after the applied rows, change no stored row.

    They add columns without a default, or declare a column again at its place: types follow the rows.
    """
    return begins_as_applied(state, lineage) and all(
        _keeps_rows(action) and (state.sequence is None or sequence > state.sequence)
        for sequence, action in lineage.column_changes[applied_column_changes(state) :]
    )


def _without_later_end(state: TableState, lineage: Lineage) -> Lineage:
    """The lineage without the end that a DROP TABLE after all applied rows gives it: the rows stay."""
    last = lineage.segments[-1]
    is_later = last.end is not None and state.sequence is not None and last.end > state.sequence
    if not (lineage.is_dropped and is_later):
        return lineage
    return replace(lineage, segments=(*lineage.segments[:-1], replace(last, end=None)))


def _keeps_rows(action: ColumnAction) -> bool:
    if isinstance(action, ChangeType):
        return not action.first and action.after is None
    return isinstance(action, AddColumn) and action.default is None


def rebuild_for_layout(state: TableState, layout: Layout) -> Rebuild | None:
    """The rebuild that the new layout needs: Delta neither adds nor widens its way there."""
    if state.keys != layout.keys:
        return Rebuild(RebuildReason.OTHER_KEY)
    old = {c.name: c.type for c in state.columns}
    gold, old_gold = layout.gold_names, replace(layout, columns=state.columns).gold_names
    if any(gold.get(name, before) != before for name, before in old_gold.items()):
        return Rebuild(RebuildReason.GOLD_NAME_TAKEN)
    if set(old) - {c.name for c in layout.columns}:
        return Rebuild(RebuildReason.COLUMN_GONE)
    wider: Rebuild | None = None
    for column in layout.columns:
        before = old.get(column.name, column.type)
        if before == column.type:
            continue
        text = f"{column.name} changes from {before} to {column.type}"
        if not can_widen(before, column.type):
            return Rebuild(RebuildReason.TYPE_CHANGE, text)
        # where cells are null because their values did not fit, the wider type may hold those values
        if column.name in layout.keys or state.bad_values:
            wider = wider or Rebuild(RebuildReason.WIDER_TYPE, text)
    return wider


def rebuild_for_names(task: Task, namings: Sequence[ColumnNaming]) -> Rebuild | None:
    """The rebuild for a column with another name in gold now: the name of a dropped column came back."""
    state = task.state
    before = match_case(applied_lineage(state, task.lineage), state.profile.evidence)
    old = namings_for(before, task.settings.schema_policy, state.profile, state.columns)
    for naming, name in state.profile.evidence:
        if old[naming].current_name(name) != namings[naming].current_name(name):
            return Rebuild(RebuildReason.COLUMN_RENAMED, f"{name} has another name in gold")
    return None


def rebuild_for_former_key(
    state: TableState, batch_profile: Profile, namings: Sequence[ColumnNaming], keys: tuple[str, ...]
) -> Rebuild | None:
    """The rebuild for late changes with another key: earlier changes decide which rows they mean."""
    former = other_keys(batch_profile, namings, keys) if keys and state.sequence is not None else {}
    if any(low <= (state.sequence or "") for low in former.values()):
        return Rebuild(RebuildReason.LATE_UNDER_FORMER_KEY)
    return None
