"""DDL and truncate events, split into one event for each table, with what each does to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from msgspec import structs

from framework.contracts.ddl_actions import (
    ERASE_WITHOUT_STATEMENT,
    Action,
    AddColumn,
    ChangeType,
    CreateTable,
    NoEffect,
    RenameTable,
    Statement,
    TableName,
    TruncateTable,
    Unsupported,
)
from framework.contracts.events import Control, ControlKind, Event
from silver.ddl.parser import parse_ddl
from silver.decoding.format import Format

_INDEX_OPS = ("CINDEX", "DINDEX")
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


def statement_events(event: Control, fmt: Format) -> Sequence[Control]:
    """The event; for DDL and truncates one event, with its actions, for each table of the statement."""
    if event.kind not in (ControlKind.DDL, ControlKind.TRUNCATE):
        return (event,)
    if event.actions is not None:
        return (structs.replace(event, actions=_translated(event.actions, fmt)),)
    table = TableName(event.database, event.schema, event.table) if event.table else None
    found = _understood(event, table)
    if event.kind is ControlKind.TRUNCATE and not any(
        isinstance(a, TruncateTable) for s in found for a in s.actions
    ):
        found = (Statement(table, (TruncateTable(),)),) if table else ()
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
            actions=_translated(s.actions, fmt),
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


def renames_into_view(event: Event, is_excluded: Callable[[str | None, str | None, str], bool]) -> bool:
    """Whether a statement gives a table a name that is not excluded."""
    actions = event.actions or () if isinstance(event, Control) else ()
    targets = [action.to for action in actions if isinstance(action, RenameTable)]
    return any(not is_excluded(to.database, to.schema, to.table) for to in targets)


def _understood(event: Control, table: TableName | None) -> tuple[Statement, ...]:
    if event.op in _INDEX_OPS:
        return (Statement(table, (NoEffect("index"),)),) if table else ()
    if event.statement and event.statement.strip():
        return parse_ddl(event.statement, dialect=event.dialect, table=table)
    if table is None or event.kind is ControlKind.TRUNCATE:
        return ()
    reason = ERASE_WITHOUT_STATEMENT if event.op == "ERASE" else "no statement"
    return (Statement(table, (Unsupported(reason),)),)


def _translated(actions: Sequence[Action], fmt: Format) -> tuple[Action, ...]:
    return tuple(_translate(action, fmt) for action in actions)


def _translate(action: Action, fmt: Format) -> Action:
    if isinstance(action, AddColumn | ChangeType) and action.type is not None:
        return replace(action, type=fmt.column_type(action.type))
    if isinstance(action, CreateTable):
        columns = tuple(
            c if c.type is None else replace(c, type=fmt.column_type(c.type)) for c in action.columns
        )
        return replace(action, columns=columns)
    return action
