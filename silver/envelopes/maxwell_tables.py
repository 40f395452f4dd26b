"""Maxwell's table definitions: what a statement did to a table, from its structure before and after.

    {"database": "shop", "table": "orders", "primary-key": ["id"], "columns": [
        {"name": "id", "type": "int", "signed": true},
        {"name": "seen", "type": "timestamp", "column-length": 6}]}

The structure counts more than the statement's text. The text is used for the one thing that a structure
cannot show, renamed columns, and only if it leads to the columns of the structure. A decimal's digits are not
in the structure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import msgspec

from framework.contracts.ddl_actions import (
    Action,
    AddColumn,
    ChangeType,
    CreateTable,
    DropColumn,
    RenameColumn,
    RenameTable,
    SetKeys,
    TableName,
    Unsupported,
)
from framework.contracts.events import Column, Token
from silver.values.declared_types import type_of_declaration


class ColumnDefinition(msgspec.Struct, rename={"length": "column-length"}):
    """One column. `length` is the digits of a second; only times have it."""

    name: str
    type: str
    signed: bool | None = None
    length: int | None = None


class Definition(msgspec.Struct, rename={"primary_key": "primary-key"}):
    """One table."""

    database: str
    table: str
    columns: list[ColumnDefinition] = []
    primary_key: list[str] | None = None

    @property
    def name(self) -> TableName:
        """The table."""
        return TableName(self.database, None, self.table)


def columns_of(definition: Definition) -> dict[str, Column]:
    """The columns with their canonical types; a column whose type has no digits has none."""
    columns = {}
    for column in definition.columns:
        declared = _declared(column)
        kind = type_of_declaration(declared, "mysql")
        columns[column.name] = Column(
            type=kind, declared=declared, token=Token.NULL if kind is None else None
        )
    return columns


def primary_key_of(definition: Definition) -> tuple[str, ...] | None:
    """The key columns; None where the table has no key."""
    return tuple(dict.fromkeys(definition.primary_key or ())) or None


def creation(definition: Definition) -> CreateTable:
    """The action that creates the table."""
    added = tuple(
        AddColumn(name, column.type, column.declared) for name, column in columns_of(definition).items()
    )
    return CreateTable(added, primary_key_of(definition))


def alteration(old: Definition, new: Definition, text: str | None) -> tuple[Action, ...]:
    """The actions that turn the old structure into the new one."""
    before, after = columns_of(old), columns_of(new)
    said = _spelled(_text_actions(old.name, text), before, after) if text else []
    respelled = _respelled(before, after)
    renames, left = [RenameColumn(*names) for names in respelled.items()], _names_after(said, before)
    said = [*(rename for rename in renames if rename.old in left), *said]
    if _names_after(said, before) != set(after):
        said = [*renames]
    actions: list[Action] = [_with_structure_type(action, after) for action in said]
    known = _names_after(actions, before)
    actions += [DropColumn(name) for name in before if name in known and name not in after]
    places = dict(zip(after, (None, *after), strict=False))
    actions += [_added(name, after[name], places[name]) for name in after if name not in known]
    in_text = {action.name for action in actions if isinstance(action, AddColumn | ChangeType)}
    former = {name: name for name in before} | {now: name for name, now in respelled.items()}
    actions += [
        ChangeType(n, c.type, c.declared)
        for n, c in after.items()
        if n in former and n not in in_text and before[former[n]] != c
    ]
    if primary_key_of(old) != primary_key_of(new):
        actions.append(SetKeys(primary_key_of(new) or ()))
    if old.name != new.name:
        actions.append(RenameTable(new.name))
    return tuple(actions)


def _declared(column: ColumnDefinition) -> str:
    length = f"({column.length})" if column.length is not None else ""
    return f"{column.type}{length}{' unsigned' if column.signed is False else ''}"


def _text_actions(table: TableName, text: str) -> tuple[Action, ...]:
    """The column actions of the text for this table; none if any part of it is not understood."""
    from silver.ddl.parser import parse_ddl  # slow to import, and few messages have statements

    parsed = parse_ddl(
        text, dialect="mysql", table=table, knows_session=True
    )  # the structures name the tables
    statements = [s for s in parsed if s.table == table]
    actions = tuple(action for statement in statements for action in statement.actions)
    if any(isinstance(action, Unsupported) for action in actions):
        return ()
    return tuple(
        action for action in actions if isinstance(action, AddColumn | DropColumn | RenameColumn | ChangeType)
    )


def _spelled(actions: Sequence[Action], before: Collection[str], after: Collection[str]) -> list[Action]:
    """The actions with the columns' names of the structures: a statement may write them in another case."""
    of_before, of_after, of_both = _Spelling(before), _Spelling(after), _Spelling((*after, *before))

    def spelled(action: Action) -> Action:
        match action:
            case RenameColumn(old, new):
                return RenameColumn(of_before.of(old), of_after.of(new))
            case DropColumn(name):
                return DropColumn(of_before.of(name))
            case AddColumn(name, after=place) | ChangeType(name, after=place):
                place = None if place is None else of_after.of(place)
                return replace(action, name=of_both.of(name), after=place)
            case _:
                return action

    return [spelled(action) for action in actions]


def _respelled(before: Collection[str], after: Collection[str]) -> dict[str, str]:
    """The columns that only have another case now: a statement gives a column the name as it is written."""
    spelling = _Spelling(after)
    found = {name: spelling.of(name) for name in before if name not in after}
    return {name: now for name, now in found.items() if now != name and now not in before}


class _Spelling:
    """The names of columns, to be found in any case."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = frozenset(names)
        self._in_any_case = {name.lower(): name for name in reversed([*names])}

    def of(self, written: str) -> str:
        """The name that is written so, else the first one that differs only by case, else what is written."""
        return written if written in self._names else self._in_any_case.get(written.lower(), written)


def _names_after(actions: Sequence[Action], before: Mapping[str, Column]) -> set[str]:
    names = set(before)
    for action in actions:
        if isinstance(action, AddColumn):
            names.add(action.name)
        elif isinstance(action, DropColumn):
            names.discard(action.name)
        elif isinstance(action, RenameColumn):
            names.discard(action.old)
            names.add(action.new)
    return names


def _with_structure_type(action: Action, after: Mapping[str, Column]) -> Action:
    """The action with the structure's type if it has one; only the text has a decimal's digits."""
    if isinstance(action, AddColumn | ChangeType):
        column = after.get(action.name)
        if column is not None and column.type is not None:
            return replace(action, type=column.type)
    return action


def _added(name: str, column: Column, before: str | None) -> AddColumn:
    return AddColumn(name, column.type, column.declared, first=before is None, after=before)
