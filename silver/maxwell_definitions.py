"""Maxwell's table definitions: what a statement made of a table, by its structure before and after.

    {"database": "shop", "table": "orders", "primary-key": ["id"], "columns": [
        {"name": "id", "type": "int", "signed": true}, {"name": "seen", "type": "timestamp", "column-length": 6}]}

The structure is preferred to the statement's text. The text is asked for one thing that a structure cannot tell, renamed
columns, and believed only where it leads to the columns of the structure. A decimal's digits are in neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec

from framework.contracts.actions import (
    Action,
    AddColumn,
    ChangeType,
    CreateTable,
    DropColumn,
    NotUnderstood,
    RenameColumn,
    RenameTable,
    SetKeys,
    TableName,
)
from framework.contracts.events import Column, Token
from silver.ddl import understand
from silver.vocabulary import canonical_type


class ColumnDefinition(msgspec.Struct, rename={"length": "column-length"}):
    """One column; `length` is the digits of a second, of times alone."""

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
    """The columns with their canonical types; one whose type leaves the digits open has none."""
    columns = {}
    for column in definition.columns:
        declared = _declared(column)
        kind = canonical_type(declared, "mysql")
        columns[column.name] = Column(type=kind, declared=declared, token=Token.NULL if kind is None else None)
    return columns


def keys_of(definition: Definition) -> tuple[str, ...] | None:
    """The key columns; None where the table has no key."""
    return tuple(dict.fromkeys(definition.primary_key or ())) or None


def creation(definition: Definition) -> CreateTable:
    """The table as a statement that creates it."""
    added = tuple(AddColumn(name, column.type, column.declared) for name, column in columns_of(definition).items())
    return CreateTable(added, keys_of(definition))


def alteration(old: Definition, new: Definition, text: str | None) -> tuple[Action, ...]:
    """What makes the new structure of the old one."""
    before, after = columns_of(old), columns_of(new)
    said = _said(old.name, text) if text else ()
    if _names_after(said, before) != set(after):
        said = ()
    actions: list[Action] = [_typed(action, after) for action in said]
    known = _names_after(actions, before)
    actions += [DropColumn(name) for name in before if name in known and name not in after]
    actions += [_added(name, new, after) for name in after if name not in known]
    told = {action.name for action in actions if isinstance(action, AddColumn | ChangeType)}
    actions += [ChangeType(n, c.type, c.declared) for n, c in after.items() if n in before and n not in told and before[n] != c]
    if keys_of(old) != keys_of(new):
        actions.append(SetKeys(keys_of(new) or ()))
    if old.name != new.name:
        actions.append(RenameTable(new.name))
    return tuple(actions)


def _declared(column: ColumnDefinition) -> str:
    length = f"({column.length})" if column.length is not None else ""
    return f"{column.type}{length}{' unsigned' if column.signed is False else ''}"


def _said(table: TableName, text: str) -> tuple[Action, ...]:
    """The column actions of the text about this table; none where any of it is not understood."""
    statements = [s for s in understand(text, dialect="mysql", table=table) if s.table == table]
    actions = tuple(action for statement in statements for action in statement.actions)
    if any(isinstance(action, NotUnderstood) for action in actions):
        return ()
    return tuple(action for action in actions if isinstance(action, AddColumn | DropColumn | RenameColumn | ChangeType))


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


def _typed(action: Action, after: Mapping[str, Column]) -> Action:
    """The action with the structure's type where it has one: a decimal's digits are in the text alone."""
    if isinstance(action, AddColumn | ChangeType):
        column = after.get(action.name)
        if column is not None and column.type is not None:
            return replace(action, type=column.type)
    return action


def _added(name: str, new: Definition, after: Mapping[str, Column]) -> AddColumn:
    names = [column.name for column in new.columns]
    place = names.index(name)
    return AddColumn(name, after[name].type, after[name].declared, first=place == 0, after=names[place - 1] if place else None)
