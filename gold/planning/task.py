"""A task: one table, and what a run of gold must know of it before it reads any change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from framework.config.tables import Deletes, TableSettings
from framework.contracts.change_measures import ChangeMeasures
from framework.contracts.ddl_actions import TableName
from framework.contracts.expectations import Rule
from framework.naming import history_folder, replica_folder
from gold.planning.table_state import TableState
from gold.schema.lineage import Lineage


@dataclass(frozen=True, slots=True)
class RecordedBatch:
    """The row changes of one batch under one name of a table, as silver recorded them.

    `measures` is None where silver recorded none, or where the batch has other changes by now.
    """

    batch: int
    name: TableName
    measures: ChangeMeasures | None


@dataclass(frozen=True, slots=True)
class Task:
    """One table to bring up to date.

    Attributes:
        source: The table's source.
        lineage: What the statements made of the table.
        state: How far gold has come with it.
        settings: Its settings in the configuration.
        top: The newest batch of silver; the table is brought up to it.
        newest: The newest batch of silver with changes or statements of this table.
        rows: How many rows a rebuild would read.
        truncate_times: Event time and batch of each truncate, by its position.
        is_rebuild: A rebuild was requested.
        rival: The table whose replica has this table's place in gold; None where there is none.
        is_rival_unnamed: The configuration does not name the source of that table: a rebuild takes its place.
        has_rows: Whether silver has a row change of the table, not only statements.
        yields: It is known from statements alone, and a table of another source has its place.
        missed: How many messages came while the table was excluded; silver has no images of them.
        gates: The rules that rows must pass before they are merged.
        repair: The newest repair in which silver replaced changes of the table that it had committed.
        new_rows: How many rows may be new: not fewer than the changes after the applied batch.
        first_new: No change of the table after the applied batch is in an earlier batch than this; None
            where no change is new.
        recorded: The batches with changes that the table has not applied; empty where nobody has looked.
        statement_batches: The newest batch of the statements at each position that change the table.
        unclaimed: The names under which new rows belong to no table; empty where nobody has looked.
        is_read_only: Its plan is made to read what is there: nothing that parks the table stops it.
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
    is_rival_unnamed: bool = False
    has_rows: bool = True
    yields: bool = False
    missed: int = 0
    gates: tuple[Rule, ...] = ()
    repair: str | None = None
    new_rows: int = 0
    first_new: int | None = None
    recorded: tuple[RecordedBatch, ...] = ()
    statement_batches: Mapping[str, int] = field(default_factory=dict)
    unclaimed: tuple[str, ...] = ()
    is_read_only: bool = False

    @property
    def name(self) -> TableName:
        """The table's newest name."""
        return self.lineage.table

    @property
    def has_place(self) -> bool:
        """Whether the table should have a replica."""
        return self.lineage.renamed_to is None and not self.settings.exclude and not self.yields

    @property
    def is_rowless(self) -> bool:
        """Whether the table is known from statements alone: no row ever came."""
        return not self.has_rows and not self.state.profile.rows

    @property
    def truncated_at(self) -> str | None:
        """The position of the newest truncate that removes rows; None with `deletes: ignore`."""
        return None if self.settings.deletes is Deletes.IGNORE else self.lineage.truncated_at

    @property
    def rows_to_read(self) -> int:
        """About how many rows a run reads for the table."""
        return self.rows if self.is_rebuild or self.is_repaired else self.new_rows

    @property
    def is_repaired(self) -> bool:
        """Whether silver has replaced changes from which the replica was built."""
        return self.repair is not None and self.repair != self.state.repair


def folder_of(task: Task, is_history: bool = False) -> str:
    """The folder of the table's replica, or of its history, below `gold/`."""
    folder = history_folder if is_history else replica_folder
    return folder(*(task.settings.replica_parts or (task.name.database, task.name.schema, task.name.table)))
