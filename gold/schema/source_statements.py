"""A statement of the source as a lineage reads it, and the tables about which it is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from framework.contracts.ddl_actions import Action, DropDatabase, TableName


@dataclass(frozen=True, slots=True)
class Statement:
    """A DDL statement about one table, at its position.

    `message` is the topic, partition and offset of its message, `ordinal` its number there.
    """

    sequence: str
    change_id: str
    batch: int
    table: TableName
    actions: tuple[Action, ...]
    text: str | None = None
    ordinal: int = 0
    message: tuple[str, int, int] = ("", 0, 0)


def tables_of(statement: Statement, names: Iterable[TableName]) -> list[TableName]:
    """The tables about which a statement is: its own, or all of these that are in the database it drops."""
    if DropDatabase() not in statement.actions:
        return [statement.table]
    return [name for name in names if name.table and replace(name, table="") == statement.table]
