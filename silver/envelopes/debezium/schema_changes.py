r"""Debezium's schema-change topic: statements of the source with the table structure after them.

    {"source": {...}, "ts_ms": 1465491411815, "databaseName": "shop", "schemaName": null,
     "ddl": "ALTER TABLE orders ADD c INT",
     "tableChanges": [{"type": "ALTER", "id": "\"shop\".\"orders\"",
      "table": {"primaryKeyColumnNames": ["id"],
      "columns": [{"name": "id", "typeName": "INT", "typeExpression": "INT", "length": null, "scale": null,
       "optional": false}]}}]}

    message                                  becomes
    read by a snapshot                       only the structure: a snapshot begins with DROP TABLE for every
                                             table, which nobody executed
    with a statement                         ddl; the statement is what it does, the structure has the columns
    without one (SQL Server)                 ddl; CREATE and DROP as they are; after ALTER the rows show them
    without a statement, with comments       also those of the table and its columns

A renamed table has type ALTER under its new name; only the statement has the old name. TiCDC writes both
names into `id`, `"shop"."t1","shop"."t2"`: this alone is the rename, whatever the statement says. TRUNCATE
never comes here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from msgspec import Raw, structs

from framework.contracts.ddl_actions import (
    Action,
    AddColumn,
    CreateTable,
    DropTable,
    NoEffect,
    RenameTable,
    SetComment,
    TableName,
)
from framework.contracts.events import Column, Control, ControlKind, Event, Token
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.decoding.json_reader import optional_text
from silver.envelopes.debezium.source_block import Members, SourceBlock, event_time_of, transaction_name
from silver.values.declared_types import type_of_declaration

DIALECTS = {
    **dict.fromkeys(("mysql", "mariadb", "vitess", "ticdc"), "mysql"),
    **{"oracle": "oracle", "postgresql": "postgres", "sqlserver": "tsql", "db2": "db2"},
}
"""The SQL dialect of the database that each connector reads."""

_PART = re.compile(r'"((?:[^"]|"")*)"')
_TABLE = r'"(?:[^"]|"")*"(?:\."(?:[^"]|"")*")*'
_TABLES = re.compile(rf"{_TABLE}(?:\s*,\s*{_TABLE})+")
_WITH_LENGTH = frozenset(
    {
        "decimal",
        "numeric",
        "number",
        "char",
        "varchar",
        "varchar2",
        "nvarchar",
        "binary",
        "varbinary",
        "datetime",
        "timestamp",
        "time",
        "float",
        "bit",
        "money",
        "smallmoney",
    }
)
_FLOAT_BITS = 53
_LEAST_SCALE = -84
"""Of a NUMBER of Oracle."""


class _Column(msgspec.Struct):
    name: str
    typeName: str | None = None
    typeExpression: str | None = None
    length: int | None = None
    scale: int | None = None
    optional: bool | None = None
    position: int | None = None
    comment: str | None = None
    enumValues: list[str] | None = None


class _Table(msgspec.Struct):
    primaryKeyColumnNames: list[str] | None = None
    columns: list[_Column] | None = None
    comment: str | None = None


class _Change(msgspec.Struct):
    type: str
    id: str
    table: _Table | None = None


class SchemaChange(msgspec.Struct):
    """One message of the topic."""

    source: dict[str, Raw]
    databaseName: str | None = None
    schemaName: str | None = None
    ddl: str | None = None
    tableChanges: list[_Change] | None = None
    ts_ms: Raw = Raw()


@dataclass(frozen=True, slots=True)
class _Coordinates:
    """The `source` block, position, event time and server of a message."""

    source: SourceBlock
    position: tuple[int, ...] | None
    event_time: int | None
    server: str | None


def schema_events(change: SchemaChange) -> Sequence[Event]:
    """The events of one message: one for each table, or one for a statement without a table."""
    source = SourceBlock(change.source)
    server = None if source.is_snapshot else source.server
    position = source.control_position
    event_time = source.event_time or event_time_of({"ts_ms": change.ts_ms})
    coordinates = _Coordinates(source, position, event_time, server)
    structure_only = source.is_snapshot
    changes = change.tableChanges or []
    for found in changes:
        if found.type not in ("CREATE", "ALTER", "DROP"):
            raise Malformed(Reason.UNKNOWN_OP, f"tableChanges type {found.type[:90]}")
    statement = (change.ddl or "").strip() or None
    if not changes:
        return (_event(change, None, coordinates, (NoEffect("snapshot"),) if structure_only else None),)
    renamed = [found for found in changes if _TABLES.fullmatch(found.id)]
    if renamed:
        others = [
            _event(change, found, coordinates, (NoEffect("structure"),))
            for found in changes
            if found not in renamed
        ]
        return [*(event for found in renamed for event in _rename(change, found, coordinates)), *others]
    if structure_only or statement is None:
        return [
            _event(change, found, coordinates, _structure(source, found, structure_only)) for found in changes
        ]
    others = [_event(change, found, coordinates, (NoEffect("structure"),)) for found in changes[1:]]
    return [_event(change, changes[0], coordinates, None), *others]  # the statement itself names every table


def _event(
    change: SchemaChange, found: _Change | None, coordinates: _Coordinates, actions: tuple[Action, ...] | None
) -> Control:
    database, schema, table = _names(change, found, coordinates.source)
    dialect = _dialect(coordinates.source)
    columns = _columns(found, dialect)
    keys = (
        [name for name in (found.table.primaryKeyColumnNames or ()) if name in columns]
        if found and found.table
        else []
    )
    return Control(
        kind=ControlKind.DDL,
        op=found.type if found else "DDL",
        database=database,
        schema=schema,
        table=table,
        statement=(change.ddl or "").strip() or None,
        position=coordinates.position,
        event_time=coordinates.event_time,
        keys=tuple(dict.fromkeys(keys)) or None,
        columns=columns,
        server=coordinates.server,
        dialect=dialect,
        actions=actions,
    )


def _rename(change: SchemaChange, found: _Change, coordinates: _Coordinates) -> list[Control]:
    """The rename of an id with both names, and the structure of the table under the new name."""
    names = [match[0] for match in re.finditer(_TABLE, found.id)]
    if len(names) != 2:
        raise Malformed(Reason.WRONG_SHAPE, f"tableChanges.id names {len(names)} tables, a rename has two")
    change = structs.replace(
        change, databaseName=None, schemaName=None
    )  # nothing says to which of the two it belongs
    old, new = (structs.replace(found, id=name) for name in names)
    database, schema, table = _names(change, new, coordinates.source)
    renames = () if table is None else (RenameTable(TableName(database, schema, table)),)
    return [
        _event(change, structs.replace(old, table=None), coordinates, renames),
        structs.replace(_event(change, new, coordinates, (NoEffect("structure"),)), statement=None),
    ]


def _names(
    change: SchemaChange, found: _Change | None, source: SourceBlock
) -> tuple[str | None, str | None, str | None]:
    parts = [part.replace('""', '"') for part in _PART.findall(found.id)] if found else []
    if found and not parts:
        parts = [found.id]
    database = change.databaseName or (parts[0] if len(parts) > 1 else None) or source.text("db")
    schema = change.schemaName or (parts[1] if len(parts) > 2 else None) or source.text("schema")
    return (
        database or None,
        schema or None,
        (parts[-1] or None) if parts else source.text("table"),
    )


def _dialect(source: SourceBlock) -> str:
    return DIALECTS.get((source.text("connector") or "").lower(), "")


def _structure(source: SourceBlock, found: _Change, is_read: bool) -> tuple[Action, ...]:
    if found.type == "DROP":
        return (NoEffect("snapshot"),) if is_read else (DropTable(),)
    comments = _comments(found)
    if found.type == "ALTER" and not is_read:
        return comments or (NoEffect("structure"),)
    declared = _columns(found, _dialect(source))
    required = {c.name for c in found.table.columns or () if c.optional is False} if found.table else set()
    columns = tuple(
        AddColumn(name, c.type, c.declared, is_not_null=name in required) for name, c in declared.items()
    )
    keys = (
        [name for name in (found.table.primaryKeyColumnNames or ()) if name in declared]
        if found.table
        else []
    )
    return (CreateTable(columns, tuple(dict.fromkeys(keys)) or None, if_not_exists=True), *comments)


def _comments(found: _Change) -> tuple[Action, ...]:
    """The comments of the table and of all its columns; none where the connector does not send them.

    It sends null for each of them unless `include.schema.comments` is set.
    """
    if found.table is None:
        return ()
    columns = found.table.columns or ()
    if not found.table.comment and not any(column.comment for column in columns):
        return ()
    on_columns = (SetComment(column.comment or "", column.name) for column in columns)
    return (SetComment(found.table.comment or ""), *on_columns)


def _columns(found: _Change | None, dialect: str) -> dict[str, Column]:
    if found is None or found.table is None:
        return {}
    columns = {}
    for column in found.table.columns or ():
        declared = _declared(column, dialect)
        kind = type_of_declaration(declared, dialect) if declared else None
        columns[column.name] = Column(
            type=kind, declared=declared, token=Token.NULL if kind is None else None
        )
    return columns


def _declared(column: _Column, dialect: str) -> str | None:
    """The type as the source would write it: the expression with its length and scale, if it has them.

    SQL Server and DB2 call a number of 32 bits `real`. The length of a `float` is in decimal digits there.
    A NUMBER of Oracle without a scale has any scale; some connectors write -127 then.
    """
    name = (column.typeExpression or column.typeName or "").strip()
    if dialect in ("tsql", "db2") and name.lower() == "float":
        return f"{name}({_FLOAT_BITS})"
    if name.upper() in ("ENUM", "SET") and column.enumValues:
        return f"{name}({','.join(column.enumValues)})"
    if not name or "(" in name or column.length is None or column.length < 0:
        return name or None
    head, _, rest = name.partition(" ")
    if head.lower() not in _WITH_LENGTH:
        return name
    if head.lower() == "number":
        is_open = not column.length or column.scale is None or column.scale < _LEAST_SCALE
        return name if is_open else f"{name}({column.length},{column.scale})"
    digits = (
        f"({column.length})"
        if column.scale is None or column.scale < 0
        else f"({column.length},{column.scale})"
    )
    return f"{head}{digits}{' ' + rest if rest else ''}"


def transaction_event(status: str, payload: Members, event_time: int | None) -> Control:
    """The event of a message of the transaction topic: BEGIN or END."""
    if status not in ("BEGIN", "END"):
        raise Malformed(Reason.UNKNOWN_OP, f"transaction status {status[:90]}")
    name = transaction_name(optional_text(payload.get("id", Raw())) or None)
    return Control(ControlKind.TRANSACTION, status, event_time=event_time, transaction_id=name)
