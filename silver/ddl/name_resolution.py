"""Resolves table names in statements."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from framework.contracts.ddl_actions import (
    Action,
    CreateTable,
    NoEffect,
    RenameTable,
    Statement,
    TableName,
    Unsupported,
    has_effect,
)
from silver.ddl.tokens import Cursor

NOBODY = TableName(None, None, "")
_UNKNOWN = "the text does not say in which database"
_OF_SESSION = ("mysql", "")
"""The dialects of servers that may take each unqualified name from the session's database."""
_CASELESS = ("mysql", "tsql", "")
"""The dialects of servers that may ignore the case of a table's name, quoted or not."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What unqualified names are relative to: the envelope's table, and the database of an earlier `USE`.

    The first part of a two-part name is the schema where the envelope has one, else the database. Without an
    envelope it is the database in MySQL and the schema in other databases.

    Attributes:
        home: The envelope's table; with an empty name where the envelope names no table.
        dialect: The SQL dialect; empty where it is unknown.
        knows_session: Unqualified names are surely in the database of `home`.
        qualified: The tables whose database the text has said so far.
        assumed: The tables that the text has named without one, for which that of the envelope was taken, by
            their identity: the text may name an equal table with its database.
    """

    home: TableName
    dialect: str
    knows_session: bool
    qualified: set[TableName] = field(default_factory=set)
    assumed: dict[int, TableName] = field(default_factory=dict)

    def within(self, database: str) -> Scope:
        """The scope after `USE database`."""
        return replace(self, home=replace(self.home, database=database), knows_session=True)

    @property
    def names_table(self) -> bool:
        """Whether the envelope names a table."""
        return bool(self.home.table)

    @property
    def subject(self) -> TableName:
        """The envelope's table."""
        return self.home if self.names_table else NOBODY

    def read(self, cursor: Cursor) -> TableName:
        """The table whose name is at the cursor."""
        cursor.take("#")
        if cursor.dialect == "tsql" and cursor.take("OBJECT"):
            cursor.need(":", ":")
        return self.table_of(cursor.path())

    def table_of(self, parts: tuple[str, ...]) -> TableName:
        """The table of a qualified name; missing parts are those of the envelope's table."""
        found = self._table_of(parts)
        if len(parts) > 1:
            self.qualified.add(found)
        elif not self.knows_session:
            self.assumed[id(found)] = found
        return found

    def _table_of(self, parts: tuple[str, ...]) -> TableName:
        home = self.home
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
        has_session = self.home != NOBODY or not self.knows_session
        if len(parts) > 1 or (self.dialect in _OF_SESSION and has_session):
            return self.table_of(parts)
        return replace(table, table=parts[-1])


def without_guesses(found: list[Statement], scope: Scope) -> tuple[Statement, ...]:
    """The statements; not understood is one that acts on a table of an unknown database.

    A writer that takes the envelope's table from the text takes its database from there as well, and not from
    the session: in `RENAME TABLE orders TO archive.orders` the envelope's database does not say where
    `orders` is. The envelope may also have no database at all.
    """
    unknown = scope.assumed if _is_session_unknown(scope) else {}

    def certain(statement: Statement) -> Statement:
        if id(statement.table) in unknown and has_effect(statement.actions):
            return replace(statement, table=scope.subject, actions=(_without_database(statement.table),))
        actions = (
            _without_database(action.to)
            if isinstance(action, RenameTable) and id(action.to) in unknown
            else action
            for action in statement.actions
        )
        return replace(statement, actions=tuple(actions))

    return tuple(map(certain, found))


def _without_database(name: TableName) -> Unsupported:
    return Unsupported(f"{_UNKNOWN} `{name.table}` is")


def is_about_unknown_table(actions: Iterable[Action]) -> bool:
    """Whether one of these actions is not understood because nothing says in which database a table is."""
    return any(isinstance(action, Unsupported) and action.reason.startswith(_UNKNOWN) for action in actions)


def _is_session_unknown(scope: Scope) -> bool:
    home = scope.home
    if not scope.names_table:
        return home.database is None and home.schema is None
    return scope.dialect in _OF_SESSION and _lower(home) in map(_lower, scope.qualified)


def with_envelopes_case(found: tuple[Statement, ...], scope: Scope) -> tuple[Statement, ...]:
    """The statements, with the envelope's name of its table where the text has it in another case.

    A server that ignores case sends rows under the name that it keeps, and a text as somebody typed it. A
    text that also names the envelope's table exactly tells the two names apart, and stays as it is. MySQL
    either tells names of other case apart or keeps all names in lower case, also those of other tables in the
    text.
    """
    names = {name for statement in found for name in _names(statement)}
    envelope, dialect = scope.home, scope.dialect
    if not scope.names_table or dialect not in _CASELESS or envelope in names:
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
