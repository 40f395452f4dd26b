"""Table definitions that a feed sends beside its rows: the columns of a table from a position on."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from framework.contracts.events import Column, Control, ControlKind, Event

DeclaredColumns = tuple[tuple[str, str], ...]
"""Columns in order, each with the source's type text."""
EpochPosition = tuple[int, ...]
"""An epoch, then a position in it."""
TableKey = tuple[str | None, str | None, str | None]


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """The columns of one table from a position on."""

    database: str | None
    schema: str | None
    table: str | None
    position: EpochPosition
    columns: DeclaredColumns


@dataclass(frozen=True, slots=True)
class TableDefinitions:
    """All table definitions of one source. Plain data, because it is sent to other processes."""

    tables: Mapping[TableKey, tuple[TableDefinition, ...]] = field(default_factory=dict)

    def columns(self, table: TableKey, position: EpochPosition) -> DeclaredColumns:
        """A table's columns at a position.

        Before the first definition these are the columns of the first one; without any definition there are
        none.
        """
        known = self.tables.get(table, ())
        if not known:
            return ()
        return known[max(bisect_right([s.position for s in known], position) - 1, 0)].columns

    def __or__(self, other: TableDefinitions) -> TableDefinitions:
        """The definitions of both."""
        return definitions_by_table(
            [s for found in (self, other) for rows in found.tables.values() for s in rows]
        )

    def changed_by(self, other: TableDefinitions) -> Mapping[TableKey, EpochPosition]:
        """The tables that are read differently with the other definitions as well.

        Each has the position from which on; `()` is before every position.
        """
        both, found = self | other, dict[TableKey, EpochPosition]()
        for table in other.tables:
            for position in ((), *(s.position for s in both.tables[table])):
                if self.columns(table, position) != both.columns(table, position):
                    found[table] = position
                    break
        return found


@dataclass(frozen=True, slots=True)
class DefinitionsInEpoch:
    """Gives the columns of a table at a position of one epoch, as decoders ask for them."""

    definitions: TableDefinitions
    epoch: int

    def __call__(self, table: TableKey, position: tuple[int, ...] | None) -> DeclaredColumns:
        """The columns of a table at a position; a null position is before all others."""
        return self.definitions.columns(table, (self.epoch, *(position or ())))


def definitions_by_table(found: Iterable[TableDefinition]) -> TableDefinitions:
    """The definitions by table, each table's in the order of their positions."""
    tables: dict[TableKey, list[TableDefinition]] = {}
    for structure in sorted(set(found), key=lambda s: (s.position, s.columns)):
        tables.setdefault((structure.database, structure.schema, structure.table), []).append(structure)
    return TableDefinitions({table: tuple(rows) for table, rows in tables.items()})


def definitions_in(events: Iterable[Event], epoch: int) -> list[TableDefinition]:
    """The table definitions that decoded events contain."""
    return [
        TableDefinition(event.database, event.schema, event.table, (epoch, *(event.position or ())), declared)
        for event in events
        if isinstance(event, Control)
        and event.kind is ControlKind.DDL
        and (declared := declared_columns(event.columns))
    ]


def declared_columns(columns: Mapping[str, Column]) -> DeclaredColumns:
    """The columns whose type texts are known."""
    return tuple((name, column.declared) for name, column in columns.items() if column.declared)
