"""The lineage of tables: what a source's statements did to their names, lifetimes, rows and columns.

A table and its columns may have had several names. `trace_tables` reads all statements of a source in the
order of their positions and gives, for each table, the segments of the change stream that are its rows, and
the changes of its columns. It is pure: a statement that arrives late gives the same lineage as one that
arrives in time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from framework.contracts.ddl_actions import (
    IF_EXISTS,
    Action,
    AddColumn,
    ChangeType,
    CreateTable,
    DropColumn,
    DropDatabase,
    DropTable,
    NoEffect,
    RenameColumn,
    RenameTable,
    SetComment,
    SetKeys,
    TableName,
    TruncateTable,
    Unsupported,
)
from gold.schema.shadow_tables import ShadowRows, is_former, is_shadow
from gold.schema.source_statements import Statement, TablesByPlace

ColumnAction = AddColumn | DropColumn | RenameColumn | ChangeType
START = ""
_NONE: Mapping[TableName, str] = MappingProxyType({})
NewestRows = Mapping[TableName, str | None]
"""The highest sequence of a row under each name that has or had rows; None where nothing tells it."""


@dataclass(frozen=True, slots=True)
class Segment:
    """The changes under one table name, from a position (included) to another (excluded; None: no end)."""

    table: TableName
    start: str
    end: str | None


@dataclass(frozen=True, slots=True)
class Lineage:
    """What happened to one table, under its newest name.

    Attributes:
        table: The newest name.
        segments: The changes that are the table's, under each of its names.
        column_changes: The actions on its columns with their positions, in order.
        truncates: The position and change id of each truncate.
        keys: The primary keys that statements declare, each with its position, in order.
        is_dropped: Whether the table does not exist under this name any more.
        renamed_to: The name that took over; None where the table was not renamed.
        not_understood: The position and reason of each statement whose effect is unknown.
        created: The columns of the statement that created the table; empty where it lists none.
        comments: The comments that statements give, in order: how many of `column_changes` are before it,
            the column (None: the table), and the text (empty: it is removed).
        keys_if_new: The position of a key of `keys` that a statement declares with IF NOT EXISTS: it is the
            table's only if the table did not exist there.
        unclaimed: The changes under a name before a rename gave it to the table, where nothing else tells of
            an earlier table of that name.
    """

    table: TableName
    segments: tuple[Segment, ...]
    column_changes: tuple[tuple[str, ColumnAction], ...] = ()
    truncates: tuple[tuple[str, str], ...] = ()
    keys: tuple[tuple[str, tuple[str, ...]], ...] = ()
    is_dropped: bool = False
    renamed_to: TableName | None = None
    not_understood: tuple[tuple[str, str], ...] = ()
    created: tuple[AddColumn, ...] = ()
    comments: tuple[tuple[int, str | None, str], ...] = ()
    keys_if_new: str | None = None
    unclaimed: tuple[Segment, ...] = ()

    @property
    def truncated_at(self) -> str | None:
        """The position of the newest truncate."""
        return max((sequence for sequence, _ in self.truncates), default=None)


@dataclass(slots=True)
class _Life:
    """One table between its creation and its drop, as far as the statements have been read."""

    segments: list[Segment]
    column_changes: list[tuple[str, ColumnAction]] = field(default_factory=list)
    truncates: list[tuple[str, str]] = field(default_factory=list)
    keys: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    not_understood: list[tuple[str, str]] = field(default_factory=list)
    created: tuple[AddColumn, ...] = ()
    comments: list[tuple[int, str | None, str]] = field(default_factory=list)
    keys_if_new: str | None = None
    unclaimed: list[Segment] = field(default_factory=list)
    is_dropped: bool = False
    is_moved: bool = False
    dropped_at: str = START

    def comment(self, column: str | None, text: str | None) -> None:
        """Takes a comment into account, if a statement has one."""
        if text is not None:
            self.comments.append((len(self.column_changes), column, text))


class _Lives(dict[TableName, _Life]):
    """The newest life under each name; a later table has taken those of `ended`. `places` has all names."""

    def __init__(self, rows: NewestRows, first_rows: Mapping[TableName, str]) -> None:
        super().__init__()
        self.shadows = ShadowRows(first_rows)
        self.ended: list[tuple[TableName, _Life]] = []
        self.places = TablesByPlace(rows)

    def __setitem__(self, name: TableName, life: _Life) -> None:
        self.places.add(name)
        super().__setitem__(name, life)

    def begin(self, name: TableName, life: _Life) -> None:
        """Gives a name to a new life. The life before it has ended, unless it goes on under another name."""
        before = self.get(name)
        if before is not None and not before.is_moved:
            self.ended.append((name, before))
        self[name] = life


def trace_tables(
    statements: Iterable[Statement],
    rows: NewestRows,
    first_rows: Mapping[TableName, str] = _NONE,
) -> dict[TableName, Lineage]:
    """The lineage of each table that statements name or that has rows.

    Args:
        statements: All statements of the source.
        rows: The highest sequence of a row under each name. Rows after a drop or a rename start a new table
            of that name, as if its CREATE statement had been there.
        first_rows: The lowest sequence of a row under each name.

    A tool that changes a schema in a copy swaps a shadow table in. Where the feed has no rows of that copy,
    the table goes on with the rows that it had: they are the same.
    """
    lives, moved = _read(statements, rows, first_rows)
    return {name: _lineage(name, life, moved.get(name)) for name, life in lives.items()}


def earlier_lives(
    lineage: Lineage,
    statements: Iterable[Statement],
    rows: NewestRows,
    first_rows: Mapping[TableName, str] = _NONE,
) -> tuple[Lineage, ...]:
    """The tables that had one of the names of this table before it and are gone, the first one first.

    A table that lives on under another name is none of them.
    """
    lives, _ = _read(statements, rows, first_rows)
    gone = [*lives.ended, *((n, life) for n, life in lives.items() if life.is_dropped and not life.is_moved)]
    found = [_lineage(name, life, None) for name, life in gone if _was_before(life, lineage)]
    return tuple(sorted(found, key=lambda earlier: earlier.segments[-1].start))


def _was_before(life: _Life, lineage: Lineage) -> bool:
    starts = {segment.table: segment.start for segment in reversed(lineage.segments)}
    is_other = tuple(life.segments) != lineage.segments
    return is_other and any(mine.start < starts.get(mine.table, START) for mine in life.segments)


def _read(
    statements: Iterable[Statement], rows: NewestRows, first_rows: Mapping[TableName, str]
) -> tuple[_Lives, dict[TableName, TableName]]:
    """The lives of all tables, and the new name of each one that has been renamed."""
    lives = _Lives(rows, first_rows)
    moved: dict[TableName, TableName] = {}
    for statement in sorted(statements, key=lambda s: (s.sequence, s.message, s.ordinal, s.change_id)):
        for action in statement.actions:
            if action == IF_EXISTS and not _exists(statement, lives, (first_rows, rows)):
                break
            if isinstance(action, DropDatabase):
                _drop_all(statement, (first_rows, rows), lives, moved)
            elif isinstance(action, RenameTable):
                _rename_into(action.to, statement, first_rows, lives, moved)
            else:
                _apply(action, statement, lives, moved)
    for name, newest in rows.items():
        life = lives.setdefault(name, _Life([Segment(name, START, None)]))
        if life.is_dropped and newest is not None and newest >= life.dropped_at:
            if _goes_on(name, lives, moved):
                _note_unseen_copy(_take_back(name, lives, moved), life.dropped_at)
                continue
            lives.begin(name, _Life([Segment(name, life.dropped_at, None)]))
            moved.pop(name, None)
    return lives, moved


def _drop_all(
    statement: Statement,
    ends: tuple[NewestRows, NewestRows],
    lives: _Lives,
    moved: dict[TableName, TableName],
) -> None:
    """Drops all tables of a database that exist at this position."""
    for name in lives.places.tables_of(statement):
        each = replace(statement, table=name)
        if _exists(each, lives, ends):
            _apply(DropTable(), each, lives, moved)


def _rename_into(
    to: TableName,
    statement: Statement,
    first_rows: Mapping[TableName, str],
    lives: _Lives,
    moved: dict[TableName, TableName],
) -> None:
    """Renames a table, or lets the one whose place it takes go on if it is a shadow without rows."""
    name, sequence = statement.table, statement.sequence
    if not (is_shadow(name, to) and _goes_on(to, lives, moved)):
        is_unknown = name not in lives and first_rows.get(name, sequence) >= sequence
        has_replaced_rows = to in lives and first_rows.get(to, sequence) < sequence
        _apply(RenameTable(to), statement, lives, moved)
        if is_unknown and has_replaced_rows:
            reason = f"it starts empty: {name.dotted} took its place, and the feed has no rows of that"
            lives[to].not_understood.append((sequence, reason))
        return
    shadow = lives.get(name)
    if shadow is None or shadow.is_dropped:
        shadow = lives[name] = _Life([Segment(name, START if shadow is None else shadow.dropped_at, None)])
    life = _take_back(to, lives, moved)
    if not shadow.column_changes:
        _note_unseen_copy(life, sequence)
    steps = len(life.column_changes)
    life.column_changes += [(sequence, change) for _, change in shadow.column_changes]
    life.keys += [(sequence, keys) for _, keys in shadow.keys]
    life.not_understood += [(sequence, reason) for _, reason in shadow.not_understood]
    life.comments += [(steps + step, column, text) for step, column, text in shadow.comments]
    _end(shadow, sequence)
    moved[name] = to


def _goes_on(table: TableName, lives: _Lives, moved: Mapping[TableName, TableName]) -> bool:
    """Whether a table that got the name of a former one goes on: its shadow has the same rows."""
    former = moved.get(table)
    if former is None or former in moved or not is_former(former, table):
        return False
    at = lives[table].dropped_at
    if lives.shadows.came_before(table, at):
        return False
    places = [(segment.table, segment.start) for segment in lives[former].segments[-2:]]
    return places == [(table, lives[table].segments[-1].start), (former, at)]


def _take_back(table: TableName, lives: _Lives, moved: dict[TableName, TableName]) -> _Life:
    """Undoes the rename of a table to its former name, which then has no rows of its own yet."""
    former = moved.pop(table)
    life = lives[former]
    rest = life.segments.pop()
    life.segments[-1] = replace(life.segments[-1], end=None)
    lives[former] = _Life([rest], is_dropped=life.is_dropped, dropped_at=life.dropped_at)
    life.is_dropped, life.dropped_at = False, START
    lives[table] = life
    return life


def _note_unseen_copy(life: _Life, sequence: str) -> None:
    reason = "a copy with other columns took its place, and the feed has no statement that changed them"
    life.not_understood.append((sequence, reason))


def _exists(
    statement: Statement,
    lives: Mapping[TableName, _Life],
    ends: tuple[NewestRows, NewestRows],
) -> bool:
    """Whether the table of a statement exists at its position, as its first and last rows show."""
    name, life = statement.table, lives.get(statement.table)
    if life is not None and not life.is_dropped:
        return True
    since = START if life is None else life.dropped_at
    return any(since <= end < statement.sequence for end in (of.get(name) for of in ends) if end is not None)


def _lineage(name: TableName, life: _Life, renamed_to: TableName | None) -> Lineage:
    return Lineage(
        table=name,
        segments=tuple(life.segments),
        column_changes=tuple(life.column_changes),
        truncates=tuple(life.truncates),
        keys=tuple(life.keys),
        is_dropped=life.is_dropped,
        renamed_to=renamed_to if life.is_dropped else None,
        not_understood=tuple(life.not_understood),
        created=life.created,
        comments=tuple(life.comments),
        keys_if_new=life.keys_if_new,
        unclaimed=tuple(life.unclaimed),
    )


def _apply(action: Action, statement: Statement, lives: _Lives, moved: dict[TableName, TableName]) -> None:
    name, sequence = statement.table, statement.sequence
    life = lives.get(name)
    if isinstance(action, NoEffect):
        return
    if life is None or life.is_dropped:
        if isinstance(action, DropTable):
            _drop_again(life, name, sequence, lives)
            return
        if life is not None and isinstance(action, Unsupported):
            life.not_understood.append((sequence, action.reason))
            return
        if life is not None and isinstance(action, SetComment):
            return
        moved.pop(name, None)
        life = _Life([Segment(name, _start_of(life, action, sequence), None)])
        lives.begin(name, life)
    if isinstance(action, AddColumn | DropColumn | RenameColumn | ChangeType):
        life.column_changes.append((sequence, action))
        if isinstance(action, AddColumn | ChangeType):
            life.comment(action.name, action.comment)
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
            life.keys_if_new = sequence if action.if_not_exists else None
        if not life.created:
            life.created = action.columns
            for column in action.columns:
                life.comment(column.name, column.comment)
            life.comment(None, action.comment)
    elif isinstance(action, SetComment):
        life.comment(action.column, action.text)
    elif isinstance(action, Unsupported):
        life.not_understood.append((sequence, action.reason))


def _start_of(previous: _Life | None, action: Action, sequence: str) -> str:
    """Where a new table starts: at its CREATE statement; without one, where the table before it ended."""
    if previous is None:
        return START
    return sequence if isinstance(action, CreateTable) and not action.if_not_exists else previous.dropped_at


def _drop_again(life: _Life | None, name: TableName, sequence: str, lives: dict[TableName, _Life]) -> None:
    if life is None:
        lives[name] = _Life([Segment(name, START, sequence)], is_dropped=True, dropped_at=sequence)
    else:
        life.dropped_at = sequence


def _end(life: _Life, sequence: str) -> None:
    last = life.segments[-1]
    life.segments[-1] = Segment(last.table, last.start, sequence)
    life.is_dropped, life.dropped_at = True, sequence


def _rename(
    life: _Life,
    statement: Statement,
    to: TableName,
    lives: _Lives,
    moved: dict[TableName, TableName],
) -> None:
    if to == statement.table:
        return
    old = _Life(list(life.segments), list(life.column_changes), list(life.truncates), list(life.keys))
    old.keys_if_new, old.is_moved = life.keys_if_new, True
    _end(old, statement.sequence)
    lives[statement.table] = old
    moved[statement.table] = to
    last = life.segments[-1]
    life.segments[-1] = Segment(last.table, last.start, statement.sequence)
    life.segments.append(Segment(to, statement.sequence, None))
    if to not in lives:
        life.unclaimed.append(Segment(to, START, statement.sequence))
    lives.begin(to, life)
    moved.pop(to, None)
