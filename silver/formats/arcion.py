"""Arcion Replicant's JSON CDC format for Kafka: Debezium's MySQL envelope with every value as text.

    key    {"schema": {...}, "payload": {"id": "6"}}
    value  {"schema": {...}, "payload": {"before": null, "after": {"id": "6", "name": "Ann"}, "op": "c",
            "ts_ms": 1677139769357, "transaction": {"id": ""},
            "source": {"db": "shop", "table": "orders", "file": "log-bin.000001", "pos": 2690, "row": 1,
                       "server_id": "1", "snapshot": "false", "ts_ms": 1677159568000}}}

    op   becomes
    c    insert
    u    update
    d    delete
    r    read: a row of the snapshot; `file`, `pos` and `ts_ms` are null, so it sorts first

A value that is `default`, bare, quoted or in its schema wrapper ({"schema": {"type": "string"}, "payload":
"default"}), or null is the tombstone of the delete before it.

The schema decides the type of a value (`"6"` under int32 is a number) and the order of the columns. A change
of the key columns is a delete and an insert. A table without a key has the same text as message key. The
event time is `source.ts_ms`, else the payload's `ts_ms`. The order is the number of the binlog `file`, then
`pos`, then `row`; sources other than MySQL write their own numbers there, also as PostgreSQL's `16/B374D848`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Generic

import msgspec
from msgspec import Raw

from framework.contracts.events import Control, ControlKind, Event, Op, RowChange
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.decoding import (
    C,
    Context,
    DualDecoder,
    Format,
    NumberText,
    S,
    checked_keys,
    number_of,
    optional_text,
    read_json,
    required,
    source_columns,
    time_of,
)
from silver.envelopes.configured_columns import configured_columns, decoded_rows
from silver.envelopes.connect.column_types import Field
from silver.envelopes.connect.messages import columns_of, envelope_fields, image_of, key_of
from silver.envelopes.signatures import arcion_signature

_OPS = {"c": Op.INSERT, "u": Op.UPDATE, "d": Op.DELETE, "r": Op.READ}

_QUOTED_DEFAULT = b'"default"'
_DEFAULT = (b"default", _QUOTED_DEFAULT)
_LONGEST_WRAPPED = 1_000
"""Bytes of the text `default` in its schema wrapper, at most; messages of rows are seldom as short."""
_FILE = re.compile(r"(?:.*[^0-9])?([0-9]{1,19})", re.DOTALL)
_LSN = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")


class _Source(msgspec.Struct):
    db: str | None = None
    schema: str | None = None
    table: str | None = None
    file: Raw = Raw()
    pos: Raw = Raw()
    row: Raw = Raw()
    server_id: Raw = Raw()
    ts_ms: Raw = Raw()


class _Transaction(msgspec.Struct):
    id: Raw = Raw()


class _Payload(msgspec.Struct, Generic[C]):
    op: str
    source: _Source
    before: dict[str, C] | None = None
    after: dict[str, C] | None = None
    ts_ms: Raw = Raw()
    transaction: _Transaction | None = None


class _Message(msgspec.Struct, Generic[C, S]):
    payload: _Payload[C]
    schema: S = None  # type: ignore[assignment]  # no block, whatever one would be


class _Wrapper(msgspec.Struct):
    """A text in its schema wrapper."""

    schema: Raw
    payload: Raw


_WRAPPED = msgspec.json.Decoder(_Wrapper)
_MESSAGE: DualDecoder[_Message[Any, Any]] = DualDecoder(
    msgspec.json.Decoder(_Message[Any, Raw], float_hook=NumberText),
    msgspec.json.Decoder(_Message[Raw, Field | None]),
)


def decode(message: RawMessage, context: Context) -> Sequence[Event]:
    """The change of one Arcion message, or the tombstone that follows a delete."""
    if _is_tombstone(message):
        return (Control(kind=ControlKind.TOMBSTONE, op="tombstone", keys=_readable_key_names(message.key)),)
    return _MESSAGE.events(message.value, lambda envelope: (_change(envelope, message, context),))


def _change(envelope: _Message[Any, Any], message: RawMessage, context: Context) -> RowChange:
    payload, source, fields = envelope.payload, envelope.payload.source, envelope_fields(envelope.schema)
    op = _OPS.get(payload.op)
    if op is None:
        raise Malformed(Reason.UNKNOWN_OP, payload.op[:100])
    table = required(source.table or None, Reason.MISSING_TABLE, "source.table")
    database, schema = source.db or None, source.schema or None
    declared, configured = columns_of(fields), configured_columns(context, (database, schema, table))
    read = configured.image
    before, before_columns = read(*image_of(payload.before, fields, numbers_as_text=True), declared)
    after, after_columns = read(*image_of(payload.after, fields, numbers_as_text=True), declared)
    if op is Op.DELETE:
        before, after = required(before, Reason.MISSING_IMAGE, "before"), None
    else:
        before, after = before if op is Op.UPDATE else None, required(after, Reason.MISSING_IMAGE, "after")
    columns = source_columns(configured.declared(declared), (after_columns, before_columns), (after, before))
    if codecs := context.codecs_for(database, schema, table):
        (before, after), columns = decoded_rows((before, after), columns, codecs)
    event_time = time_of(source.ts_ms, "source.ts_ms")
    keys = _key_names(message.key) or context.keys_for(database, schema, table)
    return RowChange(
        op=op,
        database=database,
        schema=schema,
        table=table,
        keys=checked_keys(keys, before, after),
        before=before,
        after=after,
        columns=columns,
        position=_position(source, op),
        event_time=time_of(payload.ts_ms, "ts_ms") if event_time is None else event_time,
        transaction_id=optional_text(payload.transaction.id) or None if payload.transaction else None,
        server=optional_text(source.server_id),
    )


def _is_tombstone(message: RawMessage) -> bool:
    return message.value is None or _is_default(message.value)


def _is_default(data: bytes) -> bool:
    """Whether a key or a value is the text `default`, with or without its schema."""
    if data.strip() in _DEFAULT:
        return True
    if len(data) > _LONGEST_WRAPPED or _QUOTED_DEFAULT not in data:
        return False
    try:
        return bytes(read_json(_WRAPPED, data).payload) == _QUOTED_DEFAULT
    except Malformed:
        return False


def _key_names(key: bytes | None) -> tuple[str, ...] | None:
    if not key or _is_default(key):
        return None
    named, _ = key_of(key, numbers_as_text=True)
    return tuple(named) if named else None


def _readable_key_names(key: bytes | None) -> tuple[str, ...] | None:
    try:
        return _key_names(key)
    except Malformed:
        return None


def _position(source: _Source, op: Op) -> tuple[int, ...] | None:
    """Numbers of file, position and row; None for a snapshot row without a position."""
    file, pos = optional_text(source.file), optional_text(source.pos)
    if not file and not pos:
        if op is Op.READ:
            return None
        raise Malformed(Reason.MISSING_POSITION, "source.file and source.pos are missing")
    return (
        _file_number(file or ""),
        _pos_number(source.pos, pos or ""),
        number_of(source.row, "source.row") or 0,
    )


def _file_number(text: str) -> int:
    if not text:
        return 0
    found = _FILE.fullmatch(text)
    if found is None:
        raise Malformed(Reason.BAD_POSITION, "source.file ends in no number")
    return int(found[1])


def _pos_number(raw: Raw, text: str) -> int:
    found = _LSN.fullmatch(text)
    if found is not None:
        return int(found[1], 16) << 32 | int(found[2], 16)
    return number_of(raw, "source.pos") or 0 if text else 0


FORMAT = Format(
    name="arcion",
    title="Arcion",
    writer="Arcion Replicant, JSON CDC format on Kafka",
    reference="https://docs.arcion.io/docs/references/cdc-format/json-cdc-format/",
    update_arrives_as="one message; a key change as delete and insert",
    keys_come_from="message key's payload, else configuration (`keys`)",
    order_comes_from="binlog file, pos, row",
    decode=decode,
    ops=frozenset({Op.INSERT, Op.UPDATE, Op.DELETE, Op.READ}),
    shares_envelope_with=("debezium",),
    signature=arcion_signature,
)
