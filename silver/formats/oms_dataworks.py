"""OceanBase OMS, DataWorks-compatible messages, protocol 2.0.

    {"version": "2.0",
     "schema": {"source": {"dbType": "ob_mysql", "dbVersion": null, "dbName": "shop", "schema": null,
                           "table": "orders"},
                "column": [{"name": "id", "type": "BIGINT"}, {"name": "paid", "type": "TIMESTAMP"}],
                "pk": ["id"]},
     "payload": {"before": null, "after": {"data": {"id": 1, "paid": "1606233662.012345"}}, "op": "INSERT",
                 "timestamp": {"eventTime": 1647581000000}, "ddl": null, "scn": "164758100000001"}}

    op                                                           becomes
    INSERT, UPDATE, DELETE                                       insert, update with both images, delete
    TRUNCATE                                                     truncate
    CREATE ALTER RENAME ERASE QUERY CINDEX DINDEX                ddl (the statement is payload.ddl.text)
    TRANSACTION_BEGIN TRANSACTION_END GTID XACOMMIT XAROLLBACK   transaction
    HEARTBEAT                                                    heartbeat (no schema)

    type                                                    canonical
    TINYINT SMALLINT INT BIGINT, INT8 to INT64              tinyint to bigint (more than 64 bits: widened)
    BOOLEAN                                                 boolean (sent as 1 and 0)
    FLOAT DOUBLE                                            float, double
    DECIMAL without digits                                  undeclared; with digits decimal(p,s)
    VARCHAR TIME ZONED_DATETIME INTERVAL_...                string
    BLOB BINARY                                             binary
    DATE DATETIME TIMESTAMP                                 date, timestamp_ntz, timestamp

For the values see `silver/envelopes/oms/values.py`. Names in `schema.column` that no image has are ignored
(in the vendor's samples these are all names); a column that it does not name is undeclared. `scn` rises, but
it can be the text `null`, as in every sample of the vendor. Therefore the position is `eventTime`, then `scn`
or 0. A transaction mark without `scn` has no position. `ddl.text` may be a fragment (`ADD COLUMN ...`).
`extend` has no fixed content and is not read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic

import msgspec
from msgspec import Raw

from framework.contracts.events import Column, Control, ControlKind, Event, Op, RowChange
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.decoding import (
    C,
    ColumnSet,
    Context,
    DualDecoder,
    Format,
    NumberText,
    S,
    Texts,
    checked_keys,
    joined_columns,
    number_of,
    optional_text,
    required,
    schema_block_cache,
    time_of,
    time_or_place,
)
from silver.envelopes.configured_columns import configured_columns
from silver.envelopes.dataworks import CONTROLS, Ddl, NamedColumn, Timestamp, check_truncate, event_time
from silver.envelopes.oms.values import (
    Reading,
    configured_value,
    declared_columns,
    dialect_of,
    in_order_of,
    read_image,
    written_default,
)

_ROWS = {"INSERT": Op.INSERT, "UPDATE": Op.UPDATE, "DELETE": Op.DELETE}
_CONTROLS = {"HEARTBEAT": ControlKind.HEARTBEAT, **CONTROLS}
_NO_SCN = "null"


class _Source(msgspec.Struct):
    dbType: str | None = None
    dbName: str | None = None
    schema: str | None = None
    table: str | None = None


class _Schema(msgspec.Struct):
    source: _Source | None = None
    column: list[NamedColumn] | None = None
    pk: list[str] | None = None


class _Image(msgspec.Struct, Generic[C]):
    data: dict[str, C] | None = None


class _Payload(msgspec.Struct, Generic[C]):
    op: str
    before: _Image[C] | None = None
    after: _Image[C] | None = None
    timestamp: Timestamp[Raw] | None = None
    ddl: Ddl | None = None
    scn: Raw = Raw()


class _Message(msgspec.Struct, Generic[C, S]):
    payload: _Payload[C]
    schema: S = None  # type: ignore[assignment]  # no block, whatever one would be
    version: Raw = Raw()


class _SchemaBlock(msgspec.Struct, frozen=True):
    """What the schema block says; one object for all messages with the same block."""

    source: _Source
    declared: ColumnSet
    keys: list[str] | None


_MESSAGE: DualDecoder[_Message[Any, Any]] = DualDecoder(
    msgspec.json.Decoder(_Message[Any, Raw], float_hook=NumberText),
    msgspec.json.Decoder(_Message[Raw, _Schema | None]),
)


def decode(message: RawMessage, context: Context) -> Sequence[Event]:
    """The change or control event of one DataWorks 2.x message."""
    return _MESSAGE.events(message.value, lambda envelope: (_event(envelope, context),))


def _event(envelope: _Message[Any, Any], context: Context) -> Event:
    block = _schema_of(envelope.schema)
    if (optional_text(envelope.version) or "").partition(".")[0] != "2":
        raise Malformed(Reason.UNSUPPORTED_VERSION, "version is not 2.x")
    payload = envelope.payload
    if payload.op in _ROWS:
        return _row(payload, block, context)
    kind = _CONTROLS.get(payload.op)
    if kind is None:
        raise Malformed(Reason.UNKNOWN_OP, payload.op[:100])
    source = block.source
    is_mark = kind is ControlKind.HEARTBEAT or (kind is ControlKind.TRANSACTION and _scn(payload) is None)
    dialect = dialect_of(source.dbType)
    statement = payload.ddl.text if payload.ddl else None
    if kind is ControlKind.TRUNCATE:
        check_truncate(source.table, statement, dialect)
    return Control(
        kind=kind,
        op=payload.op,
        database=source.dbName or None,
        schema=source.schema or None,
        table=source.table or None,
        statement=statement,
        position=None if is_mark else _position(payload, context),
        event_time=time_of(event_time(payload.timestamp), "timestamp.eventTime"),
        keys=checked_keys(block.keys),
        dialect=dialect,
    )


def _read_schema(read: _Schema | None) -> _SchemaBlock:
    schema = read or _Schema()
    source = schema.source or _Source()
    types = tuple((column.name, column.type) for column in schema.column or ())
    return _SchemaBlock(source, declared_columns(types, dialect_of(source.dbType)), schema.pk)


_schema_of = schema_block_cache(msgspec.json.Decoder(_Schema | None), _read_schema)


def _row(payload: _Payload[Any], block: _SchemaBlock, context: Context) -> RowChange:
    op, source, declared = _ROWS[payload.op], block.source, block.declared
    database, owner = source.dbName or None, source.schema or None
    table = required(source.table or None, Reason.MISSING_TABLE, "schema.source.table")
    reading = Reading(context.timezone, declared, context.codecs_for(database, owner, table))
    read = configured_columns(context, (database, owner, table), configured_value).image
    before, before_columns = read(*_image(None if op is Op.INSERT else payload.before, reading))
    after, after_columns = read(*_image(None if op is Op.DELETE else payload.after, reading))
    if (before if op is Op.DELETE else after) is None:
        raise Malformed(Reason.MISSING_IMAGE, f"payload.{'before' if op is Op.DELETE else 'after'}.data")
    return RowChange(
        op=op,
        database=database,
        schema=owner,
        table=table,
        keys=checked_keys(block.keys or context.keys_for(database, owner, table), before, after),
        before=before,
        after=after,
        columns=in_order_of(declared, joined_columns(after_columns, before_columns)),
        position=_position(payload, context),
        event_time=time_of(event_time(payload.timestamp), "timestamp.eventTime"),
    )


def _image(image: _Image[Any] | None, reading: Reading) -> tuple[Texts | None, Mapping[str, Column]]:
    return read_image(image.data, reading) if image is not None and image.data else (None, {})


def _scn(payload: _Payload[Any]) -> int | None:
    return None if optional_text(payload.scn) in (None, "", _NO_SCN) else number_of(payload.scn, "scn")


def _position(payload: _Payload[Any], context: Context) -> tuple[int, int]:
    time = number_of(event_time(payload.timestamp), "timestamp.eventTime")
    place = time_or_place(time, "timestamp.eventTime", is_optional=context.needs_no_position)
    return place, _scn(payload) or 0


FORMAT = Format(
    name="oms_dataworks",
    title="OceanBase OMS, DataWorks",
    writer="OceanBase Migration Service, serialization method Dataworks (2.0)",
    reference="https://en.oceanbase.com/docs/enterprise-oms-doc-en-10000000000833999",
    update_arrives_as="one message with both images",
    keys_come_from="schema.pk, else configuration (`keys`)",
    order_comes_from="timestamp.eventTime (milliseconds), then scn, then broker position",
    decode=decode,
    ops=frozenset({Op.INSERT, Op.UPDATE, Op.DELETE}),
    positions_are_unique=False,
    default_text=written_default,
)
