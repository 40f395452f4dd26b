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


class TablesByPlace:
    """Names of tables by the database or schema that they are in: a statement may drop all of one."""

    def __init__(self, names: Iterable[TableName]) -> None:
        self._names: dict[TableName, dict[TableName, None]] = {}
        for name in names:
            self.add(name)

    def add(self, name: TableName) -> None:
        """Adds a name, if it is that of a table."""
        if name.table:
            self._names.setdefault(replace(name, table=""), {})[name] = None

    def tables_of(self, statement: Statement) -> list[TableName]:
        """The tables about which a statement is: its own, or all of the database that it drops."""
        if DropDatabase() not in statement.actions:
            return [statement.table]
        return list(self._names.get(statement.table, ()))
