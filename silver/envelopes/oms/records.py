"""OceanBase OMS records: the envelope of the serialization methods Default and DefaultExtendColumnType.

    member of allMetaData                      what it is
    db                                         OceanBase, or no `dbType`: `tenant.database` (only a tenant
                                               never has a dot); else `database`
    table_name, uniqueId                       table, transaction
    record_primary_key, record_primary_value   names and values of the key, joined by U+0001 (or `/u0001`)
    storeDataSequence                          ten digits of seconds, then a counter; it can be switched off
    timestamp                                  seconds, as text
    checkpoint, source_identity                of the copying process, not read

A key column that the images lack has its value in `record_primary_value`; one that they have in other letters
they do not lack. Where an image has the column, the image counts, because after a key change the packed value
belongs to one of the two rows only. A position is seconds and counter; the counter is 0 where the sequence is
off, and then only the time orders. Rows of the full copy have no position.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic

import msgspec
from msgspec import Raw

from framework.contracts.events import Column, Control, ControlKind, Event, Op, RowChange, Token
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.decoding.cells import C, Texts, read_cell
from silver.decoding.dual_decoder import DualDecoder
from silver.decoding.format import Context
from silver.decoding.json_reader import (
    checked_keys,
    number_of,
    optional_text,
    required,
    time_of,
    time_or_place,
)
from silver.decoding.row_plans import joined_columns
from silver.envelopes.configured_columns import configured_columns
from silver.envelopes.oms.values import (
    SEPARATOR,
    Reading,
    Types,
    configured_value,
    declared_columns,
    dialect_of,
    key_value,
    read_image,
)

_ROWS = {"INSERT": Op.INSERT, "UPDATE": Op.UPDATE, "DELETE": Op.DELETE, "ROW": Op.READ}
_DDL, _HEARTBEAT = "DDL", "HEARTBEAT"
_OCEANBASE = ("OB", "OCEANBASE")
"""The first letters of a `dbType` of OceanBase: OB_MYSQL, OB_ORACLE, OCEANBASE of old releases."""
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


class Record(msgspec.Struct, Generic[C]):
    """One record; its cells are plain or bytes."""

    recordType: str
    allMetaData: _MetaData | None = None
    prevStruct: dict[str, C] | None = None
    postStruct: dict[str, C] | None = None


Lift = Callable[[dict[str, Any]], tuple[dict[str, Any], Types]]
"""Splits an image as it was sent into its columns and the types that it declares."""


def decode_record(
    records: DualDecoder[Record[Any]], message: RawMessage, context: Context, lift: Lift
) -> Sequence[Event]:
    """The change or control event of one record."""
    return records.events(message.value, lambda record: _events(record, context, lift))


def _events(record: Record[Any], context: Context, lift: Lift) -> Sequence[Event]:
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
            position=_position(meta, context),
            event_time=_time(meta),
            transaction_id=optional_text(meta.uniqueId) or None,
            dialect=dialect_of(meta.dbType),
        ),
    )


def _row(record: Record[Any], meta: _MetaData, context: Context, lift: Lift) -> RowChange:
    op, database = _ROWS[record.recordType], _database(meta)
    table = required(meta.table_name or None, Reason.MISSING_TABLE, "allMetaData.table_name")
    before_cells, before_types = lift(record.prevStruct or {})
    after_cells, after_types = lift(record.postStruct or {})
    declared = declared_columns(_joined_types(before_types, after_types), dialect_of(meta.dbType))
    reading = Reading(context.timezone, declared, context.codecs_for(database, None, table))
    key = _Key.of(meta)
    read = configured_columns(context, (database, None, table), configured_value).image
    before, before_columns = read(*_image(before_cells if op in (Op.UPDATE, Op.DELETE) else {}, key, reading))
    after, after_columns = read(*_image(after_cells if op is not Op.DELETE else {}, key, reading))
    if (before if op is Op.DELETE else after) is None:
        raise Malformed(Reason.MISSING_IMAGE, "prevStruct" if op is Op.DELETE else "postStruct")
    return RowChange(
        op=op,
        database=database,
        schema=None,
        table=table,
        keys=checked_keys(key.names or context.keys_for(database, None, table), before, after),
        before=before,
        after=after,
        columns=joined_columns(after_columns, before_columns),
        position=None if op is Op.READ else _position(meta, context),
        event_time=_time(meta),
        transaction_id=optional_text(meta.uniqueId) or None,
    )


def _joined_types(before: Types, after: Types) -> Types:
    """The types of both images; for a column in both, the type of the after image."""
    return after if not before or before == after else tuple({**dict(before), **dict(after)}.items())


@dataclass(frozen=True, slots=True)
class _Key:
    """The key's names, and its packed values if there are as many."""

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


def _image(cells: dict[str, Any], key: _Key, reading: Reading) -> tuple[Texts | None, Mapping[str, Column]]:
    """The image, completed with the key columns that it lacks; None where the record has no such image."""
    if not cells:
        return None, {}
    values, columns = read_image(cells, reading)
    missing = [name for name in key.names if name not in values]
    if missing:
        _check_letters(missing, values)
        columns = dict(columns)
        for name, text in zip(key.names, key.values, strict=False):
            if name in missing:
                values[name], columns[name] = key_value(name, text, reading)
    return values, columns


def _check_letters(missing: Sequence[str], values: Texts) -> None:
    """Raises `Malformed` where the image has a missing column of the key in other letters (`ID`, `id`)."""
    known = {name.casefold() for name in values}
    for name in missing:
        if name.casefold() in known:
            raise Malformed(
                Reason.KEY_NOT_IN_IMAGE, f"key column {name[:100]!r} is in the image in other letters only"
            )


def _statement(record: Record[Any], lift: Lift) -> str:
    for image in (record.postStruct, record.prevStruct):
        cells, _ = lift(image or {})
        if len(cells) == 1 and "ddl" in cells:
            token, text = read_cell(cells["ddl"])
            if token is Token.TEXT and text is not None:
                return text
    raise Malformed(Reason.MISSING_IMAGE, "no image whose only entry is the text `ddl`")


def _database(meta: _MetaData) -> str | None:
    name = meta.db or ""
    if meta.dbType and not meta.dbType.upper().startswith(_OCEANBASE):
        return name or None
    return (name.partition(".")[2] or name) or None


def _time(meta: _MetaData) -> int | None:
    return time_of(meta.timestamp, "timestamp", "s") if optional_text(meta.timestamp) else None


def _position(meta: _MetaData, context: Context) -> tuple[int, int]:
    sequence = number_of(meta.storeDataSequence, "storeDataSequence")
    if sequence is None:
        seconds = number_of(meta.timestamp, "timestamp") if optional_text(meta.timestamp) else None
        name = "storeDataSequence and timestamp"
        return time_or_place(seconds, name, is_optional=context.needs_no_position), 0
    digits = str(sequence)
    if len(digits) < _SECONDS_DIGITS:
        raise Malformed(Reason.BAD_POSITION, "storeDataSequence does not begin with ten digits of seconds")
    return int(digits[:_SECONDS_DIGITS]), int(digits[_SECONDS_DIGITS:] or "0")
