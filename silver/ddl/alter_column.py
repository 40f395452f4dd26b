"""Clauses that declare a column again: MODIFY, CHANGE, ALTER COLUMN."""

from __future__ import annotations

from framework.contracts.ddl_actions import Action, ChangeType, NoEffect, RenameColumn, SetKeys, Unsupported
from silver.ddl.column_definition import ColumnReader, read_type
from silver.ddl.constraints import PARTITION_ROWS, take_existence
from silver.ddl.tokens import Cursor, UnsupportedDdl
from silver.values.sql_types import type_of_ddl

_ROW_WORDS = frozenset({"DROP", "TRUNCATE", "EXCHANGE"})
_STORED = frozenset({"SUBPARTITION", "NESTED", "VARRAY", "OPAQUE"})
_CONSTRAINTS = frozenset({"CONSTRAINT", "PRIMARY", "UNIQUE"})
_NAMED_ELEMENTS = frozenset({"INDEX", "CONSTRAINT", "CHECK"})
_ATTRIBUTE_VERBS = frozenset({"SET", "DROP", "ADD", "RESET", "RESTART", "COMPRESS"})
_ATTRIBUTE, _CONSTRAINT = NoEffect("column attribute"), NoEffect("constraint or index")


def read_modify(cursor: Cursor) -> list[Action]:
    """Reads what follows MODIFY: `[COLUMN] name type …`, Oracle's list in parentheses, or no column."""
    if cursor.word() == "(":
        found: list[Action] = []
        inner = cursor.group()
        while not inner.is_end():
            found += _redeclared(inner)
            if not inner.is_end():
                inner.need(",")
        return found
    if cursor.word() == "PARTITION" or (cursor.dialect != "mysql" and _is_storage(cursor)):
        changes_rows = not _ROW_WORDS.isdisjoint(cursor.words[cursor.i : cursor.end])
        cursor.skip_rest()
        return [Unsupported(PARTITION_ROWS) if changes_rows else NoEffect("partition or storage")]
    if cursor.dialect != "mysql" and cursor.word() in _CONSTRAINTS:
        cursor.skip_clause()
        return [_CONSTRAINT]
    cursor.take("COLUMN")
    take_existence(cursor)
    return _redeclared(cursor)


def _is_storage(cursor: Cursor) -> bool:
    return cursor.word() in _STORED or cursor.at("DEFAULT", "ATTRIBUTES") or cursor.at("LOB", "(")


def _redeclared(cursor: Cursor) -> list[Action]:
    found = _actions(ColumnReader.read(cursor))
    cursor.take("DROP", "IDENTITY")
    return found


def _actions(column: ColumnReader) -> list[Action]:
    found: list[Action] = [_ATTRIBUTE if column.declared is None else column.change_action()]
    if column.is_key:
        found.append(SetKeys((column.name,)))
    return found


def read_change(cursor: Cursor) -> list[Action]:
    """Reads what follows MySQL's CHANGE: `[COLUMN] old new type …`."""
    cursor.take("COLUMN")
    take_existence(cursor)
    old, new = cursor.name(), cursor.name()
    column = ColumnReader.read(cursor, new)
    if column.declared is None:
        raise cursor.unsupported()
    return [*([RenameColumn(old, new)] if old != new else []), *_actions(column)]


def read_alter_column(cursor: Cursor) -> list[Action]:
    """Reads what follows ALTER inside an ALTER TABLE: `[COLUMN] name …`, an index or a constraint."""
    is_element = cursor.word() in _NAMED_ELEMENTS and cursor.word(1) not in (*_ATTRIBUTE_VERBS, "TYPE")
    if is_element or cursor.at("FOREIGN", "KEY"):
        cursor.skip_clause()
        return [_CONSTRAINT]
    cursor.take("COLUMN")
    take_existence(cursor)
    name = cursor.name()
    if cursor.take("SET", "DATA", "TYPE") or cursor.take("TYPE"):
        return _retyped(cursor, name)
    if cursor.at("SET", "EXPRESSION"):
        raise UnsupportedDdl("the values of a generated column change")
    if cursor.take_any(_ATTRIBUTE_VERBS):
        cursor.skip_clause()
        return [_ATTRIBUTE]
    if cursor.dialect in ("tsql", "") and cursor.is_name():
        return _actions(ColumnReader.read(cursor, name))
    raise cursor.unsupported()


def _retyped(cursor: Cursor, name: str) -> list[Action]:
    declared = read_type(cursor)
    if declared is None:
        raise cursor.unsupported()
    if cursor.take("COLLATE"):
        cursor.path()
    if cursor.take("USING") and not _is_plain_cast(cursor, name):
        raise UnsupportedDdl(f"the values of {name} change by an expression")
    if cursor.word() == "SET":
        cursor.skip_clause()
    return [ChangeType(name, type_of_ddl(declared, cursor.dialect), declared)]


def _is_plain_cast(cursor: Cursor, name: str) -> bool:
    """Whether the expression here is the column itself, cast or not; the cursor goes past it."""
    start = cursor.i
    cursor.skip_clause()
    inner = cursor.between(start, cursor.i)
    while inner.word() == "(" and inner.closing(inner.i) == inner.end - 1:
        inner = inner.group()
    if inner.at("CAST", "("):
        inner.i += 1
        inner = inner.group()
        return (
            inner.is_name()
            and inner.name() == name
            and inner.take("AS")
            and read_type(inner) is not None
            and inner.is_end()
        )
    while inner.take("("):
        pass
    if not inner.is_name() or inner.name() != name:
        return False
    while inner.take(")"):
        pass
    while inner.take(":", ":"):
        read_type(inner)
        inner.take(")")
    return inner.is_end()
