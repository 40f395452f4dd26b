"""Table definitions that a feed sends beside its rows: the columns of a table from a position on."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter

from framework.contracts.events import Column, Control, ControlKind, Event

DeclaredColumns = tuple[tuple[str, str], ...]
"""Columns in order, each with the source's type text."""
EpochPosition = tuple[int, ...]
"""An epoch, then a position in it."""
TableKey = tuple[str | None, str | None, str | None]
_POSITION = attrgetter("position")


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
    """All table definitions of one source, each table's in order. Plain data, as processes exchange it."""

    tables: Mapping[TableKey, tuple[TableDefinition, ...]] = field(default_factory=dict)

    def columns(self, table: TableKey, position: EpochPosition) -> DeclaredColumns:
        """A table's columns at a position.

        Before the first definition these are the columns of the first one; without any definition there are
        none.
        """
        known = self.tables.get(table, ())
        if not known:
            return ()
        return known[max(bisect_right(known, position, key=_POSITION) - 1, 0)].columns

    def __or__(self, other: TableDefinitions) -> TableDefinitions:
        """The definitions of both."""
        both = {
            table: _in_order((*self.tables.get(table, ()), *more)) for table, more in other.tables.items()
        }
        return TableDefinitions({**self.tables, **both})

    def changed_by(self, other: TableDefinitions) -> Mapping[TableKey, EpochPosition]:
        """The tables that are read differently with the other definitions as well.

        Each has the position from which on; `()` is before every position.
        """
        both, found = self | other, dict[TableKey, EpochPosition]()
        for table, more in other.tables.items():
            for position in ((), *(s.position for s in more)):  # a difference begins at a new definition
                if self.columns(table, position) != both.columns(table, position):
                    found[table] = position
                    break
        return found

    def without_repeats(self) -> TableDefinitions:
        """The same columns at each position, from fewer definitions: one that changes nothing is left out.

        It is for looking columns up, not for adding to: an older definition that comes late holds until the
        next one, whether or not that one changes anything today.
        """
        return TableDefinitions(
            {
                table: tuple(
                    one
                    for one, before in zip(known, (None, *known), strict=False)
                    if before is None or one.columns != before.columns
                )
                for table, known in self.tables.items()
            }
        )


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
    for structure in found:
        tables.setdefault((structure.database, structure.schema, structure.table), []).append(structure)
    return TableDefinitions({table: _in_order(rows) for table, rows in tables.items()})


def _in_order(found: Iterable[TableDefinition]) -> tuple[TableDefinition, ...]:
    """The definitions of one table in the order of their positions, each once."""
    ordered: list[TableDefinition] = []
    for one in sorted(found, key=lambda s: (s.position, s.columns)):
        if not ordered or ordered[-1] != one:
            ordered.append(one)
    return tuple(ordered)


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
