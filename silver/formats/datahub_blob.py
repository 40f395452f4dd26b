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

import msgspec
from msgspec import Raw

from framework.contracts.events import Column, Control, ControlKind, Event, Half, Op, RowChange, Token
from framework.contracts.raw import RawMessage
from framework.contracts.reasons import Malformed, Reason
from silver.dataworks_wire import CONTROLS, Ddl, NamedColumn, Timestamp, event_time
from silver.format import Context, Format
from silver.types import declared_text, instant_of_epoch
from silver.wire import checked_keys, checked_width, number_of, read_json, required, scalar, time_of

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
_TYPES = {"BOOLEAN": "boolean", "LONG": "bigint", "DOUBLE": "double", "STRING": "string", "DATE": "timestamp", "BYTES": "binary"}


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
    dataColumn: dict[str, Raw] | None = None


class _Payload(msgspec.Struct):
    op: str
    before: _Image | None = None
    after: _Image | None = None
    sequenceId: Raw = Raw()
    timestamp: Timestamp | None = None
    ddl: Ddl | None = None


class _Message(msgspec.Struct):
    payload: _Payload
    schema: _Schema | None = None
    version: str | None = None


_MESSAGE = msgspec.json.Decoder(_Message)


def decode(message: RawMessage, context: Context) -> Sequence[Event]:
    """The change or control event of one Blob message."""
    envelope = read_json(_MESSAGE, message.value)
    if envelope.version is not None and envelope.version.partition(".")[0] not in ("0", "1"):
        raise Malformed(Reason.UNSUPPORTED_VERSION, "version is neither 0.x nor 1.x")
    payload, schema = envelope.payload, envelope.schema or _Schema()
    source = schema.source or _Source()
    changed_at = time_of(event_time(payload.timestamp), "timestamp.eventTime")
    position = number_of(payload.sequenceId, "sequenceId")
    if payload.op in _ROWS:
        return (_row(payload, schema, changed_at, position, context),)
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
            keys=checked_keys(schema.primaryKey),
            columns=_columns(schema),
            dialect=_DIALECTS.get((source.dbType or "").lower(), "mysql"),
        ),
    )


def _row(payload: _Payload, schema: _Schema, changed_at: int | None, position: int | None, context: Context) -> RowChange:
    source = schema.source or _Source()
    table = required(source.tableName, Reason.MISSING_TABLE, "schema.source.tableName")
    op, half = _ROWS[payload.op]
    columns = _columns(schema)
    before, after = _image(payload.before, columns), _image(payload.after, columns)
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
        keys=checked_keys(schema.primaryKey or context.keys_of(source.dbName, source.schemaName or None, table), before, after),
        before=before,
        after=after,
        columns=columns,
        position=(required(position, Reason.MISSING_POSITION, "sequenceId"),),
        event_time=changed_at,
        half=half,
    )


def _columns(schema: _Schema) -> dict[str, Column]:
    return {c.name: Column(type=_TYPES.get(c.type or "", "string"), declared=c.type) for c in schema.dataColumn or ()}


def _image(image: _Image | None, columns: dict[str, Column]) -> Mapping[str, str | None] | None:
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
    if column.type == "timestamp":
        return instant_of_epoch(text, "ms")
    return declared_text(column.type, token, text)


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
