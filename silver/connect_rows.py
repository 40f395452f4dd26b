"""Rows of Debezium's messages as changes: images without placeholders, keys, key changes and the place in the order.

    what a message shows                          becomes
    c u d r                                       insert, update, delete, read; c of a snapshot (older connectors) is read
    r, c with a position that says nothing        read (a row that Flink CDC copied)
    d with header __debezium.newkey               nothing by itself: the insert that follows is the whole key change
    c with header __debezium.oldkey               update; the old key is its before image
    a placeholder for a value                     unchanged: the column is left out and the image is partial
    d of PostgreSQL                               the key alone: other columns are null or made up where the table logs no more

The key is the message key's columns, else configured. A position is the source's own, then 0 for rows of a snapshot and
1 for the stream, then what tells rows of one place apart. A table without a key may hold equal rows; in a snapshot the
nanosecond at which each was read tells them apart, and in PostgreSQL's stream, whose rows can share an LSN, the number
in their transaction, where the connector sends it. Rows that name no position (flattened ones) are ordered by time, then
by offset. Snapshots of Flink CDC fill `source` with nothing (file "", SCN 0, the lowest LSN) and say `snapshot: false`:
such a row has no position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from msgspec import Raw

from framework.contracts.events import Column, Control, ControlKind, Event, Op, RowChange
from framework.contracts.raw import RawMessage
from framework.contracts.reasons import Malformed, Reason
from silver.cells import Inexact, joined_columns
from silver.connect import columns_of, decoded_image, image_of, key_of
from silver.connect_bare import fields_of, in_base64
from silver.connect_source import (
    Source,
    is_blank,
    is_shared,
    is_snapshot,
    moment_of,
    place_of,
    server_of,
    text_of,
    transaction_name,
    transaction_of,
)
from silver.connect_structures import declared_fields
from silver.connect_types import Field
from silver.connect_unavailable import WORD, is_unavailable, is_unavailable_text, may_be_unavailable
from silver.format import Context, Given
from silver.wire import checked_keys, number_of, read_json

OPS = {"c": Op.INSERT, "u": Op.UPDATE, "d": Op.DELETE, "r": Op.READ}

_POSITIONED = frozenset({"mysql", "mariadb", "postgresql", "sqlserver", "oracle", "db2", "mongodb", "vitess", "informix"})
_ROUTER_KEY = "__dbz__physicalTableIdentifier"
_NULL = (b"", b"null")
_OBJECT = msgspec.json.Decoder(dict[str, Raw])

_Image = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Reading:
    """How the rows of one source are read: the connector's placeholder, and whether the offset alone orders them."""

    unavailable_value: str = WORD
    by_offset: bool = False


@dataclass(frozen=True, slots=True)
class ConnectRow:
    """What an envelope and a flattened row have in common, before the row is read.

    `key` is set where the message key names it in a way of its own, `is_partial` where `after` leaves columns out.
    """

    op: str
    names: tuple[str | None, str | None, str]
    connector: str
    source: Source
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    fields: Mapping[str, Field]
    transaction: Source
    times: Source
    is_flat: bool = False
    is_partial: bool = False
    key: dict[str, Any] | None = None


def change_of(row: ConnectRow, message: RawMessage, context: Context, reading: Reading) -> Event:
    """The change of one row; the delete half of a key change, which the insert says whole, is no change."""
    op = Op.READ if row.op == "c" and (is_snapshot(row.source) or _is_copied(row)) else OPS[row.op]
    database, schema, table = row.names
    event_time = moment_of(row.source) or moment_of(row.times)
    transaction = transaction_id(row.source, row.transaction)
    key, key_columns = key_image(message.key) if row.key is None else image_of(row.key, {})
    keys = tuple(key) if key else context.keys_of(database, schema, table)
    position = _position(row, message, reading, has_key=bool(keys))
    if op is Op.DELETE and _header(message, "__debezium.newkey") is not None:
        place = (database, schema, table)
        return Control(ControlKind.HALF, "key_change", *place, position=position, event_time=event_time, transaction_id=transaction)
    row = _described(row, context.given_of(database, schema, table))
    row = _structured(row, declared_fields(context.declared_of(row.names, position)))
    images = _images(row, op, message, reading.unavailable_value)
    before, after = images.before, images.after
    if op is Op.DELETE:
        before = _deleted(before, key, keys, row.connector)
    elif after is None:
        raise Malformed(Reason.MISSING_IMAGE, "after is missing")
    columns = joined_columns(columns_of(row.fields), images.columns, key_columns)
    codecs = context.codecs_of(database, schema, table)
    before, after = decoded_image(before, codecs), decoded_image(after, codecs)
    return RowChange(
        op=Op.UPDATE if images.has_old_key else op,
        database=database,
        schema=schema,
        table=table,
        keys=checked_keys(keys, before, after),
        before=before,
        after=after,
        columns=_with_codecs(columns, codecs),
        position=position,
        event_time=event_time,
        partial=images.is_partial,
        transaction_id=transaction,
        server=None if is_snapshot(row.source) else server_of(row.source),
        is_time=position is not None and not reading.by_offset and (place_of(row.source) is None or is_shared(row.source)),
    )


def _with_codecs(columns: Mapping[str, Column], codecs: Mapping[str, str]) -> Mapping[str, Column]:
    """The columns, those that are decoded as text."""
    if not codecs:
        return columns
    return {name: Column(type="string", declared=c.declared) if name in codecs else c for name, c in columns.items()}


def _structured(row: ConnectRow, known: Mapping[str, Field]) -> ConnectRow:
    """The row with what the schema-change topic says of columns that no schema declares, or leaves without their sign."""
    if not known:
        return row
    names = dict.fromkeys((*(row.before or {}), *(row.after or {})))
    fields = {name: known[name] for name in names if name in known and _tells_more(row.fields.get(name), known[name])}
    return replace(row, fields={**row.fields, **fields}) if fields else row


def _tells_more(field: Field | None, known: Field) -> bool:
    return field is None or (field.type == "int64" and field.name is None and bool(known.parameters))


def _described(row: ConnectRow, given: Mapping[str, Given]) -> ConnectRow:
    """The row with what is known of columns that no schema declares, or whose schema does not say that they have no sign."""
    if not given:
        return row
    if any(type(cell) is not Raw for cells in (row.before, row.after) for cell in (cells or {}).values()):
        raise Inexact
    open_columns = {name: what for name, what in given.items() if _is_open(row.fields.get(name), what)}
    before, after = (None if cells is None else in_base64(open_columns, cells) for cells in (row.before, row.after))
    fields = {**row.fields, **fields_of(open_columns, before or {}), **fields_of(open_columns, after or {})}
    return replace(row, before=before, after=after, fields=fields)


def _is_open(field: Field | None, given: Given) -> bool:
    return field is None or (given.unsigned and field.type == "int64" and field.name is None)


@dataclass(frozen=True, slots=True)
class _Images:
    """The images of a row without placeholders, and the columns that they show."""

    before: _Image | None
    after: _Image | None
    columns: Mapping[str, Column]
    is_partial: bool
    has_old_key: bool


def _images(row: ConnectRow, op: Op, message: RawMessage, word: str) -> _Images:
    old_key = _header(message, "__debezium.oldkey") if op is Op.INSERT else None
    cells = old_key if old_key is not None else row.before if op in (Op.UPDATE, Op.DELETE) else None
    before, before_columns = image_of(_available(cells, word), row.fields)
    available = None if op is Op.DELETE else _available(row.after, word)
    is_partial = available is not None and row.after is not None and len(available) < len(row.after)
    after, after_columns = image_of(available, row.fields)
    columns = joined_columns(after_columns, before_columns)
    return _Images(before, after, columns, is_partial or (row.is_partial and after is not None), old_key is not None)


def _available(cells: dict[str, Any] | None, word: str) -> dict[str, Any] | None:
    if cells is None:
        return None
    kinds = set(map(type, cells.values()))
    if Raw in kinds:
        return {name: raw for name, raw in cells.items() if not is_unavailable(bytes(raw), word)}
    if dict in kinds or list in kinds:
        raise Inexact
    if not may_be_unavailable(cells.values(), word):
        return cells
    return {name: cell for name, cell in cells.items() if not (type(cell) is str and is_unavailable_text(cell, word))}


def _deleted(before: _Image | None, key: _Image | None, keys: Sequence[str] | None, connector: str) -> _Image:
    """What is known of a deleted row: in PostgreSQL the key alone is true, elsewhere a message without an image has it."""
    if before is None or (keys and any(name not in before for name in keys)):
        before = {**(before or {}), **(key or {})}
    if not before:
        raise Malformed(Reason.MISSING_IMAGE, "before is missing")
    if connector == "postgresql" and keys and all(name in before for name in keys):
        return {name: before[name] for name in keys}
    return before


def key_image(key: bytes | None) -> tuple[_Image | None, Mapping[str, Column]]:
    """The columns of a message key; None for a key that names none, as a text does."""
    if not key:
        return None, {}
    try:
        named, columns = key_of(key)
    except Malformed:
        return None, {}
    if named and _ROUTER_KEY not in named and columns.keys() <= named.keys():
        return named, columns
    image = {name: text for name, text in (named or {}).items() if name != _ROUTER_KEY}
    return image or None, {name: column for name, column in columns.items() if name in image}


def _header(message: RawMessage, name: str) -> dict[str, Any] | None:
    """A header that holds a key as JSON text, with or without its schema; None where there is none."""
    value = next((value for found, value in message.headers if found == name and value), None)
    if value is None:
        return None
    cells = read_json(_OBJECT, value)
    return members_of(cells["payload"]) if cells.keys() == {"schema", "payload"} else cells


def _position(row: ConnectRow, message: RawMessage, reading: Reading, *, has_key: bool) -> tuple[int, ...] | None:
    """The place among the source's changes, snapshot before stream, then what tells rows of one place apart."""
    if reading.by_offset:
        return offset_position(message)
    place, was_read = place_of(row.source), is_snapshot(row.source)
    is_copied = _is_copied(row)
    if place is not None and not any(place) and (row.op == "r" or is_copied):
        place = None
    if place is None:
        if was_read or is_copied:
            return None
        if row.connector in _POSITIONED and not row.is_flat:
            raise Malformed(Reason.MISSING_POSITION, "source has no position")
        return (moment_of(row.source) or moment_of(row.times) or 0, 0, 0, 0, 1, 0)
    tie = 0
    if was_read and not has_key:
        tie = number_of(row.times.get("ts_ns"), "ts_ns") or (moment_of(row.times) or 0) * 1000
    elif not has_key and "lsn" in row.source:
        tie = number_of(row.transaction.get("total_order"), "transaction.total_order") or 0
    elif "vgtid" in row.source:
        tie = number_of(row.transaction.get("total_order"), "transaction.total_order") or message.offset + 1
    return (*place, 0 if was_read else 1, tie)


def _is_copied(row: ConnectRow) -> bool:
    """Whether the row was copied by a writer that gives such rows no position."""
    return not row.is_flat and (row.op == "r" or (row.op == "c" and is_blank(row.source)))


def control_position(source: Source) -> tuple[int, ...] | None:
    """The place of a truncate, a statement or a logical message among the rows of its source."""
    place = place_of(source)
    return None if place is None else (*place, 0 if is_snapshot(source) else 1, 0)


def offset_position(message: RawMessage) -> tuple[int, ...]:
    """The place by the broker's offset alone: a key's messages share a partition."""
    return (message.offset + 1, 0, 0, 0, 1, 0)


def transaction_id(source: Source, transaction: Source) -> str | None:
    """The transaction as the connector numbers it, else as the source does."""
    return transaction_name(text_of(transaction, "id")) or transaction_of(source)


def members_of(raw: Raw) -> dict[str, Any] | None:
    """The members of an object as they were sent; None where it is null or missing."""
    data = bytes(raw)
    return None if data in _NULL else read_json(_OBJECT, data)
