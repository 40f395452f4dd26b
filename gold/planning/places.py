"""Which table a place in gold belongs to: no two tables share a replica."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from framework.lakehouse.lakehouse import Lakehouse, is_called, is_table
from framework.pipeline.layer import Run
from gold.planning.table_state import RENAMED, State, TableId, TableState
from gold.planning.task import Task, folder_of

Unnamed = Mapping[str, TableState]
"""The tables of sources that the configuration does not name, by their places in gold."""
_NO_TABLES: Unnamed = MappingProxyType({})


def unnamed_owners(run: Run, tasks: Iterable[Task], states: Mapping[TableId, TableState]) -> Unnamed:
    """The tables of sources that the configuration does not name which have the place of one of the tasks.

    Such a table has had rows, is neither dropped nor excluded, and its replica or its history is there.
    """
    mine = {
        state.replica.casefold(): state
        for (source, name), state in states.items()
        if source not in run.config.sources
        and state.replica is not None
        and state.state is not State.DROPPED
        and state.profile.rows
        and not run.config.settings(source, name.database, name.schema, name.table).exclude
    }
    found: dict[str, TableState] = {}
    for task in tasks if mine else ():
        owner = mine.get(run.lake.location("gold/" + folder_of(task)).casefold())
        stored = () if owner is None else (owner.replica, owner.history)
        if owner is not None and any(at is not None and is_table(run.spark, at) for at in stored):
            found[_place(task)] = owner
    return found


def with_rivals(tasks: Sequence[Task], unnamed: Unnamed = _NO_TABLES) -> list[Task]:
    """Adds its rival to each task whose place in gold another table has; case alone makes no other place.

    An excluded table has no place, but a requested rebuild would write it: it has a rival, too. A table that
    is known from statements alone yields its place to one of another source: two feeds of one server have
    each other's statements. Beside one of the same source, whose name differs by case, it has a rival.
    A table of a source that is not configured (`unnamed`) keeps its place: its source may be named again.
    """
    owners: dict[str, Task] = {}
    for task in sorted(tasks, key=_rank):
        if task.has_place:
            owners.setdefault(_place(task), task)
    found = []
    for task in tasks:
        owner = task if task.lineage.renamed_to is not None else owners.get(_place(task), task)
        before = None if task.lineage.renamed_to is not None else unnamed.get(_place(task))
        if before is not None and _rank_of_replica(owner) == 2:
            found.append(_beside_unnamed(task, before))
        elif owner is task:
            found.append(task)
        elif task.is_rowless and owner.source != task.source:
            found.append(replace(task, yields=True))
        else:
            found.append(replace(task, rival=f"{owner.name.dotted} of source {owner.source}"))
    return found


def _beside_unnamed(task: Task, owner: TableState) -> Task:
    if task.is_rowless:
        return replace(task, yields=True)
    rival = f"{owner.name.dotted} of source {owner.source}"
    return replace(task, rival=rival, is_rival_unnamed=True)


def in_its_place(task: Task) -> Task:
    """The task with the place of a table whose source the configuration does not name."""
    return replace(task, rival=None, is_rival_unnamed=False) if task.is_rival_unnamed else task


def notes_on_unnamed(run: Run, displaced: Iterable[TableState]) -> Iterator[str]:
    """Notes on tables without a configured source whose replicas other tables overwrite."""
    for state in displaced:
        if state.source not in run.config.sources and state.profile.rows:
            yield (
                f"{state.name.dotted} of source {state.source}, which the configuration does not name, has"
                " lost its replica and history: a table of another source is written in their place"
            )


def _place(task: Task) -> str:
    return folder_of(task).casefold()


def _rank(task: Task) -> tuple[bool, int]:
    """A table with rows comes first; of these one whose replica is in the folder."""
    return task.is_rowless, _rank_of_replica(task)


def _rank_of_replica(task: Task) -> int:
    """The table whose replica is in the folder comes first: before it is dropped (0), and then (1)."""
    state = task.state
    if not _is_in_place(task) or (state.state is State.DROPPED and state.reason == RENAMED):
        return 2
    return 1 if state.state is State.DROPPED else 0


def _is_in_place(task: Task) -> bool:
    replica = task.state.replica
    return replica is not None and is_called(replica, "gold/" + folder_of(task))


def displaced_states(
    lake: Lakehouse, tasks: Iterable[Task], chosen: Iterable[Task], states: Mapping[TableId, TableState]
) -> list[TableState]:
    """The states of tables whose replicas other tables overwrite, from now on without replica and history.

    Such a table is excluded, has another place now, or was renamed. One of a source that is not configured is
    dropped, or a rebuild of the other table was requested.
    The states must be written before the replicas: once it has its place again, the table is rebuilt.

    Args:
        lake: The lakehouse.
        tasks: Every table.
        chosen: The tables that the run updates.
        states: The newest states, also those of other sources.
    """
    updated = {(task.source, task.name): task for task in chosen}
    writers = {
        lake.location("gold/" + folder_of(task)).casefold(): (task.source, task.name)
        for task in (updated.get((task.source, task.name), task) for task in tasks)
        if task.rival is None
        and not task.yields
        and task.lineage.renamed_to is None
        and ((task.source, task.name) in updated or (task.has_place and _is_in_place(task)))
    }
    return list(_without_replicas(writers, states))


def _without_replicas(
    writers: Mapping[str, TableId], states: Mapping[TableId, TableState]
) -> Iterator[TableState]:
    for table, state in states.items():
        if state.replica is not None and writers.get(state.replica.casefold(), table) != table:
            yield replace(state, replica=None, history=None)
