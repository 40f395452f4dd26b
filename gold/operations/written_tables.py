"""The replicas and histories that gold has written for one table, also those that it no longer keeps up.

A table leaves a replica or a history behind when it is renamed, when `replica` gives it another name, and
when its history is turned off. `ops/tables` names them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from framework.contracts.ddl_actions import TableName
from framework.contracts.erasure import Erasure
from framework.lakehouse.lakehouse import is_table
from framework.naming import history_folder, replica_folder
from framework.pipeline.layer import Run
from gold.planning.table_state import RENAMED, State, TableState, written_states


@dataclass(frozen=True, slots=True)
class WrittenTable:
    """A replica or a history, as it was last written.

    Attributes:
        path: Where it is.
        is_history: Whether it is a history.
        state: The state with its columns and its key; without columns where nothing tells them.
        has_its_rows: Whether its rows are surely those of the table. Otherwise another table may have taken
            its place.
    """

    path: str
    is_history: bool
    state: TableState
    has_its_rows: bool


def written_tables(run: Run, erasure: Erasure) -> Iterator[WrittenTable]:
    """Those of the table under each of its names that exist."""
    names = [TableName(*name) for name in erasure.names]
    paths: dict[str, bool] = {}
    owners: dict[str, TableState] = {}
    for state in written_states(run.tables):
        for path, is_history in ((state.replica, False), (state.history, True)):
            if path is not None:
                owners[path] = state
                if state.source == erasure.source and state.name in names:
                    paths[path] = is_history
    for name in names:  # the log of the states may have been lost
        for folder, is_history in ((replica_folder, False), (history_folder, True)):
            path = run.lake.location("gold/" + folder(name.database, name.schema, name.table))
            paths.setdefault(path, is_history)
    for path, is_history in paths.items():
        if is_table(run.spark, path):
            owner = owners.get(path, TableState(erasure.source, names[0], State.ACTIVE))
            is_renamed = owner.state is State.DROPPED and owner.reason == RENAMED
            is_own = owner.source == erasure.source and (
                owner.name == names[0] or (owner.name in names and is_renamed)
            )
            yield WrittenTable(path, is_history, owner, is_own)
