"""What a feed's own definitions say of its tables: the columns with the source's type texts, each from a position on."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from framework.contracts.events import Column, Control, ControlKind, Event
from silver.sequence import numbers_in

Declared = tuple[tuple[str, str], ...]
"""Columns in their order with the source's type texts."""
Place = tuple[int, ...]
_Table = tuple[str | None, str | None, str | None]


@dataclass(frozen=True, slots=True)
class Structure:
    """The columns of one table from a place on. A place is an epoch and a position in it."""

    database: str | None
    schema: str | None
    table: str | None
    place: Place
    columns: Declared


@dataclass(frozen=True, slots=True)
class Structures:
    """All structures of one source. Plain data: it travels to other processes."""

    tables: Mapping[_Table, tuple[Structure, ...]] = field(default_factory=dict)

    def columns(self, table: _Table, place: Place) -> Declared:
        """A table's columns at a place; before the first structure the columns of that one, none where there is none."""
        known = self.tables.get(table, ())
        if not known:
            return ()
        return known[max(bisect_right([s.place for s in known], place) - 1, 0)].columns

    def __or__(self, other: Structures) -> Structures:
        """Both together."""
        return gathered([s for found in (self, other) for rows in found.tables.values() for s in rows])


def gathered(found: Iterable[Structure]) -> Structures:
    """Structures by table, each table's in the order of their places."""
    tables: dict[_Table, list[Structure]] = {}
    for structure in sorted(set(found), key=lambda s: (s.place, s.columns)):
        tables.setdefault((structure.database, structure.schema, structure.table), []).append(structure)
    return Structures({table: tuple(rows) for table, rows in tables.items()})


def structures_in(events: Iterable[Event], epoch: int) -> list[Structure]:
    """The structures that decoded events hold."""
    return [
        Structure(event.database, event.schema, event.table, (epoch, *(event.position or ())), declared)
        for event in events
        if isinstance(event, Control) and event.kind is ControlKind.DDL and (declared := declared_columns(event.columns))
    ]


def declared_columns(columns: Mapping[str, Column]) -> Declared:
    """The columns whose type texts are known."""
    return tuple((name, column.declared) for name, column in columns.items() if column.declared)


def place_of(sequence: str) -> Place:
    """The place that a sequence stands for: epoch and position, without the mark between them, and no name after them."""
    numbers = numbers_in(sequence)
    return (numbers[0], *numbers[2:]) if len(numbers) > 1 and numbers[1] else numbers[:1]
