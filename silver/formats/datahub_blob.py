"""DataHub Blob messages, 1.x: what Alibaba's DataWorks writes to DataHub topics of type Blob.

    {"schema": {"dataColumn": [{"name": "id", "type": "LONG"}], "primaryKey": ["id"],
                "source": {"dbType": "MySQL", "dbName": "shop", "tableName": "orders"}},
     "payload": {"op": "INSERT", "after": {"dataColumn": {"id": 1}}, "sequenceId": "1605339516000000004",
                 "timestamp": {"eventTime": 1605339932000}}, "version": "0.0.1"}

    op                                        becomes
    INSERT, DELETE                            insert, delete
    UPDATE_BEFOR, UPDATE_AFTER                the halves of one update; they share sequenceId
    UPDATE, an UPDATE_AFTER with both images  update
    TRUNCATE                                  truncate
    CREATE ALTER RENAME ERASE QUERY CINDEX DINDEX          ddl (the statement is payload.ddl.text)
    TRANSACTION_BEGIN TRANSACTION_END GTID XACOMMIT XAROLLBACK   transaction
    MHEARTBEAT                                heartbeat (no schema, no sequenceId)

    type     canonical   wire
    BOOLEAN  boolean     true, false
    LONG     bigint      number or text; may exceed 64 bits, the column is widened then
    DOUBLE   double      number or text
    STRING   string
    DATE     timestamp   milliseconds of the epoch, 13 digits
    BYTES    binary      base64

`UPDATE_BEFOR` is the vendor's spelling; `UPDATE_BEFORE` is read too. `ddlMeta` is a serialized Java object in base64:
it stays text in bronze and is never deserialized. DML and DDL share one sequence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Raw

from framework.contracts.events import Column, Control, ControlKind, Event, Half, Op, RowChange, Token
from framework.contracts.raw import RawMessage
from framework.contracts.reasons import Malformed, Reason
from silver.dataworks_wire import CONTROLS, Ddl, NamedColumn, Timestamp, event_time
from silver.format import Context, Format
from silver.types import declared_text, instant_of_epoch
from silver.wire import MAX_DIGITS, checked_keys, checked_width, number_of, read_json, required, scalar, time_of

_ROWS = {
    "INSERT": (Op.INSERT, None),
    "UPDATE": (Op.UPDATE, None),
    "UPDATE_BEFOR": (Op.UPDATE, Half.BEFORE),
    "UPDATE_BEFORE": (Op.UPDATE, Half.BEFORE),
    "UPDATE_AFTER": (Op.UPDATE, Half.AFTER),
    "DELETE": (Op.DELETE, None),
}
_CONTROLS = {"MHEARTBEAT": ControlKind.HEARTBEAT, **CONTROLS}
_DIALECTS = {"postgresql": "postgres", "sqlserver": "tsql", "oracle": "oracle", "db2": "db2"}
_MOST = 10**30
_AS_SENT = frozenset({"string", "binary", "double"})
_AS_COUNTED = _AS_SENT | {"bigint"}
_TYPES = {"BOOLEAN": "boolean", "LONG": "bigint", "DOUBLE": "double", "STRING": "string", "DATE": "timestamp", "BYTES": "binary"}


LONGEST_KEPT = 65_536
"""Bytes: a schema block up to this length is read once for all messages that repeat it."""


class _Digits(str):
    """A number with a point or an exponent, as it was sent."""


class _Source(msgspec.Struct):
    dbType: str | None = None
    dbName: str | None = None
    schemaName: str | None = None
    tableName: str | None = None


class _Schema(msgspec.Struct):
    dataColumn: list[NamedColumn] | None = None
    primaryKey: list[str] | None = None
    source: _Source | None = None


class _Image(msgspec.Struct):
    dataColumn: dict[str, Any] | None = None


class _RawImage(msgspec.Struct):
    dataColumn: dict[str, Raw] | None = None


class _RawImages(msgspec.Struct):
    before: _RawImage | None = None
    after: _RawImage | None = None


class _RawMessage(msgspec.Struct):
    payload: _RawImages


class _Payload(msgspec.Struct):
    op: str
    before: _Image | None = None
    after: _Image | None = None
    sequenceId: Raw = Raw()
    timestamp: Timestamp | None = None
    ddl: Ddl | None = None


class _Message(msgspec.Struct):
    payload: _Payload
    schema: Raw = Raw()
    version: str | None = None


class _Told(msgspec.Struct, frozen=True):
    """What a message's schema block says; shared by all messages with the same block."""

    source: _Source
    keys: list[str] | None
    columns: dict[str, Column]


_MESSAGE = msgspec.json.Decoder(_Message, float_hook=_Digits)
_RAW_MESSAGE = msgspec.json.Decoder(_RawMessage)
_SCHEMA = msgspec.json.Decoder(_Schema | None)


def decode(message: RawMessage, context: Context) -> Sequence[Event]:
    """The change or control event of one Blob message."""
    envelope = read_json(_MESSAGE, message.value)
    if envelope.version is not None and envelope.version.partition(".")[0] not in ("0", "1"):
        raise Malformed(Reason.UNSUPPORTED_VERSION, "version is neither 0.x nor 1.x")
    payload, told = envelope.payload, _told(bytes(envelope.schema))
    source = told.source
    changed_at = time_of(event_time(payload.timestamp), "timestamp.eventTime")
    position = number_of(payload.sequenceId, "sequenceId")
    if payload.op in _ROWS:
        return (_row(payload, told, changed_at, position, (message.value or b"", context)),)
    kind = _CONTROLS.get(payload.op)
    if kind is None:
        raise Malformed(Reason.UNKNOWN_OP, payload.op[:100])
    if kind in (ControlKind.DDL, ControlKind.TRUNCATE):
        required(position, Reason.MISSING_POSITION, "sequenceId")
    return (
        Control(
            kind=kind,
            op=payload.op,
            database=source.dbName,
            schema=source.schemaName or None,
            table=source.tableName,
            statement=payload.ddl.text if payload.ddl else None,
            position=None if position is None else (position,),
            event_time=changed_at,
            keys=checked_keys(told.keys),
            columns=told.columns,
            dialect=_DIALECTS.get((source.dbType or "").lower(), "mysql"),
        ),
    )


def _told(schema: bytes) -> _Told:
    return _known(schema) if len(schema) <= LONGEST_KEPT else _read(schema)


def _read(schema: bytes) -> _Told:
    read = (read_json(_SCHEMA, schema) if schema else None) or _Schema()
    columns = {c.name: Column(type=_TYPES.get(c.type or "", "string"), declared=c.type) for c in read.dataColumn or ()}
    return _Told(read.source or _Source(), read.primaryKey, columns)


_known = lru_cache(maxsize=1024)(_read)


def _row(payload: _Payload, told: _Told, changed_at: int | None, position: int | None, given: tuple[bytes, Context]) -> RowChange:
    (value, context), source = given, told.source
    table = required(source.tableName, Reason.MISSING_TABLE, "schema.source.tableName")
    op, half = _ROWS[payload.op]
    before, after, columns = _images(payload, told.columns, value)
    if half is Half.AFTER and before is not None:
        half = None
    needs_before = op is Op.DELETE or half is Half.BEFORE
    needs_after = op is not Op.DELETE and half is not Half.BEFORE
    if (needs_before and before is None) or (needs_after and after is None):
        raise Malformed(Reason.MISSING_IMAGE, f"{payload.op} without its {'before' if needs_before else 'after'} image")
    before, after = before if needs_before or op is Op.UPDATE else None, after if needs_after else None
    return RowChange(
        op=op,
        database=source.dbName,
        schema=source.schemaName or None,
        table=table,
        keys=checked_keys(told.keys or context.keys_of(source.dbName, source.schemaName or None, table), before, after),
        before=before,
        after=after,
        columns=columns,
        position=(required(position, Reason.MISSING_POSITION, "sequenceId"),),
        event_time=changed_at,
        half=half,
    )


Texts = Mapping[str, str | None] | None


def _images(payload: _Payload, columns: dict[str, Column], value: bytes) -> tuple[Texts, Texts, dict[str, Column]]:
    """Both images, and the columns with those that the schema leaves out.

    Cells come as Python values where these say exactly what was sent, else the message is read once more for its text.
    """
    try:
        return _quick(payload.before, columns, value), _quick(payload.after, columns, value), columns
    except _NotExact:
        images, columns = read_json(_RAW_MESSAGE, value).payload, dict(columns)
        return _image(images.before, columns), _image(images.after, columns), columns


class _NotExact(Exception):
    """A cell whose text a Python value does not show."""


def _quick(image: _Image | None, columns: Mapping[str, Column], value: bytes) -> Texts:
    if image is None or image.dataColumn is None:
        return None
    checked_width(image.dataColumn)
    texts: dict[str, str | None] = {}
    for name, cell in image.dataColumn.items():
        column = columns.get(name)
        if column is None or column.type is None:
            raise _NotExact
        kind = type(cell)
        if cell is None:
            texts[name] = None
        elif kind is str:
            texts[name] = cell if column.type in _AS_SENT else _canonical(column.type, Token.TEXT, cell)
        elif kind is int and -_MOST < cell < _MOST and (cell or b"-0" not in value):
            texts[name] = str(cell) if column.type in _AS_COUNTED else _canonical(column.type, Token.NUMBER, str(cell))
        elif kind is _Digits and len(cell) <= MAX_DIGITS:
            texts[name] = _canonical(column.type, Token.NUMBER, str(cell))
        elif kind is bool:
            texts[name] = _canonical(column.type, Token.BOOLEAN, "true" if cell else "false")
        else:
            raise _NotExact
    return texts


def _image(image: _RawImage | None, columns: dict[str, Column]) -> Texts:
    if image is None or image.dataColumn is None:
        return None
    checked_width(image.dataColumn)
    return {name: _value(columns, name, raw) for name, raw in image.dataColumn.items()}


def _value(columns: dict[str, Column], name: str, raw: Raw) -> str | None:
    token, text = scalar(raw)
    column = columns.get(name)
    if column is None or column.token is Token.NULL:
        column = columns[name] = Column(token=token)
    if text is None or column.type is None:
        return text
    return _canonical(column.type, token, text)


def _canonical(kind: str, token: Token, text: str) -> str | None:
    return instant_of_epoch(text, "ms") if kind == "timestamp" else declared_text(kind, token, text)


def column_type(kind: str) -> str | None:
    """The type that rows will declare for a column that a statement adds; None where DataHub's choice is not known."""
    if kind in ("tinyint", "smallint", "int", "bigint"):
        return "bigint"
    if kind in ("date", "timestamp", "timestamp_ntz"):
        return "timestamp"
    if kind.startswith("decimal"):
        return None
    return "double" if kind == "float" else kind


FORMAT = Format(
    name="datahub_blob",
    title="DataHub Blob",
    writer="Alibaba DataWorks into DataHub, Blob topics",
    reference="https://www.alibabacloud.com/help/en/dataworks/user-guide/appendix-message-formats",
    update_arrives_as="two messages, UPDATE_BEFOR and UPDATE_AFTER",
    keys_come_from="schema.primaryKey",
    order_comes_from="sequenceId",
    decode=decode,
    ops=frozenset({Op.INSERT, Op.UPDATE, Op.DELETE}),
    halves=True,
    column_type=column_type,
)
