"""OceanBase OMS records: the envelope that the serialization methods Default and DefaultExtendColumnType share.

    member of allMetaData                      what it is
    db                                         of OceanBase `tenant.database`, else `database`; only tenants never have a dot
    table_name, uniqueId                       table, transaction
    record_primary_key, record_primary_value   names and values of the key, joined by U+0001, also printed as `/u0001`
    storeDataSequence                          ten digits of seconds, then a counter; a run may have it off
    timestamp                                  seconds, as text
    checkpoint, source_identity                of the copying process, not read

A key column that the images lack has its value in `record_primary_value`; where an image has it the image tells, for
after a change of the key the packed value is that of one row only. A position is seconds and counter, the counter 0
where the sequence is off: then only the time orders. Rows of the full copy have no position.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
from msgspec import Raw

from framework.contracts.events import Column, Control, ControlKind, Event, Op, RowChange
from framework.contracts.raw import RawMessage
from framework.contracts.reasons import Malformed, Reason
from silver.format import Context
from silver.oms import SEPARATOR, Cells, Reading, Values, declared_columns, dialect_of, key_value, read_image
from silver.wire import checked_keys, joined_columns, number_of, optional_text, read_json, required, text_of, time_of

_ROWS = {"INSERT": Op.INSERT, "UPDATE": Op.UPDATE, "DELETE": Op.DELETE, "ROW": Op.READ}
_DDL, _HEARTBEAT = "DDL", "HEARTBEAT"
_WITHOUT_TENANTS = "MYSQL"
_SECONDS_DIGITS = 10


class _MetaData(msgspec.Struct):
    db: str | None = None
    table_name: str | None = None
    dbType: str | None = None
    record_primary_key: str | None = None
    record_primary_value: Raw = Raw()
    storeDataSequence: Raw = Raw()
    timestamp: Raw = Raw()
    uniqueId: Raw = Raw()


class _Record(msgspec.Struct):
    recordType: str
    allMetaData: _MetaData | None = None
    prevStruct: dict[str, Raw] | None = None
    postStruct: dict[str, Raw] | None = None


_RECORD = msgspec.json.Decoder(_Record)

Lift = Callable[[Cells], tuple[Cells, Mapping[str, str]]]
"""Takes an image as it was sent; gives its columns alone and the types that it declares."""


def decode_record(message: RawMessage, context: Context, lift: Lift) -> Sequence[Event]:
    """The change or control event of one record."""
    record = read_json(_RECORD, message.value)
    meta = record.allMetaData or _MetaData()
    if record.recordType in _ROWS:
        return (_row(record, meta, context, lift),)
    if record.recordType == _HEARTBEAT:
        return (Control(kind=ControlKind.HEARTBEAT, op=_HEARTBEAT, event_time=_time(meta)),)
    if record.recordType != _DDL:
        raise Malformed(Reason.UNKNOWN_OP, record.recordType[:100])
    return (
        Control(
            kind=ControlKind.DDL,
            op=_DDL,
            database=_database(meta),
            table=meta.table_name or None,
            statement=_statement(record, lift),
            position=_position(meta),
            event_time=_time(meta),
            transaction_id=optional_text(meta.uniqueId) or None,
            dialect=dialect_of(meta.dbType),
        ),
    )


def _row(record: _Record, meta: _MetaData, context: Context, lift: Lift) -> RowChange:
    op, database = _ROWS[record.recordType], _database(meta)
    table = required(meta.table_name or None, Reason.MISSING_TABLE, "allMetaData.table_name")
    before_cells, before_types = lift(record.prevStruct or {})
    after_cells, after_types = lift(record.postStruct or {})
    declared = declared_columns({**before_types, **after_types}.items(), dialect_of(meta.dbType))
    reading = Reading(context.timezone, declared, context.codecs_of(database, None, table))
    key = _Key.of(meta)
    before, before_columns = _image(before_cells if op in (Op.UPDATE, Op.DELETE) else {}, key, reading)
    after, after_columns = _image(after_cells if op is not Op.DELETE else {}, key, reading)
    if (before if op is Op.DELETE else after) is None:
        raise Malformed(Reason.MISSING_IMAGE, "prevStruct" if op is Op.DELETE else "postStruct")
    return RowChange(
        op=op,
        database=database,
        schema=None,
        table=table,
        keys=checked_keys(key.names or context.keys_of(database, None, table), before, after),
        before=before,
        after=after,
        columns=joined_columns(after_columns, before_columns),
        position=None if op is Op.READ else _position(meta),
        event_time=_time(meta),
        transaction_id=optional_text(meta.uniqueId) or None,
    )


@dataclass(frozen=True, slots=True)
class _Key:
    """The key's names, and its packed values where there are as many."""

    names: tuple[str, ...]
    values: tuple[str, ...]

    @staticmethod
    def of(meta: _MetaData) -> _Key:
        if not meta.record_primary_key:
            return _Key((), ())
        names = tuple(SEPARATOR.split(meta.record_primary_key))
        packed = optional_text(meta.record_primary_value)
        values = () if packed is None else (packed,) if len(names) == 1 else tuple(packed.split("\x01"))
        if packed is not None and len(values) != len(names):
            values = tuple(SEPARATOR.split(packed))
        return _Key(names, values if len(values) == len(names) else ())


def _image(cells: Cells, key: _Key, reading: Reading) -> tuple[Values | None, dict[str, Column]]:
    """The image with the key columns that it lacks; None where the record has no such image."""
    if not cells:
        return None, {}
    values, columns = read_image(cells, reading)
    for name, text in zip(key.names, key.values, strict=False):
        if name not in values:
            values[name], columns[name] = key_value(name, text, reading)
    return values, columns


def _statement(record: _Record, lift: Lift) -> str:
    for image in (record.postStruct, record.prevStruct):
        cells, _ = lift(image or {})
        if len(cells) == 1 and bytes(cells.get("ddl", b""))[:1] == b'"':
            return text_of(bytes(cells["ddl"]))
    raise Malformed(Reason.MISSING_IMAGE, "no image whose only entry is the text `ddl`")


def _database(meta: _MetaData) -> str | None:
    name = meta.db or ""
    if (meta.dbType or "").upper() == _WITHOUT_TENANTS:
        return name or None
    return (name.partition(".")[2] or name) or None


def _time(meta: _MetaData) -> int | None:
    return time_of(meta.timestamp, "timestamp", "s") if optional_text(meta.timestamp) else None


def _position(meta: _MetaData) -> tuple[int, int]:
    sequence = number_of(meta.storeDataSequence, "storeDataSequence")
    if sequence is None:
        seconds = number_of(meta.timestamp, "timestamp") if optional_text(meta.timestamp) else None
        return required(seconds, Reason.MISSING_POSITION, "storeDataSequence and timestamp"), 0
    digits = str(sequence)
    if len(digits) < _SECONDS_DIGITS:
        raise Malformed(Reason.BAD_POSITION, "storeDataSequence does not begin with ten digits of seconds")
    return int(digits[:_SECONDS_DIGITS]), int(digits[_SECONDS_DIGITS:] or "0")
