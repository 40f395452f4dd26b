"""CREATE statements: a table with its columns, or an object without rows of its own."""

from __future__ import annotations

from dataclasses import replace

from framework.contracts.ddl_actions import (
    Action,
    AddColumn,
    CreateTable,
    DropTable,
    NoEffect,
    Statement,
    TableName,
    Unsupported,
)
from silver.ddl.column_definition import ColumnReader
from silver.ddl.constraints import is_element, read_element
from silver.ddl.keywords import CREATED_OBJECTS, TABLE_PREFIXES
from silver.ddl.name_resolution import Scope
from silver.ddl.tokens import Cursor, UnsupportedDdl

_TEMPORARY = frozenset({"TEMPORARY", "TEMP"})
_KINDS = frozenset(
    {"VIEW", "PROCEDURE", "FUNCTION", "TRIGGER", "EVENT", "PACKAGE", "USER", "SEQUENCE", "INDEX"}
)
_QUERIES = frozenset({"SELECT", "WITH", "VALUES", "TABLE", "EXECUTE", "("})


def read_create(cursor: Cursor, scope: Scope) -> Statement:
    """Reads a CREATE statement from its first word."""
    cursor.need("CREATE")
    is_replaced = cursor.take("OR", "REPLACE") or cursor.take("OR", "ALTER")
    is_temporary = False
    while word := cursor.take_any(TABLE_PREFIXES):
        is_temporary = is_temporary or word in _TEMPORARY
    if not cursor.take("TABLE"):
        return _object(cursor, scope)
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    if cursor.word() == "#":
        return Statement(scope.subject, (NoEffect("temporary table"),))
    table = scope.read(cursor)
    if is_temporary:
        return Statement(table, (NoEffect("temporary table"),))
    try:
        created = replace(_TableReader(cursor, scope).read(), if_not_exists=if_not_exists)
    except UnsupportedDdl as problem:
        return Statement(table, (Unsupported(str(problem)),))
    actions: tuple[Action, ...] = (DropTable(), created) if is_replaced else (created,)
    return Statement(table, actions)


def _object(cursor: Cursor, scope: Scope) -> Statement:
    word = cursor.word()
    if word not in CREATED_OBJECTS:
        raise cursor.unsupported()
    words = cursor.words[cursor.i : cursor.end]
    if "INDEX" in words[:4] and "ON" in words:
        cursor.i = cursor.i + words.index("ON") + 1
        cursor.take("ONLY")
        if cursor.is_name():
            return Statement(scope.read(cursor), (NoEffect("index"),))
    kind = next((w for w in words[:12] if w in _KINDS), word)
    return Statement(scope.subject, (NoEffect(kind.lower()),))


class _TableReader:
    """Reads what follows a new table's name."""

    def __init__(self, cursor: Cursor, scope: Scope) -> None:
        self.cursor, self.scope = cursor, scope
        self.columns: list[AddColumn] = []
        self.keys: tuple[str, ...] | None = None
        self.like: TableName | None = None
        self.comment: str | None = None

    def read(self) -> CreateTable:
        cursor = self.cursor
        if cursor.take("LIKE"):
            self.like = self.scope.read(cursor)
            return CreateTable(like=self.like)
        if cursor.take("PARTITION", "OF"):
            self.like = self.scope.read(cursor)
            return CreateTable(like=self.like)
        if cursor.is_end():
            raise cursor.unsupported()
        is_query = False
        if cursor.word() == "(":
            start, inner = cursor.i, cursor.group()
            is_query = inner.word() in ("SELECT", "WITH", "(") or self._is_name_list(start)
            if not is_query:
                self._elements(inner)
        is_query = is_query or self._tail()
        return CreateTable(
            () if is_query else tuple(self.columns),
            self._key_as_declared(self.keys),
            self.like,
            comment=self.comment,
        )

    def _key_as_declared(self, keys: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """The key's columns, spelled as in their definitions."""
        if keys is None:
            return None
        names = {column.name.lower(): column.name for column in self.columns}
        exact = {column.name for column in self.columns}
        return tuple(key if key in exact else names.get(key.lower(), key) for key in keys)

    def _is_name_list(self, start: int) -> bool:
        """Whether the parentheses contain only names, before AS and a query."""
        inner = self.cursor.between(start, self.cursor.i).group()
        while inner.is_name():
            inner.i += 1
            if not inner.take(","):
                return inner.is_end() and "AS" in self.cursor.words[self.cursor.i : self.cursor.end]
        return False

    def _elements(self, inner: Cursor) -> None:
        while not inner.is_end():
            if inner.at("LIKE"):
                inner.i += 1
                self.like = self.scope.read(inner)
                inner.skip_to_comma()
            elif is_element(inner):
                keys = read_element(inner)
                self.keys = self.keys if keys is None else keys
            else:
                column = ColumnReader.read(inner)
                self.columns.append(column.add_action(is_existing=False))
                if column.is_key:
                    self.keys = (column.name,)
            if not inner.is_end():
                inner.need(",")

    def _tail(self) -> bool:
        """Skips the table's options, and returns whether a query gives the columns."""
        cursor = self.cursor
        while not cursor.is_end():
            if cursor.at("SELECT") or (cursor.at("AS") and cursor.word(1) in _QUERIES) or cursor.at("OF"):
                return True
            if cursor.at("INHERITS", "("):
                cursor.i += 1
                self._inherit(cursor.group())
            elif cursor.take("LIKE"):
                self.like = self.scope.read(cursor)
            elif cursor.word() == "(":
                cursor.group()
            elif cursor.take("COMMENT") and not cursor.is_end():
                self.comment = cursor.comment()
            elif not cursor.is_end():
                cursor.i += 1
        return False

    def _inherit(self, inner: Cursor) -> None:
        self.like = self.scope.read(inner)
        if not inner.is_end():
            raise UnsupportedDdl("a table that takes the columns of several others")
