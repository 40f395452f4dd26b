"""Reads whole statements, by their first word, into actions on each table that they name."""

from __future__ import annotations

from collections.abc import Callable

from framework.contracts.ddl_actions import (
    DML,
    IF_EXISTS,
    Action,
    CreateTable,
    DropTable,
    NoEffect,
    RenameColumn,
    RenameTable,
    SetComment,
    SetKeys,
    Statement,
    TableName,
    TruncateTable,
    Unsupported,
    has_effect,
)
from silver.ddl.alter_table import AlterReader
from silver.ddl.constraints import PARTITION_ROWS
from silver.ddl.create_table import read_create
from silver.ddl.keywords import GUARDED, OBJECTS, ROW_VERBS, SILENT, word_set
from silver.ddl.name_resolution import Scope
from silver.ddl.namespaces import DROP_TAILS, is_namespace, read_dropped
from silver.ddl.tokens import TEXT, Cursor, UnsupportedDdl

_FRAGMENTS = frozenset({"ADD", "MODIFY", "CHANGE", "CONVERT"})
_BEFORE_PARTNER = (("WITH", "TABLE"), ("CONVERT", "TABLE"), ("TO", "TABLE"))
_PARTNER_ROWS = "rows move between the table and a partition of another one"
_CLAUSE_ENDS = frozenset({"", ",", "CASCADE", "RESTRICT"})
_STORAGE_TAILS = word_set(
    "RESTART CONTINUE IDENTITY DROP REUSE ALL STORAGE IMMEDIATE PRESERVE PURGE IGNORE RESTRICT WHEN DELETE"
    " TRIGGERS WAIT NOWAIT MATERIALIZED VIEW SNAPSHOT LOG 0"
)


def read_statement(cursor: Cursor, scope: Scope) -> list[Statement]:
    """The actions of one statement, table by table.

    Raises:
        UnsupportedDdl: The statement is not understood.
    """
    word = cursor.word()
    handler = _HANDLERS.get(word)
    if handler is not None:
        return handler(cursor, scope)
    if (
        word == "CHANGE"
        and cursor.word(1) in ("MASTER", "REPLICATION")
        and cursor.word(2) in ("TO", "SOURCE", "FILTER")
    ):
        return [Statement(scope.subject, (NoEffect("administration"),))]
    if word in _FRAGMENTS:
        return [_fragment(cursor, scope)]
    if word in ROW_VERBS:
        return [Statement(scope.subject, (DML,))]
    if word in SILENT:
        return [Statement(scope.subject, (NoEffect(SILENT[word]),))]
    raise cursor.unsupported()


def _fragment(cursor: Cursor, scope: Scope) -> Statement:
    if not scope.names_table:
        raise UnsupportedDdl("a clause of ALTER TABLE without a table")
    return Statement(scope.home, AlterReader(cursor, scope, scope.home).read())


def _create(cursor: Cursor, scope: Scope) -> list[Statement]:
    return [read_create(cursor, scope)]


def _alter(cursor: Cursor, scope: Scope) -> list[Statement]:
    start = cursor.i
    cursor.i += 1
    while cursor.take_any(frozenset({"ONLINE", "OFFLINE", "IGNORE", "FOREIGN", "EXTERNAL"})):
        pass
    if not cursor.take("TABLE"):
        return [_alter_other(cursor, scope, start)]
    is_guarded = cursor.take("IF", "EXISTS")
    cursor.take("ONLY")
    table = scope.read(cursor)
    cursor.take("*")
    if not cursor.take("NOWAIT") and cursor.at("WAIT", "0"):
        cursor.i += 2
    clauses = cursor.between(cursor.i, cursor.end)
    actions = _guarded(AlterReader(cursor, scope, table).read(), is_guarded)
    return [Statement(table, actions), *_partners(clauses, scope)]


def _partners(cursor: Cursor, scope: Scope) -> list[Statement]:
    """The tables that exchange rows with a partition, or become one: their rows change, too."""
    found: list[Statement] = []
    while not cursor.is_end():
        if any(cursor.take(*words) for words in _BEFORE_PARTNER) and cursor.is_name():
            found.append(Statement(scope.read(cursor), (Unsupported(_PARTNER_ROWS),)))
        else:
            cursor.i += 1
    return found


def _guarded(actions: tuple[Action, ...], is_guarded: bool) -> tuple[Action, ...]:
    """The actions of a statement; those with IF EXISTS say so, unless they have no effect anyway."""
    return (IF_EXISTS, *actions) if is_guarded and has_effect(actions) else actions


def _alter_other(cursor: Cursor, scope: Scope, start: int) -> Statement:
    kind = cursor.word()
    has_default = cursor.word(1) in ("SET", "DROP") and cursor.word(2) == "DEFAULT"
    if kind == "COLUMN" or (has_default and kind != "DATABASE"):
        cursor.i = start
        return _fragment(cursor, scope)
    if kind == "SCHEMA" and "TRANSFER" in cursor.words[cursor.i : cursor.end]:
        return _transfer(cursor, scope)
    if kind in ("SCHEMA", "DATABASE") and (
        {"RENAME", "MODIFY"} & set(cursor.words[cursor.i + 2 : cursor.i + 3])
    ):
        raise UnsupportedDdl("a whole database gets another name")
    if (
        kind == "TYPE"
        and "RENAME" in cursor.words[cursor.i + 2 : cursor.end]
        and "VALUE" in cursor.words[cursor.i : cursor.end]
    ):
        raise UnsupportedDdl("a value of an enum gets another name in all rows")
    if (
        kind == "TYPE"
        and {"RENAME", "ADD", "DROP", "ALTER"} & set(cursor.words[cursor.i + 2 : cursor.end])
        and "ATTRIBUTE" in cursor.words
    ):
        raise UnsupportedDdl("a type's attributes change")
    if kind not in OBJECTS and kind not in GUARDED:
        raise cursor.unsupported()
    return Statement(scope.subject, (NoEffect(kind.lower()),))


def _transfer(cursor: Cursor, scope: Scope) -> Statement:
    """SQL Server's ALTER SCHEMA s TRANSFER [OBJECT::]t."""
    cursor.need("SCHEMA")
    schema = cursor.name()
    cursor.need("TRANSFER")
    table = scope.read(cursor)
    return Statement(table, (RenameTable(TableName(table.database, schema, table.table)),))


def _drop(cursor: Cursor, scope: Scope) -> list[Statement]:
    start = cursor.i
    cursor.i += 1
    is_temporary = cursor.take("TEMPORARY")
    cursor.take_any(frozenset({"FOREIGN", "EXTERNAL", "PUBLIC", "MATERIALIZED"}))
    kind = cursor.word()
    if _is_dropped_clause(cursor):
        cursor.i = start
        return [_fragment(cursor, scope)]
    if kind in ("TABLE", "TABLES") and cursor.word(1) not in ("", ","):
        cursor.i += 1
        return _drop_tables(cursor, scope, NoEffect("temporary table") if is_temporary else DropTable())
    if kind == "INDEX":
        return [_drop_index(cursor, scope, start)]
    if is_namespace(kind, scope):
        cursor.i += 1
        return read_dropped(cursor, scope)
    if kind in GUARDED and (GUARDED[kind] == "" or GUARDED[kind] in cursor.words[cursor.i : cursor.end]):
        raise UnsupportedDdl(f"tables or columns may go with a {kind.lower()}")
    if kind in OBJECTS or kind in GUARDED:
        return [Statement(scope.subject, (NoEffect(kind.lower()),))]
    cursor.i = start
    return [_fragment(cursor, scope)]


def _is_dropped_clause(cursor: Cursor) -> bool:
    """Whether an ALTER TABLE drops what is here: a partition, or a column that is called like an object.

    Where an object itself is dropped, its name follows.
    """
    kind, following = cursor.word(), cursor.word(1)
    if kind in ("PARTITION", "SUBPARTITION"):
        return following not in ("FUNCTION", "SCHEME")
    if kind == "UNIQUE" or cursor.at("SYSTEM", "VERSIONING"):
        return True
    return (kind in OBJECTS or kind in GUARDED) and following in _CLAUSE_ENDS


def _drop_tables(cursor: Cursor, scope: Scope, action: Action) -> list[Statement]:
    cursor.take("IF", "EXISTS")
    found = [Statement(scope.read(cursor), (action,))]
    while cursor.take(","):
        found.append(Statement(scope.read(cursor), (action,)))
    while cursor.take_any(DROP_TAILS):
        pass
    if cursor.take("AS") and cursor.is_name():  # Oracle: the table's name in the recycle bin
        cursor.path()
    if not cursor.is_end():
        raise cursor.unsupported()
    return found


def _drop_index(cursor: Cursor, scope: Scope, start: int) -> Statement:
    cursor.need("INDEX")
    cursor.take("CONCURRENTLY")
    cursor.take("IF", "EXISTS")
    name = cursor.path() if cursor.is_name() else ("",)
    if cursor.take("ON") and cursor.is_name():
        table = scope.read(cursor)
        is_key = scope.dialect in ("mysql", "") and name[-1].upper() == "PRIMARY"
        return Statement(table, (SetKeys(()) if is_key else NoEffect("index"),))
    if cursor.word() == "," and scope.names_table:
        cursor.i = start
        return _fragment(cursor, scope)
    return Statement(scope.subject, (NoEffect("index"),))


def _truncate(cursor: Cursor, scope: Scope) -> list[Statement]:
    cursor.i += 1
    if cursor.at("PARTITION"):
        raise UnsupportedDdl(PARTITION_ROWS)
    cursor.take("TABLE")
    found: list[Statement] = []
    while not found or cursor.take(","):
        cursor.take("IF", "EXISTS")
        cursor.take("ONLY")
        found.append(Statement(scope.read(cursor), (TruncateTable(),)))
        cursor.take("*")
    while cursor.take_any(_STORAGE_TAILS):
        pass
    if cursor.take("WITH"):
        raise UnsupportedDdl(PARTITION_ROWS)
    if cursor.take("CASCADE"):
        last = found[-1]
        found[-1] = Statement(
            last.table,
            (*last.actions, Unsupported("CASCADE may have emptied tables that it does not name")),
        )
    if not cursor.is_end():
        raise cursor.unsupported()
    return found


def _rename(cursor: Cursor, scope: Scope) -> list[Statement]:
    start = cursor.i
    cursor.i += 1
    word = cursor.word()
    if word in ("TO", "AS", "COLUMN") or (
        word in ("INDEX", "KEY", "CONSTRAINT") and scope.dialect == "mysql"
    ):
        cursor.i = start
        return [_fragment(cursor, scope)]
    if word in ("INDEX", "USER", "SEQUENCE", "TRIGGER", "VIEW") and cursor.word(1) != "TO":
        return [Statement(scope.subject, (NoEffect(word.lower()),))]
    if word in ("DATABASE", "SCHEMA"):
        raise UnsupportedDdl("a whole database gets another name")
    if word in ("TABLE", "TABLES", "OBJECT") and cursor.word(1) != "TO":
        cursor.i += 1
    is_guarded = cursor.take("IF", "EXISTS")
    found: list[Statement] = []
    while not found or cursor.take(","):
        table = scope.read(cursor)
        if cursor.take("WAIT"):
            cursor.need("0")
        cursor.take("NOWAIT")
        cursor.need("TO")
        rename = RenameTable(scope.new_name_of(table, cursor.path()))
        found.append(Statement(table, _guarded((rename,), is_guarded)))
    if not cursor.is_end():
        raise cursor.unsupported()
    return found


def _execute(cursor: Cursor, scope: Scope) -> list[Statement]:
    cursor.take_any(frozenset({"EXEC", "EXECUTE", "CALL"}))
    path = cursor.path()
    if path[-1].lower() == "sp_rename":
        return [_sp_rename(cursor, scope)]
    if path[-1].lower() in (
        "sp_addextendedproperty",
        "sp_updateextendedproperty",
        "sp_dropextendedproperty",
        "sp_settriggerorder",
    ):
        return [Statement(scope.subject, (NoEffect("administration"),))]
    raise UnsupportedDdl(f"what the procedure {path[-1]} does is not in the text")


def _sp_rename(cursor: Cursor, scope: Scope) -> Statement:
    """SQL Server's `sp_rename 'schema.table.old', 'new' [, 'COLUMN']`, its arguments by place or by name."""
    given: dict[str, str] = {}
    places = iter(("OBJNAME", "NEWNAME", "OBJTYPE"))
    while not cursor.is_end():
        place = next(places, "")
        if cursor.take("@"):
            place = cursor.word()
            cursor.i += 1
            cursor.need("=")
        if cursor.word() != TEXT and not cursor.is_name():
            raise cursor.unsupported()
        given[place] = str(cursor.tokens[cursor.i].text)
        cursor.i += 1
        if not cursor.is_end():
            cursor.need(",")
    return _renamed_object(
        given.get("OBJNAME", ""), given.get("NEWNAME", ""), given.get("OBJTYPE", "").upper(), scope
    )


def _renamed_object(old: str, new: str, kind: str, scope: Scope) -> Statement:
    parts = Cursor.of(old, scope.dialect, "tsql").path() if old and new else ()
    if kind in ("INDEX", "USERDATATYPE", "STATISTICS"):
        return Statement(scope.subject, (NoEffect(kind.lower()),))
    if kind == "COLUMN" and len(parts) > 1:
        return Statement(scope.table_of(parts[:-1]), (RenameColumn(parts[-1], new),))
    if kind in ("", "OBJECT") and parts:
        table = scope.table_of(parts)
        return Statement(table, (RenameTable(TableName(table.database, table.schema, new)),))
    raise UnsupportedDdl("sp_rename without a table or column that it names")


def _comment(cursor: Cursor, scope: Scope) -> list[Statement]:
    """COMMENT ON TABLE t IS 'text', COMMENT ON COLUMN t.c IS 'text'; other objects have no comment here."""
    cursor.need("COMMENT")
    if not cursor.take("ON"):
        return [Statement(scope.subject, (NoEffect("administration"),))]
    kind = cursor.take_any(frozenset({"TABLE", "COLUMN"}))
    if not kind or not cursor.is_name():
        return [Statement(scope.subject, (NoEffect("administration"),))]
    path = cursor.path()
    if not cursor.take("IS") or cursor.is_end() or (kind == "COLUMN" and len(path) < 2):
        return [Statement(scope.subject, (NoEffect("administration"),))]
    text = cursor.comment() or ""
    if kind == "TABLE":
        return [Statement(scope.table_of(path), (SetComment(text),))]
    return [Statement(scope.table_of(path[:-1]), (SetComment(text, path[-1]),))]


def _with(cursor: Cursor, scope: Scope) -> list[Statement]:
    """A query or a change of rows after its common table expressions."""
    while not cursor.is_end() and cursor.word() != "SELECT":
        if cursor.word() in ROW_VERBS and cursor.word() not in ("WITH", "("):
            return [Statement(scope.subject, (DML,))]
        if cursor.word() == "(":
            cursor.group()
        else:
            cursor.i += 1
    return _select(cursor, scope)


def _select(cursor: Cursor, scope: Scope) -> list[Statement]:
    """A query; SELECT … INTO creates a table in SQL Server and PostgreSQL."""
    if scope.dialect in ("tsql", "postgres", ""):
        while not cursor.is_end():
            if cursor.word() == "(":
                cursor.group()
            elif cursor.take("INTO"):
                cursor.take_any(frozenset({"TEMP", "TEMPORARY", "UNLOGGED"}))
                cursor.take("TABLE")
                if cursor.is_name():
                    return [Statement(scope.read(cursor), (CreateTable(),))]
            else:
                cursor.i += 1
    return [Statement(scope.subject, (DML,))]


def _begin(cursor: Cursor, scope: Scope) -> list[Statement]:
    cursor.i += 1
    cursor.take_any(frozenset({"TRANSACTION", "TRAN", "WORK"}))
    if not cursor.is_end():
        raise UnsupportedDdl("a block of statements")
    return [Statement(scope.subject, (NoEffect("session"),))]


_HANDLERS: dict[str, Callable[[Cursor, Scope], list[Statement]]] = {
    "CREATE": _create,
    "ALTER": _alter,
    "DROP": _drop,
    "TRUNCATE": _truncate,
    "RENAME": _rename,
    "EXEC": _execute,
    "EXECUTE": _execute,
    "CALL": _execute,
    "SP_RENAME": _execute,
    "SELECT": _select,
    "WITH": _with,
    "COMMENT": _comment,
    "BEGIN": _begin,
}
