"""Debezium's change events as JSON: with a schema block, without, or flattened to rows with metadata.

    key    {"id": 7}
    value  {"before": null, "after": {"id": 7, "name": "Ann"}, "op": "c", "ts_ms": 1465491411815, "transaction": null,
            "source": {"connector": "mysql", "db": "shop", "table": "orders", "file": "bin.000003", "pos": 484, "row": 0,
                       "server_id": 223344, "snapshot": "false", "ts_ms": 1465491411000}}
    flat   {"id": 7, "name": "Ann", "__op": "c", "__deleted": "false", "__table": "orders", "__source_ts_ms": 1465491411000}

    message                                                   becomes
    c u d r                                                   insert, update, delete, read (a row of a snapshot)
    t                                                         truncate
    d with header __debezium.newkey                           nothing by itself: the insert that follows is the whole key change
    c with header __debezium.oldkey                           update; the old key is its before image
    m (logical message), {"ts_ms": ...} (heartbeat topic)     heartbeat
    {"status": "BEGIN", "id": ...} (transaction topic)        transaction
    {"ddl": ..., "tableChanges": ...} (schema-change topic)   ddl, see `silver/connect_schema_changes.py`
    {"source": ..., "historyRecord": "{...}"} (Flink CDC)     the same: such a message as text
    null                                                      tombstone; with `tombstones: delete` the row's delete

Members of `source` and the order that they give are in `silver/connect_source.py`, how rows are read in
`silver/connect_rows.py`, types in `silver/connect_types.py`, placeholders in `silver/connect_unavailable.py`,
MongoDB's documents in `silver/connect_documents.py`.

Flattened rows are told by their metadata. What they lack comes from the topic, `prefix.database.table` or
`prefix.schema.table`, and the option `database`; without a position the time orders, then the offset. Rows with no
metadata at all need `flattened: true`. Where deletes are tombstones (`tombstones: delete`) the offset alone orders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal

import msgspec
from msgspec import Raw, structs

from framework.contracts.events import Control, ControlKind, Event, Op, RowChange
from framework.contracts.raw import RawMessage
from framework.contracts.reasons import Malformed, Reason
from silver.cells import Inexact
from silver.connect import EXACT, PLAIN, WHOLE, Parts, image_fields, members
from silver.connect_documents import document_key, document_of, update_of
from silver.connect_flat import METADATA, Flat, flat_of, topic_names
from silver.connect_rows import (
    OPS,
    ConnectRow,
    Reading,
    change_of,
    control_position,
    key_image,
    members_of,
    offset_position,
    transaction_id,
)
from silver.connect_schema_changes import Placed, SchemaChange, schema_events, transaction_event
from silver.connect_source import Source, is_snapshot, moment_of, names_of, server_of, text_of
from silver.connect_types import Field, Fields
from silver.connect_unavailable import WORD
from silver.format import Context, Format, Options
from silver.wire import optional_text, read_json, required

_HEARTBEAT = frozenset({"ts_ms", "ts_us", "ts_ns"})
_NULL = (b"", b"null")
_MISSING = Raw()


class DebeziumOptions(Options):
    """How the connector is set up, where messages do not say it themselves.

    `database` is the database of flattened rows that name none. `unavailable_value` is the connector's own placeholder,
    `metadata_prefix` what flattening puts before its metadata.
    """

    database: str | None = None
    flattened: bool = False
    tombstones: Literal["ignore", "delete"] = "ignore"
    unavailable_value: str = WORD
    metadata_prefix: str = "__"


_FIELD = msgspec.json.Decoder(Field | None)
_SCHEMA_CHANGE = msgspec.json.Decoder(SchemaChange)


def decode(message: RawMessage, context: Context) -> Sequence[Event]:
    """The change, or the control event, of one message."""
    options = _options(context)
    if message.value is None and message.key is not None:
        return (_tombstone(message, context, options),)
    try:
        return _events(WHOLE.plain_of(message.value), PLAIN, message, context)
    except Inexact:
        return _events(read_json(WHOLE.exact, message.value), EXACT, message, context)


def _events(whole: dict[str, Raw], parts: Parts, message: RawMessage, context: Context) -> Sequence[Event]:
    options = _options(context)
    payload, schema = whole, b""
    if "payload" in whole and whole.keys() <= {"schema", "payload"}:
        schema, inner = bytes(whole.get("schema", _MISSING)), bytes(whole["payload"])
        if inner == b"null" and message.key is not None:
            return (_tombstone(message, context, options),)
        payload = parts.members(inner)
    if "op" in payload and "source" in payload:
        return (_envelope(payload, (_fields(schema), parts), message, context),)
    if "tableChanges" in payload or ("ddl" in payload and "source" in payload):
        return _statement(read_json(_SCHEMA_CHANGE, message.value if payload is whole else bytes(whole["payload"])))
    if "historyRecord" in payload and "source" in payload:
        record = read_json(_SCHEMA_CHANGE, (optional_text(payload["historyRecord"]) or "").encode())
        return _statement(structs.replace(record, source={**record.source, **parts.members(bytes(payload["source"]))}))
    if payload and payload.keys() <= _HEARTBEAT:
        return (Control(ControlKind.HEARTBEAT, "heartbeat", event_time=moment_of(payload)),)
    if "status" in payload and "id" in payload and ("event_count" in payload or "data_collections" in payload):
        return (transaction_event(optional_text(payload["status"]) or "", payload, moment_of(payload)),)
    prefix = options.metadata_prefix
    if options.flattened or any(name.startswith(prefix) and name[len(prefix) :] in METADATA for name in payload):
        return (_flat_row(flat_of(payload, message.headers, prefix), _flat_fields(schema), message, context),)
    raise Malformed(Reason.WRONG_SHAPE, "no envelope (op, source) and no flattened row (__op, __deleted, __table ...)")


def _options(context: Context) -> DebeziumOptions:
    return context.options if isinstance(context.options, DebeziumOptions) else DebeziumOptions()


def _reading(context: Context) -> Reading:
    options = _options(context)
    return Reading(options.unavailable_value, by_offset=options.tombstones == "delete")


def _envelope(payload: Source, how: tuple[Mapping[str, Field], Parts], message: RawMessage, context: Context) -> Event:
    fields, parts = how
    op = required(optional_text(payload["op"]), Reason.WRONG_SHAPE, "op")
    source = parts.members(bytes(payload["source"]))
    connector = text_of(source, "connector")
    if connector is None or connector.isupper():
        raise Malformed(Reason.WRONG_SHAPE, "source.connector is missing or in capitals: not Debezium's")
    transaction = members_of(payload.get("transaction", _MISSING)) or {}
    if op == "m":
        return Control(ControlKind.HEARTBEAT, op, position=control_position(source), event_time=moment_of(source) or moment_of(payload))
    database, schema, table = names_of(source)
    names = (database, schema, required(table, Reason.MISSING_TABLE, "source.table"))
    if op == "t":
        return Control(
            kind=ControlKind.TRUNCATE,
            op=op,
            database=database,
            schema=schema,
            table=table,
            position=control_position(source),
            event_time=moment_of(source) or moment_of(payload),
            transaction_id=transaction_id(source, transaction),
            server=server_of(source),
        )
    if op not in OPS:
        raise Malformed(Reason.UNKNOWN_OP, op[:100])
    if connector == "mongodb":
        if parts is PLAIN:
            raise Inexact
        return change_of(_document(payload, op, names, source, message), message, context, _reading(context))
    before, after = (_cells(payload.get(side, _MISSING), parts) for side in ("before", "after"))
    row = ConnectRow(op, names, connector.lower(), source, before, after, fields, transaction, payload)
    return change_of(row, message, context, _reading(context))


def _cells(image: Raw, parts: Parts) -> dict[str, Any] | None:
    data = bytes(image)
    return None if data in _NULL else parts.cells(data)


def _document(payload: Source, op: str, names: tuple[str | None, str | None, str], source: Source, message: RawMessage) -> ConnectRow:
    key, before, after = document_key(message.key), document_of(payload.get("before")), document_of(payload.get("after"))
    described = update_of(payload.get("updateDescription"), key) if after is None and op == "u" else None
    row = ConnectRow(op, names, "mongodb", source, before, after or described, {}, {}, payload)
    return replace(row, key=key, is_partial=described is not None)


def _flat_row(flat: Flat, fields: Mapping[str, Field], message: RawMessage, context: Context) -> Event:
    options = _options(context)
    is_delete = flat.is_deleted or flat.op == "d"
    op = "d" if is_delete else flat.op or ("r" if is_snapshot(flat.source) else "u")
    if op not in OPS:
        raise Malformed(Reason.UNKNOWN_OP, op[:100])
    names = topic_names(flat.source, message.topic, options.database or context.source)
    before, after = (flat.cells, None) if is_delete else (None, flat.cells)
    connector = text_of(flat.source, "connector") or ("postgresql" if "lsn" in flat.source else "")
    fields = {name: field for name, field in fields.items() if name in flat.cells}
    row = ConnectRow(op, names, connector.lower(), flat.source, before, after, fields, flat.transaction, flat.times, is_flat=True)
    return change_of(row, message, context, _reading(context))


def _statement(change: SchemaChange) -> Sequence[Event]:
    source = change.source
    server = None if is_snapshot(source) else server_of(source)
    return schema_events(change, Placed(control_position(source), moment_of(source) or moment_of({"ts_ms": change.ts_ms}), server))


def _tombstone(message: RawMessage, context: Context, options: DebeziumOptions) -> Event:
    """A message without a value: the mark behind a delete, or where the connector is set so, the delete itself."""
    key, columns = key_image(message.key)
    if options.tombstones == "ignore" or key is None:
        return Control(ControlKind.TOMBSTONE, "tombstone", keys=tuple(key) if key else None)
    database, schema, table = topic_names({}, message.topic, options.database or context.source)
    return RowChange(Op.DELETE, database, schema, table, tuple(key), key, None, columns, offset_position(message), message.timestamp)


@lru_cache(maxsize=1024)
def _fields(schema: bytes) -> Mapping[str, Field]:
    """The columns that an envelope's schema block declares. Blocks are equal byte for byte until a table changes."""
    return Fields() if schema in _NULL else image_fields(read_json(_FIELD, schema))


@lru_cache(maxsize=1024)
def _flat_fields(schema: bytes) -> Mapping[str, Field]:
    return {} if schema in _NULL else members(read_json(_FIELD, schema))


def column_type(kind: str) -> str | None:
    """The type that rows will declare for a column that a statement adds; None where the connector's settings decide."""
    return "smallint" if kind == "tinyint" else None if kind == "decimal(20,0)" else kind


FORMAT = Format(
    name="debezium",
    title="Debezium",
    writer="Debezium, JSON with or without schema block, or flattened",
    reference="https://debezium.io/documentation/reference/stable/connectors/",
    update_arrives_as="one message; a key change as delete and insert",
    keys_come_from="message key, else configuration (`keys`)",
    order_comes_from="the connector's position: binlog file, pos, row; LSN; SCN",
    decode=decode,
    ops=frozenset({Op.INSERT, Op.UPDATE, Op.DELETE, Op.READ}),
    has_structures=True,
    options=DebeziumOptions,
    column_type=column_type,
)
