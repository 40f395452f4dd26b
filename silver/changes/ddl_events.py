"""DDL and truncate events, split into one event for each table, with what each does to it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from msgspec import structs

from framework.contracts.ddl_actions import (
    ERASE_WITHOUT_STATEMENT,
    Action,
    AddColumn,
    ChangeType,
    CreateTable,
    DropDatabase,
    NoEffect,
    RenameTable,
    Statement,
    TableName,
    TruncateTable,
    Unsupported,
)
from framework.contracts.events import Control, ControlKind, Event
from silver.ddl.name_resolution import is_about_unknown_table
from silver.ddl.parser import EMPTY, parse_ddl
from silver.decoding.format import ColumnHint, Format, no_hints

_INDEX_OPS = ("CINDEX", "DINDEX")
_QUERY_OP = "QUERY"
"""The text of a change of rows, which some sources leave out: the rows come as rows."""
_INDEX_TEXT = re.compile(r"CREATE\b[^;]*|DROP\s+INDEX\b[^,;]*", re.IGNORECASE)
_TRUNCATE_TEXT = re.compile(r"TRUNCATE\s+(?:TABLE\s+)?([^;]+)", re.IGNORECASE)
_QUOTES = str.maketrans("", "", '`"[]')
_INDEX = NoEffect("index")
LONGEST_EXCERPT = 200
"""Characters of a statement that the events after its first one repeat."""


def with_texts_once(events: Sequence[Event]) -> list[Event]:
    """The events of one message: a statement's first event has its whole text, the others its beginning."""
    found: list[Event] = []
    last = None
    for event in events:
        if isinstance(event, Control) and event.statement is not None:
            text = event.statement
            if text == last and len(text) > LONGEST_EXCERPT:
                event = structs.replace(event, statement=f"{text[:LONGEST_EXCERPT]}…")
            last = text
        found.append(event)
    return found


Hints = Callable[[str | None, str | None, str], Mapping[str, ColumnHint]]


def statement_events(event: Control, fmt: Format, hints_for: Hints = no_hints) -> Sequence[Control]:
    """The event; for DDL and truncates one event, with its actions, for each table of the statement.

    `hints_for` gives what the configuration says about the columns of a table.
    """
    if event.kind not in (ControlKind.DDL, ControlKind.TRUNCATE):
        return (event,)
    if event.actions is not None:
        hints = hints_for(event.database, event.schema, event.table) if event.table else {}
        return (structs.replace(event, actions=_translated(event.actions, fmt, hints)),)
    table = TableName(event.database, event.schema, event.table) if event.table else None
    found = _understood(event, table)
    if event.kind is ControlKind.TRUNCATE and table is not None:
        found = _truncated(found, event, table)
    elif event.op in _INDEX_OPS:
        found = _beside_index(found, event, table)
    spread = [
        structs.replace(
            event,
            statement=s.text or event.statement,
            columns=event.columns if s.table == table else {},
            kind=ControlKind.TRUNCATE
            if s.actions and all(isinstance(a, TruncateTable) for a in s.actions)
            else ControlKind.DDL,
            database=s.table.database,
            schema=s.table.schema,
            table=s.table.table,
            actions=_translated(s.actions, fmt, hints_for(s.table.database, s.table.schema, s.table.table)),
        )
        for s in found
    ]
    if (
        event.columns and table is not None and all(s.table != table for s in found)
    ):  # after a rename the columns are those of the new name
        spread.append(
            structs.replace(event, kind=ControlKind.DDL, statement=None, actions=(NoEffect("structure"),))
        )
    return spread or (structs.replace(event, kind=ControlKind.DDL, actions=(NoEffect("no table named"),)),)


def in_view(event: Event, is_excluded: Callable[[str | None, str | None, str], bool]) -> Event | None:
    """What remains of an event of an excluded table: a statement that may concern a table in view, else None.

    A statement that gives the table a name in view stays as it is, and so does one that drops a database. One
    that acts on a table of an unknown database becomes one of no table.
    """
    if not isinstance(event, Control):
        return None
    actions = event.actions or ()
    if DropDatabase() in actions:
        return event
    if not event.table:
        return None
    targets = [action.to for action in actions if isinstance(action, RenameTable)]
    if any(not is_excluded(to.database, to.schema, to.table) for to in targets):
        return event
    if is_about_unknown_table(actions):
        return structs.replace(event, database=None, schema=None, table="", keys=None, columns={})
    return None


def _understood(event: Control, table: TableName | None) -> tuple[Statement, ...]:
    if event.statement and event.statement.strip():
        home = TableName(event.database, event.schema, event.table or "")
        return parse_ddl(event.statement, dialect=event.dialect, table=home)
    if table is None or event.kind is ControlKind.TRUNCATE or event.op in _INDEX_OPS:
        return ()
    if event.op == _QUERY_OP:
        return (Statement(table, (NoEffect("query"),)),)
    reason = ERASE_WITHOUT_STATEMENT if event.op == "ERASE" else "no statement"
    return (Statement(table, (Unsupported(reason),)),)


def _truncated(found: tuple[Statement, ...], event: Control, table: TableName) -> tuple[Statement, ...]:
    """The statements of a truncate: its text, if it has one, decides which rows are gone.

    A text that names the table in a spelling that its dialect does not have empties the table all the same.
    """
    actions = [action for statement in found for action in statement.actions]
    if any(isinstance(action, TruncateTable) for action in actions):
        return found
    named = _TRUNCATE_TEXT.fullmatch(_trimmed(event.statement))
    last = named[1].translate(_QUOTES).rpartition(".")[2].lower() if named is not None else ""
    if last == table.table.lower() or all(action == EMPTY for action in actions):
        return (Statement(table, (TruncateTable(),)),)
    if all(isinstance(action, NoEffect) for action in actions):
        return (Statement(table, (Unsupported("a truncate whose statement empties no table"),)),)
    return found


def _beside_index(
    found: tuple[Statement, ...], event: Control, table: TableName | None
) -> tuple[Statement, ...]:
    """What a statement does that begins with an index; the index alone where it does nothing else.

    Writers name a statement after its first clause: `ADD INDEX i (a), ADD COLUMN c INT` is about an index.
    """
    known = tuple(
        replace(statement, actions=(_INDEX,))
        if _INDEX_TEXT.fullmatch(_trimmed(statement.text or event.statement))
        and all(isinstance(action, NoEffect | Unsupported) for action in statement.actions)
        else statement
        for statement in found
    )
    if any(not isinstance(action, NoEffect) for statement in known for action in statement.actions):
        return known
    return (Statement(table, (_INDEX,)),) if table is not None else ()


def _trimmed(text: str | None) -> str:
    return (text or "").strip().rstrip("; \r\n\t")


def _translated(
    actions: Sequence[Action], fmt: Format, hints: Mapping[str, ColumnHint]
) -> tuple[Action, ...]:
    return tuple(_translate(action, fmt, hints) for action in actions)


def _translate(action: Action, fmt: Format, hints: Mapping[str, ColumnHint]) -> Action:
    if isinstance(action, ChangeType) and action.type is not None:
        return replace(action, type=fmt.column_type(action.type))
    if isinstance(action, AddColumn) and action.type is not None:
        hint = hints.get(action.name)
        is_typed = hint is not None and hint.type not in (None, "string")
        return _added(action, action.type, fmt, is_typed=is_typed)
    if isinstance(action, CreateTable):
        columns = tuple(
            c if c.type is None else replace(c, type=fmt.column_type(c.type)) for c in action.columns
        )
        return replace(action, columns=columns)
    return action


def _added(action: AddColumn, own: str, fmt: Format, *, is_typed: bool) -> AddColumn:
    """The column with the type of its rows, and with its default as they write it.

    The rows of a column that the configuration types are canonical, and so is its default.
    """
    kind = fmt.column_type(own)
    if action.default is None or is_typed:
        return replace(action, type=kind)
    text = fmt.default_text(action.default, own, action.declared or "")
    is_unknown = action.has_expression_default or text is None
    return replace(action, type=kind, default=text, has_expression_default=is_unknown)
