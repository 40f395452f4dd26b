"""Lindorm's change subscription, Debezium format 2.0: rows of SQL tables and cells of HBase tables.

    {"schema": {}, "payload": {"op": "u", "ts_ms": 1465491411815, "before": {"id": "1004", "name": "Jane"},
     "after": {"id": "1004", "name": "Anne"},
     "source": {"version": "v1.0", "db": "ld-xxxx", "namespace": "default", "table": "customers",
                "ts_ms": 1465491411807}}}

    op   before    after     becomes
    c    null      the row   insert
    c    missing   cells     insert of a partial image: an HBase put, the row's other columns are unchanged
    u    the row   the row   update; a column that `after` leaves out was deleted: it is null from now on,
                             but for those of the key
    u    missing   cells     update of a partial image
    d    the row   null      delete
    r    null      the row   read (documented as not available)

A column that neither image has is unchanged. `source.namespace` is the database; a message without it comes
from another writer. The message key (a JSON object, with or without `payload`) names the key columns, else
the configuration does; in an HBase table the key is `ROW`.

The images show an HBase table: a column `ROW`, all others `family_qualifier`, and all values text. Where a
delete has no image, the message key shows it: `ROW` alone, a text. These texts are base64, so the columns are
binary; a column with a configured codec (`decode: utf8`) is text. The columns of a SQL table have the types
of the schema block or, where it is empty, the types that their JSON values show. Only `source.ts_ms` orders
messages; the broker's coordinates break ties.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic

import msgspec
from msgspec import Raw

from framework.contracts.events import Column, Control, ControlKind, Event, Op, RowChange, Token
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
    plain_cells,
    read_json,
    required,
    source_columns,
    time_of,
    time_or_place,
)
from silver.envelopes.configured_columns import configured_columns
from silver.envelopes.connect.column_types import Field
from silver.envelopes.connect.messages import columns_of, decoded_image, envelope_fields, image_of, key_of

_OPS = {"c": Op.INSERT, "u": Op.UPDATE, "d": Op.DELETE, "r": Op.READ}
_ROW = "ROW"
_TEXTS = ("string", "binary")

_MISSING, _NULL = b"", b"null"

_Image = dict[str, str | None]


class _Source(msgspec.Struct):
    namespace: str | None = None
    table: str | None = None
    ts_ms: Raw = Raw()


class _Payload(msgspec.Struct, Generic[C]):
    op: str
    source: _Source
    before: C = Raw()  # type: ignore[assignment]  # missing, whatever it would be
    after: C = Raw()  # type: ignore[assignment]  # missing, whatever it would be


class _Message(msgspec.Struct, Generic[C, S]):
    payload: _Payload[C]
    schema: S = None  # type: ignore[assignment]  # no block, whatever one would be


_MESSAGE: DualDecoder[_Message[Any, Any]] = DualDecoder(
    msgspec.json.Decoder(_Message[Any, Raw], float_hook=NumberText),
    msgspec.json.Decoder(_Message[Raw, Field | None]),
    is_nested=True,
)
_CELLS = msgspec.json.Decoder(dict[str, Raw])


def decode(message: RawMessage, context: Context) -> Sequence[Event]:
    """The change of one Lindorm message.

    A null value is a tombstone, that of a table without a key has no key.
    """
    if message.value is None:
        return (Control(kind=ControlKind.TOMBSTONE, op="tombstone"),)
    return _MESSAGE.events(message.value, lambda envelope: (_change(envelope, message, context),))


def _change(envelope: _Message[Any, Any], message: RawMessage, context: Context) -> RowChange:
    fields = envelope_fields(envelope.schema)
    payload, source = envelope.payload, envelope.payload.source
    op = _OPS.get(payload.op)
    if op is None:
        raise Malformed(Reason.UNKNOWN_OP, payload.op[:100])
    table = required(source.table or None, Reason.MISSING_TABLE, "source.table")
    namespace = required(source.namespace or None, Reason.MISSING_TABLE, "source.namespace")
    codecs = context.codecs_for(namespace, None, table)
    before_cells, after_cells = _cells(payload.before), _cells(payload.after)
    is_hbase = _is_hbase((before_cells, after_cells))  # as they were sent: image_of changes them
    before, before_columns = image_of(before_cells, fields)
    after, after_columns = image_of(after_cells, fields)
    key, key_columns = _key(message.key, before, after)
    is_hbase = is_hbase or (not before and not after and _is_row_key(key_columns))
    declared = columns_of(fields)
    if not is_hbase:
        configured = configured_columns(context, (namespace, None, table))
        (before, before_columns), (after, after_columns), (key, key_columns) = (
            configured.image(before, before_columns, declared),
            configured.image(after, after_columns, declared),
            configured.image(key, key_columns),
        )
        declared = configured.declared(declared)
    columns = source_columns(declared, (after_columns, before_columns, key_columns), (after, before, key))
    if is_hbase:
        columns = {name: Column(type="binary") for name in columns}
    if codecs:
        columns = {
            name: Column(type="string", declared=c.declared) if name in codecs else c
            for name, c in columns.items()
        }
    before, after, key = (
        decoded_image(before, codecs),
        decoded_image(after, codecs),
        decoded_image(key, codecs),
    )
    keys = key or ((_ROW,) if is_hbase else context.keys_for(namespace, None, table))
    if op is Op.DELETE:
        before, after = required(before or key, Reason.MISSING_IMAGE, "before"), None
    else:
        after = _with_removed(required(after or None, Reason.MISSING_IMAGE, "after"), before, keys or ())
        before = before if op is Op.UPDATE else None
    return RowChange(
        op=op,
        database=namespace,
        schema=None,
        table=table,
        keys=checked_keys(keys, before, after),
        before=before,
        after=after,
        columns=columns,
        position=_position(source.ts_ms, op, context),
        event_time=time_of(source.ts_ms, "source.ts_ms"),
        partial=op is Op.UPDATE
        or (op is Op.INSERT and isinstance(payload.before, Raw) and bytes(payload.before) == _MISSING),
    )


def _cells(part: Any) -> dict[str, Any] | None:
    """An image's columns as they were sent; None where the image is null or missing."""
    if not isinstance(part, Raw):
        return plain_cells(part)
    data = bytes(part)
    return None if data in (_MISSING, _NULL) else read_json(_CELLS, data)


def _is_hbase(images: Sequence[Mapping[str, Any] | None]) -> bool:
    there = [image for image in images if image]
    return bool(there) and all(
        _ROW in image
        and all(name == _ROW or name.find("_") > 0 for name in image)
        and all(_is_text_or_null(cell) for cell in image.values())
        for image in there
    )


def _is_row_key(columns: Mapping[str, Column]) -> bool:
    """Whether a message key, the only one to tell a row, is that of an HBase table: `ROW` alone, a text."""
    return list(columns) == [_ROW] and (columns[_ROW].token is Token.TEXT or columns[_ROW].type in _TEXTS)


def _is_text_or_null(cell: Any) -> bool:
    if isinstance(cell, Raw):
        return bytes(cell)[:1] in (b'"', b"n")
    return cell is None or type(cell) is str


def _with_removed(after: _Image, before: _Image | None, keys: Iterable[str]) -> _Image:
    """The after image in the order of `before`, with nulls for the columns that it leaves out.

    A column of the key cannot be deleted: left out, it is unchanged.
    """
    if before is None or before.keys() <= after.keys():
        return after
    key = {name: before[name] for name in keys if name in before}
    return {**dict.fromkeys(before), **key, **after}


def _key(
    key: bytes | None, before: _Image | None, after: _Image | None
) -> tuple[_Image | None, Mapping[str, Column]]:
    """The columns of a message key that names columns of the row; None for any other key."""
    if not key:
        return None, {}
    try:
        named, columns = key_of(key)
    except Malformed:
        return None, {}
    images = [image for image in (before, after) if image is not None]
    is_of_row = not images or all(any(name in image for image in images) for name in named or ())
    return (named, columns) if named and is_of_row else (None, {})


def _position(ts_ms: Raw, op: Op, context: Context) -> tuple[int, ...] | None:
    time = number_of(ts_ms, "source.ts_ms")
    if time is None and op is Op.READ:
        return None
    return (time_or_place(time, "source.ts_ms", is_optional=context.needs_no_position),)


FORMAT = Format(
    name="lindorm",
    title="Lindorm",
    writer="Alibaba Cloud Lindorm, change subscription in Debezium format 2.0",
    reference="https://www.alibabacloud.com/help/en/lindorm/user-guide/data-format",
    update_arrives_as="one message; a column left out of `after` was deleted",
    keys_come_from="message key, else configuration (`keys`); HBase: ROW",
    order_comes_from="source.ts_ms, then broker position",
    decode=decode,
    ops=frozenset({Op.INSERT, Op.UPDATE, Op.DELETE, Op.READ}),
    positions_are_unique=False,
)
