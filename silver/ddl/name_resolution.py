"""Resolves table names in statements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from framework.contracts.ddl_actions import (
    Action,
    CreateTable,
    NoEffect,
    RenameTable,
    Statement,
    TableName,
    Unsupported,
)
from silver.ddl.tokens import Cursor

NOBODY = TableName(None, None, "")
_CASELESS = ("mysql", "tsql", "")
"""The dialects of servers that may ignore the case of a table's name, quoted or not."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What unqualified names are relative to: the envelope's table, and the database of an earlier `USE`.

    The first part of a two-part name is the schema where the envelope has one, else the database. Without an
    envelope it is the database in MySQL and the schema in other databases.
    """

    table: TableName | None
    dialect: str

    def within(self, database: str) -> Scope:
        """The scope after `USE database`."""
        return replace(self, table=replace(self.table or NOBODY, database=database))

    @property
    def subject(self) -> TableName:
        """The envelope's table."""
        return self.table or NOBODY

    def read(self, cursor: Cursor) -> TableName:
        """The table whose name is at the cursor."""
        cursor.take("#")
        if cursor.dialect == "tsql" and cursor.take("OBJECT"):
            cursor.need(":", ":")
        return self.table_of(cursor.path())

    def table_of(self, parts: tuple[str, ...]) -> TableName:
        """The table of a qualified name; missing parts are those of the envelope's table."""
        home = self.subject
        if len(parts) == 1:
            return TableName(home.database, home.schema, parts[0])
        if len(parts) == 2:
            if home.schema is not None or (home.database is None and self.dialect not in ("mysql", "")):
                return TableName(home.database, parts[0] or home.schema, parts[1])
            return TableName(parts[0] or home.database, None, parts[1])
        return TableName(parts[-3] or home.database, parts[-2] or home.schema, parts[-1])

    def new_name_of(self, table: TableName, parts: tuple[str, ...]) -> TableName:
        """The new name of a table.

        An unqualified name stays in the database and schema of the table; in MySQL it goes to the session's
        database.
        """
        if len(parts) > 1 or (self.dialect in ("mysql", "") and self.table is not None):
            return self.table_of(parts)
        return replace(table, table=parts[-1])


def with_envelopes_case(
    found: tuple[Statement, ...], envelope: TableName | None, dialect: str
) -> tuple[Statement, ...]:
    """The statements, with the envelope's name of its table where the text has it in another case.

    A server that ignores case sends rows under the name that it keeps, and a text as somebody typed it. A
    text that also names the envelope's table exactly tells the two names apart, and stays as it is. MySQL
    either tells names of other case apart or keeps all names in lower case, also those of other tables in the
    text.
    """
    names = {name for statement in found for name in _names(statement)}
    if envelope is None or dialect not in _CASELESS or envelope in names:
        return found
    folded = _lower(envelope)
    if all(_lower(name) != folded for name in names):
        return found
    keeps_lower = dialect == "mysql" and envelope == folded

    def kept(name: TableName) -> TableName:
        if _lower(name) == folded:
            return envelope
        return _lower(name) if keeps_lower else name

    return tuple(
        replace(
            statement,
            table=kept(statement.table),
            actions=tuple(_with_name(action, kept) for action in statement.actions),
        )
        for statement in found
    )


def _names(statement: Statement) -> list[TableName]:
    """The tables that a statement names; none where nothing says that it names one."""
    if all(isinstance(action, NoEffect | Unsupported) for action in statement.actions):
        return []
    targets = [action.to for action in statement.actions if isinstance(action, RenameTable)]
    models = [action.like for action in statement.actions if isinstance(action, CreateTable) and action.like]
    return [statement.table, *targets, *models]


def _with_name(action: Action, kept: Callable[[TableName], TableName]) -> Action:
    if isinstance(action, RenameTable):
        return replace(action, to=kept(action.to))
    if isinstance(action, CreateTable) and action.like is not None:
        return replace(action, like=kept(action.like))
    return action


def _lower(name: TableName) -> TableName:
    database, schema = (None if part is None else part.lower() for part in (name.database, name.schema))
    return TableName(database, schema, name.table.lower())
