"""Statements that drop all tables of a database or schema."""

from __future__ import annotations

from framework.contracts.ddl_actions import DropDatabase, Statement, TableName
from silver.ddl.name_resolution import Scope
from silver.ddl.tokens import Cursor

DROP_TAILS = frozenset({"CASCADE", "RESTRICT", "CONSTRAINTS", "PURGE", "WAIT", "NOWAIT", "0"})
"""The words that may follow the names in a DROP."""


def is_namespace(kind: str, scope: Scope) -> bool:
    """Whether tables are certain to be in what is dropped: a database of MySQL, a schema of PostgreSQL."""
    home = scope.home
    if home.schema is None:
        is_mysql = scope.dialect == "mysql" or (scope.dialect == "" and home.database is not None)
        return is_mysql and kind in ("DATABASE", "SCHEMA")
    return scope.dialect == "postgres" and kind == "SCHEMA"


def read_dropped(cursor: Cursor, scope: Scope) -> list[Statement]:
    """Reads what follows the kind in MySQL's DROP DATABASE d and PostgreSQL's DROP SCHEMA s, t CASCADE."""
    home = scope.home
    cursor.take("IF", "EXISTS")
    found: list[Statement] = []
    while not found or cursor.take(","):
        if not cursor.is_name():
            raise cursor.unsupported()
        name = cursor.name()
        if home.schema is None:
            # the envelope has the name as the server keeps it
            is_home = home.database is not None and home.database.lower() == name.lower()
            whole = TableName(home.database if is_home else name, None, "")
        else:
            whole = TableName(home.database, name, "")
        found.append(Statement(whole, (DropDatabase(),)))
    while cursor.take_any(DROP_TAILS):
        pass
    if not cursor.is_end():
        raise cursor.unsupported()
    return found
