"""Debezium's change events as JSON: with a schema block, without, or flattened to rows with metadata.

    key    {"id": 7}
    value  {"before": null, "after": {"id": 7, "name": "Ann"}, "op": "c", "ts_ms": 1465491411815,
            "transaction": null, "source": {"connector": "mysql", "db": "shop", "table": "orders",
            "file": "bin.000003", "pos": 484, "row": 0, "server_id": 223344, "snapshot": "false",
            "ts_ms": 1465491411000}}
    flat   {"id": 7, "name": "Ann", "__op": "c", "__deleted": "false", "__table": "orders",
            "__source_ts_ms": 1465491411000}

    message                                                   becomes
    c u d r                                                   insert, update, delete, read (of a snapshot)
    t                                                         truncate
    d with header __debezium.newkey                           nothing: the next insert is the whole key change
    c with header __debezium.oldkey                           update; the old key is its before image
    m (logical message), {"ts_ms": ...} (heartbeat topic)     heartbeat
    {"status": "BEGIN", "id": ...} (transaction topic)        transaction
    {"ddl": ..., "tableChanges": ...} (schema-change topic)   ddl, see `debezium/schema_changes.py` below
    {"source": ..., "historyRecord": "{...}"} (Flink CDC)     the same: such a message as text
    null, with or without a key                               tombstone; a delete with `tombstones: delete`

In `silver/envelopes/`, `debezium/source_block.py` reads `source` and the order, `debezium/rows.py` the rows,
`connect/column_types.py` the types, `debezium/placeholders.py` the placeholders, `mongodb.py` beside it the
documents of MongoDB, `spanner.py` Spanner's images, and `schema_changes.py` the schema-change topic.

Some sinks write this envelope without a position, a connector or even `source` (Flink, RisingWave,
SeaTunnel). Such messages are read if the source has `order: partition`: then the partition orders them, and
the topic names their table.

Flattened rows are recognized by their metadata, in the row or in its headers, not by the names of their
columns. What they lack comes from the topic, `prefix.database.table` or `prefix.schema.table`, and from the
option `database`. Without a position the time orders, then the offset. Rows without any metadata need
`flattened: true`. Where deletes are tombstones (`tombstones: delete`), only the offset orders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Literal

import msgspec
from msgspec import Raw, structs
from pydantic import Field as Setting
from pydantic import field_validator

from framework.contracts.events import Control, ControlKind, Event, Op
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.decoding import (
    BY_PARTITION,
    Context,
    Format,
    NeedsExactDecoding,
    Options,
    optional_text,
    read_json,
    required,
    text_in,
)
from silver.envelopes.connect.column_types import Field, Fields
from silver.envelopes.connect.messages import (
    EXACT,
    PLAIN,
    READ,
    WHOLE,
    Parts,
    image_fields,
    members,
    part_of,
    read_at_once,
)
from silver.envelopes.debezium.encoding_modes import KINDS, SHOWN_SETTINGS
from silver.envelopes.debezium.flattened import flat_of, has_metadata, topic_names
from silver.envelopes.debezium.images import ConnectRow, key_image
from silver.envelopes.debezium.mongodb import document_key, document_of, update_of
from silver.envelopes.debezium.placeholders import WORD
from silver.envelopes.debezium.rows import OPS, Reading, change_of, time_position, transaction_id
from silver.envelopes.debezium.schema_changes import SchemaChange, schema_events, transaction_event
from silver.envelopes.debezium.source_block import Members, SourceBlock, event_time_of
from silver.envelopes.signatures import debezium_signature
from silver.values.canonical import event_time_or_none

_HEARTBEAT = frozenset({"ts_ms", "ts_us", "ts_ns"})
_TRANSACTION = frozenset({"status", "id", "event_count", "data_collections", "ts_ms"})
_STATEMENT = frozenset({"source", "ts_ms", "databaseName", "schemaName", "ddl", "tableChanges"})
_NULL = (b"", b"null")
_MISSING = Raw()
_OP = b'"op":'
_IMAGES = frozenset({"before", "after"})
_CAPITALS = "source.connector is in capitals: not Debezium's"


class DebeziumOptions(Options):
    """How the connector is configured, as far as messages do not show it."""

    decimals: Literal["base64", "text", "number"] | None = Setting(
        default=None, description="How rows without a schema block write decimals."
    )
    binary: Literal["base64", "base64url", "hex"] | None = Setting(
        default=None, description="How rows without a schema block write bytes."
    )
    times: (
        Literal[
            "adaptive", "adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds"
        ]
        | None
    ) = Setting(default=None, description="The connector's `time.precision.mode`, without a schema block.")
    database: str | None = Setting(default=None, description="The database of flattened rows that name none.")
    flattened: bool = Setting(default=False, description="Whether rows are flattened and have no metadata.")
    tombstones: Literal["ignore", "delete"] = Setting(
        default="ignore", description="`delete`: a tombstone is the only sign of a delete."
    )
    unavailable_value: str = Setting(
        default=WORD, description="The connector's placeholder of values that are not in the log."
    )
    metadata_prefix: str = Setting(
        default="__", description="What the metadata of flattened rows begin with."
    )
    compressed_transactions: bool = Setting(
        default=False,
        description="Whether MySQL compresses transactions: then all changes of one have its position.",
    )

    @field_validator("metadata_prefix")
    @classmethod
    def _refuse_empty(cls, prefix: str) -> str:
        if prefix:
            return prefix
        raise ValueError("write that of `add.fields.prefix`: without one, `name` may be a column or metadata")


_FIELD = msgspec.json.Decoder(Field | None)
_SCHEMA_CHANGE = msgspec.json.Decoder(SchemaChange)


def decode(message: RawMessage, context: Context) -> Sequence[Event]:
    """The change, or the control event, of one message."""
    options = _options(context)
    if message.value is None:
        return (_tombstone(message, context, options),)
    try:
        found = read_at_once(message.value) if _OP in message.value else None
        if found is not None and not _is_flat(found[0], message, context) and _is_envelope(found[0], context):
            return (_envelope(found[0], (_fields(found[1]), READ), message, context),)
        return _events(WHOLE.plain_of(message.value), PLAIN, message, context)
    except NeedsExactDecoding:
        return _events(read_json(WHOLE.exact, message.value), EXACT, message, context)


def _events(whole: dict[str, Raw], parts: Parts, message: RawMessage, context: Context) -> Sequence[Event]:
    payload, schema = whole, b""
    if _is_wrapper(whole):
        schema, inner = bytes(whole.get("schema", _MISSING)), bytes(whole["payload"])
        if inner == b"null" and (message.key is not None or schema in _NULL):
            return (_tombstone(message, context, _options(context)),)
        payload = parts.members(inner)
    if _is_flat(payload, message, context):
        return (_flat_row(payload, _flat_fields(schema), message, context),)
    if _is_envelope(payload, context):
        return (_envelope(payload, (_fields(schema), parts), message, context),)
    if "tableChanges" in payload or ("ddl" in payload and "source" in payload):
        return schema_events(
            read_json(_SCHEMA_CHANGE, message.value if payload is whole else bytes(whole["payload"]))
        )
    if "historyRecord" in payload and "source" in payload:
        record = read_json(_SCHEMA_CHANGE, (optional_text(payload["historyRecord"]) or "").encode())
        return schema_events(
            structs.replace(record, source={**record.source, **parts.members(bytes(payload["source"]))})
        )
    if payload and payload.keys() <= _HEARTBEAT:
        return (Control(ControlKind.HEARTBEAT, "heartbeat", event_time=event_time_of(payload)),)
    if (
        "status" in payload
        and "id" in payload
        and ("event_count" in payload or "data_collections" in payload)
    ):
        return (transaction_event(optional_text(payload["status"]) or "", payload, event_time_of(payload)),)
    if "op" in payload and not payload.keys().isdisjoint(_IMAGES):
        raise Malformed(Reason.WRONG_SHAPE, f"source is missing: {BY_PARTITION}")
    raise Malformed(
        Reason.WRONG_SHAPE, "no envelope (op, source) and no flattened row (__op, __deleted, __table ...)"
    )


def _is_wrapper(whole: Mapping[str, Raw]) -> bool:
    """Whether a message is a schema block with its payload, not a row whose columns have these names."""
    parts = [bytes(raw) for raw in whole.values()]
    return (
        "payload" in whole
        and whole.keys() <= {"schema", "payload"}
        and all(part == b"null" or part[:1] == b"{" for part in parts)
    )


def _is_envelope(payload: Members, context: Context) -> bool:
    """Whether a message is an envelope, if it is no flattened row."""
    return "op" in payload and (
        "source" in payload or (context.needs_no_position and not payload.keys().isdisjoint(_IMAGES))
    )


def _is_flat(payload: Members, message: RawMessage, context: Context) -> bool:
    """Whether a message is a flattened row: by its metadata, else by the setting.

    The connector's own messages never are.
    """
    options = _options(context)
    prefix = options.metadata_prefix
    names = (*payload, *(name for name, _ in message.headers)) if message.headers else tuple(payload)
    if has_metadata(names, prefix):
        return True
    if not options.flattened:
        return False
    is_control = (
        payload.keys() <= _HEARTBEAT
        or payload.keys() == _TRANSACTION
        or {"source", "databaseName"} <= payload.keys() <= _STATEMENT
    )
    return not is_control


def _options(context: Context) -> DebeziumOptions:
    return context.options if isinstance(context.options, DebeziumOptions) else DebeziumOptions()


def _reading(context: Context) -> Reading:
    options = _options(context)
    return Reading(
        options.unavailable_value,
        by_offset=options.tombstones == "delete",
        needs_no_position=context.needs_no_position,
        is_compressed=options.compressed_transactions,
    )


def _envelope(
    payload: Members, how: tuple[Mapping[str, Field], Parts], message: RawMessage, context: Context
) -> Event:
    fields, parts = how
    op = required(text_in(payload["op"]), Reason.WRONG_SHAPE, "op")
    source = SourceBlock(part_of(payload, "source", parts.members) or {})
    connector = source.connector
    is_bare = connector is None and source.text("connector") is None
    if connector is None and not (is_bare and context.needs_no_position):
        raise Malformed(
            Reason.WRONG_SHAPE,
            f"no position and no source.connector: {BY_PARTITION}" if is_bare else _CAPITALS,
        )
    transaction = part_of(payload, "transaction", parts.members) or {}
    if op == "m":
        return Control(
            ControlKind.HEARTBEAT,
            op,
            position=source.control_position,
            event_time=source.event_time or event_time_of(payload),
            transaction_id=transaction_id(source, transaction),
        )
    database, schema, table = source.names
    if table is None and is_bare:
        database, schema, table = topic_names(
            source, message.topic, _options(context).database or context.source
        )
    names = (database, schema, required(table, Reason.MISSING_TABLE, "source.table"))
    if op == "t":
        return Control(
            kind=ControlKind.TRUNCATE,
            op=op,
            database=database,
            schema=schema,
            table=table,
            position=source.control_position
            or (time_position(source, payload) if context.needs_no_position else None),
            is_time=source.control_position is None,
            event_time=source.event_time or event_time_of(payload),
            transaction_id=transaction_id(source, transaction),
            server=source.server,
        )
    if op not in OPS:
        raise Malformed(Reason.UNKNOWN_OP, op[:100])
    if connector == "mongodb":
        if parts is not EXACT:
            raise NeedsExactDecoding
        document = _document(payload, op, names, source, message)
        return change_of(document, message, context, _reading(context))
    before, after = part_of(payload, "before", parts.cells), part_of(payload, "after", parts.cells)
    row = ConnectRow(op, names, connector or "", source, before, after, fields, transaction, payload)
    return change_of(row, message, context, _reading(context))


def _document(
    payload: Members,
    op: str,
    names: tuple[str | None, str | None, str],
    source: SourceBlock,
    message: RawMessage,
) -> ConnectRow:
    key, before, after = (
        document_key(message.key),
        document_of(payload.get("before")),
        document_of(payload.get("after")),
    )
    described = update_of(payload.get("updateDescription"), key) if after is None and op == "u" else None
    images = [None if document is None else document.cells for document in (key, before, after or described)]
    fields = {
        name: field
        for document in (key, before, after or described)
        if document
        for name, field in document.fields.items()
    }
    row = ConnectRow(op, names, "mongodb", source, images[1], images[2], fields, {}, payload)
    return structs.replace(row, key=images[0], is_partial=described is not None)


def _flat_row(
    payload: Mapping[str, Raw], fields: Mapping[str, Field], message: RawMessage, context: Context
) -> Event:
    options = _options(context)
    flat = flat_of(payload, message.headers, options.metadata_prefix)
    is_delete = flat.is_deleted or flat.op == "d"
    is_read = flat.source.is_snapshot or flat.source.is_outside_stream
    op = "d" if is_delete else flat.op or ("r" if is_read else "u")
    if op not in OPS:
        raise Malformed(Reason.UNKNOWN_OP, op[:100])
    names = topic_names(flat.source, message.topic, options.database or context.source)
    before, after = (flat.cells, None) if is_delete else (None, flat.cells)
    connector = flat.source.text("connector") or ("postgresql" if "lsn" in flat.source.members else "")
    fields = {name: field for name, field in fields.items() if name in flat.cells}
    row = ConnectRow(
        op,
        names,
        connector.lower(),
        flat.source,
        before,
        after,
        fields,
        flat.transaction,
        flat.times,
        is_flat=True,
    )
    return change_of(row, message, context, _reading(context))


def _tombstone(message: RawMessage, context: Context, options: DebeziumOptions) -> Event:
    """A message without a value: the mark after a delete or, with `tombstones: delete`, the delete itself."""
    key, _ = key_image(message.key)
    if options.tombstones == "delete" and key is None and (message.key or b"null").strip() != b"null":
        raise Malformed(Reason.MISSING_IMAGE, "a delete whose message key names no column")
    if options.tombstones == "ignore" or key is None:
        return Control(ControlKind.TOMBSTONE, "tombstone", keys=tuple(key) if key else None)
    names = topic_names(SourceBlock({}), message.topic, options.database or context.source)
    found = change_of(
        ConnectRow("d", names, "", SourceBlock({}), None, None, {}, {}, {}, is_flat=True),
        message,
        context,
        _reading(context),
    )
    return structs.replace(found, event_time=event_time_or_none(message.timestamp))


@lru_cache(maxsize=1024)
def _fields(schema: bytes) -> Mapping[str, Field]:
    """The columns that an envelope's schema block declares.

    Blocks are equal byte for byte until a table changes.
    """
    return Fields() if schema in _NULL else image_fields(read_json(_FIELD, schema))


@lru_cache(maxsize=1024)
def _flat_fields(schema: bytes) -> Mapping[str, Field]:
    return {} if schema in _NULL else members(read_json(_FIELD, schema))


def column_type(kind: str) -> str | None:
    """The type that rows will declare for a column that a statement adds.

    None where the connector's settings decide.
    """
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
    has_table_definitions=True,
    options=DebeziumOptions,
    column_type=column_type,
    shown_settings=SHOWN_SETTINGS,
    modes=KINDS,
    shares_envelope_with=("arcion",),
    signature=debezium_signature,
)
