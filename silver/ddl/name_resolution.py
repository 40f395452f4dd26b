"""Resolves table names in statements."""

from __future__ import annotations

from dataclasses import dataclass, replace

from framework.contracts.ddl_actions import TableName
from silver.ddl.tokens import Cursor

NOBODY = TableName(None, None, "")


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
