"""AWS Database Migration Service: rows and control records as JSON, for Kafka and Kinesis.

    {"data": {"id": 42, "name": "Ann"}, "before-image": {"name": "Jane"},
     "metadata": {"timestamp": "2024-07-29T00:58:44.895275Z", "record-type": "data", "operation": "update",
                  "partition-key-type": "schema-table", "schema-name": "public", "table-name": "orders",
                  "transaction-id": 1140, "transaction-record-id": 1,
                  "commit-timestamp": "2024-07-29T00:58:44.886717Z",
                  "stream-position": "00000002/7C007328.2.00000002/7C007328"}}

    operation                                     becomes
    load                                          read: a row of the full load
    insert update delete                          insert, update, delete
    truncate-table                                truncate
    create-table drop-table                       ddl, with the columns and the key of `control.table-def`
    add-column drop-column change-columns         ddl; the rows that follow show the columns
    rename-table rename-column                    ddl that is not supported: no record has the old name
    begin commit                                  transaction

`data` is the whole row, but null columns may be left out. `before-image` has the columns that the endpoint is
configured to send: the before image is `data` overlaid with it. In a delete, columns that the source does not
log are null.

Loads, control records and changes share one clock, the `timestamp` at which a record was written. It orders
first, then `stream-position` and `transaction-record-id` if the endpoint sends them, then the broker's
coordinates. A stream position is a binlog file and position, an LSN, or hexadecimal digits, alone or in
groups (Oracle's `00000000.01ab5068.00000001.0000.02.0000:88.67945.16` begins with the SCN). A restarted task
writes changes again with later times. They are the same changes if `stream-position`, `transaction-id` and
`transaction-record-id` are the same; the endpoint sends these with `IncludeTransactionDetails`. Without them
the time and the images identify a change. `schema-name` is the database; where it is empty, the option
`database` names it, else the source's name does. The key is configured, or comes from the create-table record
of the table. Bytes are hexadecimal after `0x`, else base64. Times end in `Z`, also those of columns without a
zone (DATETIME, Oracle's DATE): what is configured as a wall time or a date is read without it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic

import msgspec
from msgspec import Raw
from pydantic import Field

from framework.contracts.ddl_actions import Action, AddColumn, CreateTable, DropTable, NoEffect, Unsupported
from framework.contracts.events import Column, Control, ControlKind, Event, Op, RowChange, Token
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.decoding import (
    C,
    ColumnHint,
    Context,
    Format,
    Options,
    Texts,
    checked_keys,
    dual_decoder,
    joined_columns,
    number_of,
    optional_text,
    required,
    undeclared_image,
)
from silver.envelopes.configured_columns import configured_columns, configured_text
from silver.envelopes.connect.messages import decoded_image
from silver.values.canonical import instant_of_wall, micros_of_instant, wall_as_written

_ROWS = {"load": Op.READ, "insert": Op.INSERT, "update": Op.UPDATE, "delete": Op.DELETE}
_STRUCTURE = frozenset({"add-column", "drop-column", "change-columns", "column-type-change"})
_RENAMES = frozenset({"rename-table", "rename-column"})
_MARKERS = frozenset({"begin", "commit"})
_BINLOG = re.compile(r"[^:]*?([0-9]{1,19}):([0-9]{1,19})(?::.*)?", re.DOTALL)
_LSN = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})(?:\..*)?", re.DOTALL)
_HEX_GROUPS = re.compile(r"[0-9A-Fa-f]{8}(?:[:.][0-9A-Fa-f]{1,8}){1,5}(?::.*)?", re.DOTALL)
_HEX = re.compile(r"[0-9A-Fa-f]{1,80}")
_INTEGER = re.compile(r"U?INT[0-9]{1,2}")
_WITHOUT_ZONE = frozenset({"timestamp_ntz", "date"})
_USUAL_PREFIX = "BI_"
_CLOCKS_DIFFER = 300_000_000
"""Microseconds by which the clock of the source can be ahead of that of DMS."""
_INEXACT = re.compile(r"NUMERIC|REAL[48]?|DOUBLE|FLOAT|BOOLEAN")


class DmsOptions(Options):
    """What the task is configured to send, as far as messages do not show it."""

    database: str | None = Field(
        default=None, description="The database of tables without a schema name; else the source's name."
    )
    before_image_prefix: str | None = Field(
        default=None,
        min_length=1,
        description="The prefix of the columns with old values that the rule add-before-image-columns adds.",
    )


class _Metadata(msgspec.Struct, rename="kebab"):
    operation: str
    schema_name: str | None = None
    table_name: str | None = None
    timestamp: str | None = None
    commit_timestamp: str | None = None
    stream_position: Raw = Raw()
    transaction_id: Raw = Raw()
    transaction_record_id: Raw = Raw()


class _ColumnDefinition(msgspec.Struct):
    type: str | None = None
    nullable: bool | None = None


class _Definition(msgspec.Struct, rename="kebab"):
    columns: dict[str, _ColumnDefinition] | None = None
    primary_key: list[str] | None = None


class _Control(msgspec.Struct, rename="kebab"):
    table_def: _Definition | None = None


class _Message(msgspec.Struct, Generic[C], rename="kebab"):
    metadata: _Metadata
    data: dict[str, C] | None = None
    before_image: dict[str, C] | None = None
    control: _Control | None = None


_Cells = dict[str, Any]
_MESSAGE = dual_decoder(_Message)


def decode(message: RawMessage, context: Context) -> Sequence[Event]:
    """The change, or the control event, of one record."""
    if message.value is None and message.key is not None:
        return (Control(kind=ControlKind.TOMBSTONE, op="tombstone"),)
    return _MESSAGE.events(message.value, lambda record: (_event(record, context),))


def _event(record: _Message[Any], context: Context) -> Event:
    operation = record.metadata.operation
    if operation in _MARKERS:
        moment = _time(record.metadata.commit_timestamp) or _time(record.metadata.timestamp)
        return Control(
            ControlKind.TRANSACTION,
            operation,
            event_time=moment,
            transaction_id=_transaction(record.metadata),
        )
    options = context.options
    database = (
        record.metadata.schema_name
        or (options.database if isinstance(options, DmsOptions) else None)
        or context.source
    )
    table = required(record.metadata.table_name or None, Reason.MISSING_TABLE, "metadata.table-name")
    if operation in _ROWS:
        return _change(record, database, table, context)
    return _statement(record, database, table)


def _change(record: _Message[Any], database: str, table: str, context: Context) -> RowChange:
    op, metadata = _ROWS[record.metadata.operation], record.metadata
    options = context.options
    data, old = _split_images(
        record.data or {}, options.before_image_prefix if isinstance(options, DmsOptions) else None
    )
    configured = configured_columns(context, (database, None, table), _configured_text)
    whole, columns = configured.row(*undeclared_image(required(data or None, Reason.MISSING_IMAGE, "data")))
    before: Texts | None = whole if op is Op.DELETE else None
    if (old := {**old, **(record.before_image or {})}) and op in (Op.UPDATE, Op.DELETE):
        former, former_columns = configured.row(*undeclared_image(old))
        before, columns = {**whole, **former}, joined_columns(columns, former_columns)
    codecs = context.codecs_for(database, None, table)
    identity, earliest = _identity(metadata)
    before, after = _decoded(before, codecs), _decoded(None if op is Op.DELETE else whole, codecs)
    return RowChange(
        op=op,
        database=database,
        schema=None,
        table=table,
        keys=checked_keys(context.keys_for(database, None, table), before, after),
        before=before,
        after=after,
        columns={name: Column(type="string") if name in codecs else c for name, c in columns.items()}
        if codecs
        else columns,
        position=_position(metadata),
        event_time=_time(metadata.commit_timestamp) or _time(metadata.timestamp),
        transaction_id=_transaction(metadata),
        identity=identity,
        earliest=earliest,
    )


def _configured_text(hint: ColumnHint, token: Token, text: str, zone: str) -> str:
    if hint.encoding is None and hint.type == "binary" and text.startswith("0x"):
        hint = replace(hint, encoding="hex")
    if hint.encoding is None and hint.type in _WITHOUT_ZONE and text.endswith("Z"):
        wall = wall_as_written(text[:-1])
        read = text if wall is None else configured_text(hint, token, wall, zone)
        return text if hint.type == "date" and read == wall else read
    return configured_text(hint, token, text, zone)


def _split_images(data: _Cells, prefix: str | None) -> tuple[_Cells, _Cells]:
    """The row, and the old values, which are among its columns under names with the prefix."""
    if prefix is None:
        return data, {}
    old = {
        name: raw
        for name, raw in data.items()
        if name.startswith(prefix) and name.removeprefix(prefix) in data
    }
    row = {name: raw for name, raw in data.items() if name not in old}
    return row, {name.removeprefix(prefix): raw for name, raw in old.items()}


def _decoded(
    image: Mapping[str, str | None] | None, codecs: Mapping[str, str]
) -> dict[str, str | None] | None:
    """The image with decoded text in the columns that have a codec: hexadecimal after `0x`, else base64."""
    if image is None or not codecs:
        return None if image is None else dict(image)
    plain = {
        name: text
        for name, text in image.items()
        if name in codecs and text is not None and text.startswith("0x")
    }
    found: dict[str, str | None] = dict(
        decoded_image({n: t for n, t in image.items() if n not in plain}, codecs) or {}
    )
    for name, text in plain.items():
        try:
            found[name] = bytes.fromhex(text[2:]).decode(codecs[name])
        except (ValueError, LookupError):
            raise Malformed(
                Reason.ENCODING, f"column {name[:100]!r} is not hexadecimal of {codecs[name]} text"
            ) from None
    return {name: found[name] for name in image}


def _statement(record: _Message[Any], database: str, table: str) -> Control:
    metadata = record.metadata
    definition = (record.control.table_def if record.control else None) or _Definition()
    keys = tuple(dict.fromkeys(definition.primary_key or ())) or None
    columns = {name: _column(column) for name, column in (definition.columns or {}).items()}
    kind, actions = ControlKind.DDL, _actions(metadata.operation, columns, keys)
    if metadata.operation == "truncate-table":
        kind, actions = ControlKind.TRUNCATE, None
    return Control(
        kind=kind,
        op=metadata.operation,
        database=database,
        table=table,
        position=_position(metadata),
        event_time=_time(metadata.commit_timestamp) or _time(metadata.timestamp),
        transaction_id=_transaction(metadata),
        keys=keys,
        columns=columns,
        actions=actions,
    )


def _actions(
    operation: str, columns: Mapping[str, Column], keys: tuple[str, ...] | None
) -> tuple[Action, ...] | None:
    if operation == "create-table":
        return (CreateTable(tuple(AddColumn(name, c.type, c.declared) for name, c in columns.items()), keys),)
    if operation == "drop-table":
        return (DropTable(),)
    if operation in _STRUCTURE:
        return (NoEffect("structure"),)
    if operation in _RENAMES:
        return (Unsupported(f"{operation} without the old name"),)
    if operation != "truncate-table":
        raise Malformed(Reason.UNKNOWN_OP, operation[:100])
    return None


def _column(definition: _ColumnDefinition) -> Column:
    """The column of a definition, for rows without types: a whole number, another number, or text."""
    declared = definition.type or ""
    if _INTEGER.fullmatch(declared.upper()):
        return Column(type="bigint", declared=declared)
    return (
        Column(declared=declared or None, token=Token.NULL)
        if _INEXACT.match(declared.upper())
        else Column("string", declared or None)
    )


def _position(metadata: _Metadata) -> tuple[int, ...]:
    written = _time(metadata.timestamp)
    moment = required(
        _time(metadata.commit_timestamp) if written is None else written,
        Reason.MISSING_POSITION,
        "metadata.timestamp",
    )
    record = number_of(metadata.transaction_record_id, "metadata.transaction-record-id") or 0
    return (max(moment, 0), *_stream_position(optional_text(metadata.stream_position)), record)


def _identity(metadata: _Metadata) -> tuple[tuple[str, ...] | None, tuple[int, ...] | None]:
    """What identifies a change in every delivery, and the lowest position that a delivery can have.

    The first delivery was written after the commit, whose time is that of another clock.
    """
    record = number_of(metadata.transaction_record_id, "metadata.transaction-record-id")
    place, committed = optional_text(metadata.stream_position), _time(metadata.commit_timestamp)
    if record is None or not place or committed is None:
        return None, None
    first, second = _stream_position(place)
    identity = (str(first), str(second), _transaction(metadata) or "", str(record))
    return identity, (max(committed - _CLOCKS_DIFFER, 0), 0, 0, 0)


def _stream_position(text: str | None) -> tuple[int, int]:
    """A stream position as numbers; hexadecimal digits of one width sort like their number."""
    if not text:
        return (0, 0)
    if found := _LSN.fullmatch(text):
        return (int(found[1], 16) << 32 | int(found[2], 16), 0)
    if _HEX_GROUPS.fullmatch(text):
        groups = re.split("[:.]", text)[:3]
        return (int("".join(group.rjust(8, "0") for group in groups if _HEX.fullmatch(group)), 16), 0)
    if found := _BINLOG.fullmatch(text):
        return (int(found[1]), int(found[2]))
    if _HEX.fullmatch(text):
        return (int(text, 16), 0)
    raise Malformed(Reason.BAD_POSITION, "metadata.stream-position is no position")


def _time(text: str | None) -> int | None:
    if not text:
        return None
    moment = micros_of_instant(instant_of_wall(text.removesuffix("Z"), "UTC"))
    if moment is None:
        raise Malformed(Reason.BAD_POSITION, "a time of metadata is none")
    return moment


def _transaction(metadata: _Metadata) -> str | None:
    return optional_text(metadata.transaction_id) or None


def missing_options(columns: Collection[str]) -> Mapping[str, str]:
    """The option for DMS's usual prefix, if each column of a table has a second one with this prefix."""
    old = {name.removeprefix(_USUAL_PREFIX) for name in columns if name.startswith(_USUAL_PREFIX)}
    own = {name for name in columns if not name.startswith(_USUAL_PREFIX)}
    return {"before_image_prefix": _USUAL_PREFIX} if own and own == old else {}


FORMAT = Format(
    name="dms",
    title="AWS DMS",
    writer="AWS Database Migration Service, JSON for Kafka and Kinesis",
    reference="https://docs.aws.amazon.com/dms/latest/userguide/CHAP_Target.Kafka.html",
    update_arrives_as="one message, `before-image` where the endpoint sends it",
    keys_come_from="create-table record, else configuration (`keys`)",
    order_comes_from="timestamp, then stream-position, transaction-record-id",
    decode=decode,
    ops=frozenset({Op.INSERT, Op.UPDATE, Op.DELETE, Op.READ}),
    positions_are_unique=False,
    options=DmsOptions,
    missing_options=missing_options,
)
