"""Which table a name in a statement means."""

from __future__ import annotations

from dataclasses import dataclass, replace

from framework.contracts.actions import TableName
from silver.ddl_tokens import Cursor

NOBODY = TableName(None, None, "")


@dataclass(frozen=True, slots=True)
class Scope:
    """What unqualified names belong to: the envelope's table, and the database of a `USE` before.

    The envelope's shape says what a two-part name means: its first part is the schema where the envelope has one, else
    the database. Without an envelope it is MySQL's database and everybody else's schema.
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
        return self.named(cursor.path())

    def named(self, parts: tuple[str, ...]) -> TableName:
        """The table of a name's parts."""
        home = self.subject
        if len(parts) == 1:
            return TableName(home.database, home.schema, parts[0])
        if len(parts) == 2:
            if home.schema is not None or (home.database is None and self.dialect not in ("mysql", "")):
                return TableName(home.database, parts[0] or home.schema, parts[1])
            return TableName(parts[0] or home.database, None, parts[1])
        return TableName(parts[-3] or home.database, parts[-2] or home.schema, parts[-1])

    def renamed(self, table: TableName, parts: tuple[str, ...]) -> TableName:
        """The new name of a table: an unqualified one stays where the table is, in MySQL it goes to the session's database."""
        if len(parts) > 1 or (self.dialect in ("mysql", "") and self.table is not None):
            return self.named(parts)
        return replace(table, table=parts[-1])
