"""What the statements of a source make of its tables: names, lifetimes, truncates and columns, in order of position.

A table's rows may have come under several names (renames), its columns too. `trace_tables` reads all statements of a
source in order and says, for each name, which pieces of the change stream are its rows and how their column names are
mapped to today's. It is pure: a statement that arrives late gives the same answer as one that came in time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from framework.contracts.actions import (
    Action,
    AddColumn,
    ChangeType,
    CreateTable,
    DropColumn,
    DropTable,
    NoEffect,
    NotUnderstood,
    RenameColumn,
    RenameTable,
    SetKeys,
    TableName,
    TruncateTable,
)

ColumnAction = AddColumn | DropColumn | RenameColumn | ChangeType
START = ""


@dataclass(frozen=True, slots=True)
class Statement:
    """A DDL statement about one table, at its position; `ordinal` is its place among the statements of one message."""

    sequence: str
    change_id: str
    batch: int
    table: TableName
    actions: tuple[Action, ...]
    text: str | None = None
    ordinal: int = 0


@dataclass(frozen=True, slots=True)
class Piece:
    """The changes of one name from a position (included) to another (excluded; None: no end)."""

    table: TableName
    start: str
    end: str | None


@dataclass(frozen=True, slots=True)
class Lineage:
    """The past of one table, under its newest name.

    `steps` are the actions on columns with their positions, in order. `truncated_at` is the highest truncate, `started_at`
    where the table begins (`""`: before everything that was seen). `not_understood` are statements without known effect,
    `created` are the columns of the statement that created the table, none where it lists none.
    """

    table: TableName
    pieces: tuple[Piece, ...]
    steps: tuple[tuple[str, ColumnAction], ...] = ()
    truncates: tuple[tuple[str, str], ...] = ()
    keys: tuple[tuple[str, tuple[str, ...]], ...] = ()
    is_dropped: bool = False
    renamed_to: TableName | None = None
    not_understood: tuple[tuple[str, str], ...] = ()
    created: tuple[AddColumn, ...] = ()

    @property
    def truncated_at(self) -> str | None:
        """The position of the newest truncate."""
        return max((sequence for sequence, _ in self.truncates), default=None)


@dataclass(slots=True)
class _Life:
    """One table between its creation and its drop, while the statements are read."""

    pieces: list[Piece]
    steps: list[tuple[str, ColumnAction]] = field(default_factory=list)
    truncates: list[tuple[str, str]] = field(default_factory=list)
    keys: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    not_understood: list[tuple[str, str]] = field(default_factory=list)
    created: tuple[AddColumn, ...] = ()
    is_dropped: bool = False
    gone_at: str = START


def trace_tables(statements: Iterable[Statement], rows: Mapping[TableName, str]) -> dict[TableName, Lineage]:
    """The lineage of each name that statements speak of or that has rows.

    `rows` has the highest sequence of a row under each name: rows behind a drop or a rename begin the name anew, as if
    the statement that created it again had been seen.
    """
    lives: dict[TableName, _Life] = {}
    moved: dict[TableName, TableName] = {}
    for statement in sorted(statements, key=lambda s: (s.sequence, s.ordinal, s.change_id)):
        for action in statement.actions:
            _apply(action, statement, lives, moved)
    for name, newest in rows.items():
        life = lives.setdefault(name, _Life([Piece(name, START, None)]))
        if life.is_dropped and newest >= life.gone_at:
            lives[name] = _Life([Piece(name, life.gone_at, None)])
            moved.pop(name, None)
    return {name: _lineage(name, life, moved.get(name)) for name, life in lives.items()}


def _lineage(name: TableName, life: _Life, renamed_to: TableName | None) -> Lineage:
    return Lineage(
        table=name,
        pieces=tuple(life.pieces),
        steps=tuple(life.steps),
        truncates=tuple(life.truncates),
        keys=tuple(life.keys),
        is_dropped=life.is_dropped,
        renamed_to=renamed_to if life.is_dropped else None,
        not_understood=tuple(life.not_understood),
        created=life.created,
    )


def _apply(action: Action, statement: Statement, lives: dict[TableName, _Life], moved: dict[TableName, TableName]) -> None:
    name, sequence = statement.table, statement.sequence
    life = lives.get(name)
    if isinstance(action, NoEffect):
        return
    if life is None or life.is_dropped:
        if isinstance(action, DropTable):
            _drop_again(life, name, sequence, lives)
            return
        if life is not None and isinstance(action, NotUnderstood):
            life.not_understood.append((sequence, action.reason))
            return
        moved.pop(name, None)
        life = lives[name] = _Life([Piece(name, _begins(life, action, sequence), None)])
    if isinstance(action, AddColumn | DropColumn | RenameColumn | ChangeType):
        life.steps.append((sequence, action))
    elif isinstance(action, TruncateTable):
        life.truncates.append((sequence, statement.change_id))
    elif isinstance(action, SetKeys):
        life.keys.append((sequence, action.keys))
    elif isinstance(action, DropTable):
        _end(life, sequence)
    elif isinstance(action, RenameTable):
        _rename(life, statement, action.to, lives, moved)
    elif isinstance(action, CreateTable):
        if action.keys is not None and not life.keys:
            life.keys.append((sequence, action.keys))
        life.created = life.created or action.columns
    elif isinstance(action, NotUnderstood):
        life.not_understood.append((sequence, action.reason))


def _begins(gone: _Life | None, action: Action, sequence: str) -> str:
    """Where a table begins anew: where it is created, or where the one before ended if that was not told."""
    if gone is None:
        return START
    return sequence if isinstance(action, CreateTable) and not action.if_not_exists else gone.gone_at


def _drop_again(life: _Life | None, name: TableName, sequence: str, lives: dict[TableName, _Life]) -> None:
    if life is None:
        lives[name] = _Life([Piece(name, START, sequence)], is_dropped=True, gone_at=sequence)
    else:
        life.gone_at = sequence


def _end(life: _Life, sequence: str) -> None:
    last = life.pieces[-1]
    life.pieces[-1] = Piece(last.table, last.start, sequence)
    life.is_dropped, life.gone_at = True, sequence


def _rename(life: _Life, statement: Statement, to: TableName, lives: dict[TableName, _Life], moved: dict[TableName, TableName]) -> None:
    if to == statement.table:
        return
    old = _Life(list(life.pieces), list(life.steps), list(life.truncates), list(life.keys))
    _end(old, statement.sequence)
    lives[statement.table] = old
    moved[statement.table] = to
    last = life.pieces[-1]
    life.pieces[-1] = Piece(last.table, last.start, statement.sequence)
    life.pieces.append(Piece(to, statement.sequence, None))
    lives[to] = life
    moved.pop(to, None)
