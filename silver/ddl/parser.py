"""Parses the DDL text of source databases into structured actions.

`parse_ddl` reads whole statements of MySQL and databases like it, OceanBase, Oracle, PostgreSQL, SQL Server
and DB2, several in one text, or the bare clause of an ALTER TABLE. What it cannot read becomes `Unsupported`;
nothing is skipped in silence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from framework.contracts.ddl_actions import NoEffect, Statement, TableName, Unsupported, has_effect
from silver.ddl.name_resolution import NOBODY, Scope, with_envelopes_case, without_guesses
from silver.ddl.statements import read_statement
from silver.ddl.tokens import DIALECTS, LONGEST_TEXT, Cursor, UnsupportedDdl, uncommented

EMPTY = NoEffect("empty")
"""A text without a statement: comments, semicolons."""
_TABLE_VERBS = frozenset({"CREATE", "ALTER", "DROP", "TRUNCATE", "RENAME"})
_RIGHTS = frozenset({"GRANT", "REVOKE", "DENY"})
_SPEAKERS = _RIGHTS | {"SHOW", "DESC", "DESCRIBE", "NOAUDIT", "HELP"}
_BLOCKS = frozenset({"BEGIN", "DECLARE", "IF", "WHILE", "LOOP", "CASE", "FOR"})
_TRANSACTIONS = frozenset({";", "TRAN", "TRANSACTION", "WORK"})
_BODILESS = frozenset({"TABLE", "VIEW", "INDEX", ";", "(", "DATABASE", "USER", "SEQUENCE"})
_BODIED = frozenset({"PROCEDURE", "PROC", "FUNCTION", "TRIGGER", "EVENT", "PACKAGE", "TYPE"})


def parse_ddl(
    text: str, *, dialect: str, table: TableName | None, knows_session: bool = False
) -> tuple[Statement, ...]:
    """The actions of a text, statement by statement and table by table, in order.

    Args:
        text: The statements, or one bare clause of ALTER TABLE.
        dialect: mysql, oracle, postgres, tsql or db2. For anything else all readings are tried.
        table: The table that the message names, with an empty name when it names none. None: there is no
            message, and unqualified names have no database.
        knows_session: The session of the text is surely in the database of this table.

    Returns:
        At least one statement. Text that is not understood gives `Unsupported`; nothing is raised.
    """
    knows_session = knows_session or table is None
    if dialect in DIALECTS:
        return _understand(text, dialect, Scope(table or NOBODY, dialect, knows_session))
    first: tuple[Statement, ...] | None = None
    for quoting in _guesses(text):
        found = _understand(text, quoting, Scope(table or NOBODY, "", knows_session))
        if not any(isinstance(action, Unsupported) for statement in found for action in statement.actions):
            return found
        first = first or found
    return first or ()


def _guesses(text: str) -> tuple[str, ...]:
    if "`" in text:
        return ("mysql",)
    return ("tsql", "oracle", "postgres") if re.search(r"\[\w", text) else ("oracle", "mysql", "postgres")


def _understand(text: str, quoting: str, outer: Scope) -> tuple[Statement, ...]:
    scope, dialect = outer, outer.dialect
    try:
        if len(text) > LONGEST_TEXT:
            raise UnsupportedDdl(f"longer than {LONGEST_TEXT:,} characters")
        cursor = Cursor.of(uncommented(text) if quoting == "mysql" else text, dialect, quoting)
        pieces = list(_split(cursor, quoting == "tsql"))
    except UnsupportedDdl as problem:
        return (Statement(scope.subject, (Unsupported(str(problem)),)),)
    found: list[Statement] = []
    for piece in pieces:
        text_of_piece = piece.slice(piece.i, piece.end) if len(pieces) > 1 else None
        if piece.at("USE") and piece.end - piece.i == 2:
            piece.i += 1
            scope = scope.within(piece.name()) if piece.is_name() else scope
            found.append(Statement(scope.subject, (NoEffect("session"),), text_of_piece))
            continue
        words = piece.words[piece.i : piece.end]
        try:
            statements = read_statement(piece, scope)
            if _holds_another(words) and not any(has_effect(statement.actions) for statement in statements):
                raise UnsupportedDdl("a statement about a table stands inside of another")
            found += (replace(statement, text=text_of_piece) for statement in statements)
        except UnsupportedDdl as problem:
            found.append(Statement(scope.subject, (Unsupported(str(problem)),), text_of_piece))
    if not found:
        return (Statement(scope.subject, (EMPTY,)),)
    certain = without_guesses(found, outer)
    if not dialect and '"' in text:  # a name in double quotes has a case of its own in many databases
        return certain
    return with_envelopes_case(certain, outer)


def _holds_another(words: list[str]) -> bool:
    """Whether a statement that starts otherwise also creates, alters or drops a table further on.

    Statements that only mention such words do not count.
    """
    if (
        words[0] in _SPEAKERS
        or "AUDIT" in words[:2]
        or (words[0] in ("CREATE", "ALTER") and not _BODIED.isdisjoint(words[1:12]))
    ):
        return False
    return any(
        word in _TABLE_VERBS and words[i + 1] == "TABLE" and words[i + 2] != ","
        for i, word in enumerate(words[1:-2], 1)
    )


def _split(cursor: Cursor, is_tsql: bool) -> Iterator[Cursor]:
    """The statements of a text; the body of a routine stays in one piece."""
    start, words = 0, cursor.words
    body: _Body | None = None
    ends = (";", "GO") if is_tsql else (";",)
    last_begin = max((i for i, word in enumerate(words) if word == "BEGIN"), default=-1)
    for i, word in enumerate(words):
        if i == start:
            body = _body_of(words, i, has_block=last_begin >= i)
        if body is not None:
            body.see(words, i)
        is_end = word in ends and (body is None or body.is_done())
        if is_end or (word == "/" and i > start and words[i - 1] == ";"):
            yield from _piece(cursor, start, i)
            start = i + 1
        elif is_tsql and body is None and i > start and _is_cut(words, start, i):
            yield from _piece(cursor, start, i)
            start = i
    yield from _piece(cursor, start, len(words))


class _Body:
    """How deeply blocks are nested at the splitter's place."""

    def __init__(self, has_block: bool, is_package: bool) -> None:
        self.has_block, self.is_package, self.has_begun, self.depth = has_block, is_package, False, 0

    def see(self, words: list[str], i: int) -> None:
        """Takes the word at a place into account."""
        word = words[i]
        if word in ("BEGIN", "CASE") and words[i - 1 : i] != ["END"]:
            self.has_begun = self.has_begun or word == "BEGIN"
            self.depth += 1
        elif word == "END" and words[i + 1 : i + 2] not in (["IF"], ["LOOP"], ["WHILE"], ["REPEAT"], ["FOR"]):
            self.depth -= 1

    def is_done(self) -> bool:
        """Whether a semicolon here ends the statement."""
        return not self.is_package and self.depth <= 0 and (self.has_begun or not self.has_block)


def _piece(cursor: Cursor, start: int, end: int) -> Iterator[Cursor]:
    while end > start and cursor.words[end - 1] == "/":
        end -= 1
    while start < end and cursor.words[start] == "/":
        start += 1
    if start < end:
        yield cursor.between(start, end)


def _body_of(words: list[str], start: int, *, has_block: bool) -> _Body | None:
    """The block that a routine or a bare block (`IF …`, `BEGIN …`) opens here, or None.

    `has_block`: there is a BEGIN from here on.
    """
    word, following = words[start], words[start + 1 : start + 2]
    if word in _BLOCKS and not (word == "BEGIN" and (not following or following[0] in _TRANSACTIONS)):
        return _Body(has_block, False)
    if word not in ("CREATE", "ALTER"):
        return None
    for word in words[start + 1 : start + 12]:
        if word in _BODIED:
            return _Body(has_block, word == "PACKAGE")
        if word in _BODILESS:
            return None
    return None


def _is_cut(words: list[str], start: int, i: int) -> bool:
    """Whether another statement of SQL Server starts here without a semicolon before it."""
    if words[start] in _RIGHTS or i + 1 >= len(words):
        return False
    is_call = words[i] in ("EXEC", "EXECUTE") and "SP_RENAME" in words[i + 1 : i + 6]
    return is_call or (words[i] in _TABLE_VERBS and words[i + 1] == "TABLE")
