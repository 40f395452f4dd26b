"""Rows of Debezium's messages as changes: keys, key changes, and the position of a change.

    what a message shows                          becomes
    c u d r                                       insert, update, delete, read; c in a snapshot (older
                                                  connectors) is read
    r, c with a position that says nothing        read (a row that Flink CDC copied)
    d with header __debezium.newkey               nothing by itself: the next insert is the whole key change
    c with header __debezium.oldkey               update; the old key is its before image
    one of them whose header cannot be read       the delete or the insert that it is

`silver/envelopes/debezium/images.py` reads the images. The key is the columns of the message key, else it is
configured. A position is the source's own position, then 0 for rows of a snapshot and 1 for the stream, then
a tie-breaker for rows at the same position. A table without a key may have equal rows, and a configured key
may have too few columns: in a snapshot whose messages name no key, the tie-breaker is the moment at which
each row was read (nanoseconds, milliseconds with older connectors, 0 where flattened rows have no time), and
in PostgreSQL's stream, whose rows can share an LSN, their number in the transaction, if the connector sends
it. Rows that share a position all the same are told apart by their place in the partition
(`silver/changes/record_runs.py`). Rows without a position (flattened ones) are ordered by time, then by
offset. Snapshots of Flink CDC fill `source` with empty values (file "", SCN 0, the lowest LSN) and say
`snapshot: false`: such a row has no position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Raw, Struct
from msgspec.structs import replace

from framework.contracts.events import Column, Control, ControlKind, Event, Op, RowChange
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.decoding.cells import NeedsExactDecoding, number_in
from silver.decoding.format import ColumnHint, Context
from silver.decoding.json_reader import BY_PARTITION, checked_keys
from silver.decoding.row_plans import joined_columns
from silver.envelopes.configured_columns import configured_columns, is_coded_text
from silver.envelopes.connect.column_types import Field
from silver.envelopes.connect.messages import decoded_image, image_of
from silver.envelopes.debezium.configured_schema import fields_of
from silver.envelopes.debezium.declared_schema import declared_fields
from silver.envelopes.debezium.images import (
    Cells,
    ConnectRow,
    Known,
    bare_key,
    header_of,
    images_of,
    key_image,
)
from silver.envelopes.debezium.placeholders import WORD
from silver.envelopes.debezium.source_block import (
    Members,
    SourceBlock,
    event_time_of,
    member_text,
    transaction_name,
)

OPS = {"c": Op.INSERT, "u": Op.UPDATE, "d": Op.DELETE, "r": Op.READ}

_POSITIONED = frozenset(
    {"mysql", "mariadb", "postgresql", "sqlserver", "oracle", "db2", "mongodb", "vitess", "informix"}
)
_OTHERS = frozenset({"sqlserver", "oracle", "db2", "informix", "postgresql"})
_OTHER_PLACES = frozenset({"commit_lsn", "change_lsn", "scn", "commit_scn", "lsn"})


class Reading(Struct, frozen=True):
    """How the rows of one source are read.

    The fields are the connector's placeholder, whether only the offset, or the partition, orders the rows,
    and whether the changes of a transaction in a binlog share a position.
    """

    unavailable_value: str = WORD
    by_offset: bool = False
    needs_no_position: bool = False
    is_compressed: bool = False


def change_of(row: ConnectRow, message: RawMessage, context: Context, reading: Reading) -> Event:
    """The change of one row.

    The delete half of a key change is not a change: the insert describes it completely. Where offsets are
    the positions it is one, because that insert may be in a partition with lower offsets.
    """
    op = Op.READ if row.op == "c" and (row.source.is_snapshot or _is_copied(row)) else OPS[row.op]
    database, schema, table = row.names
    event_time = row.source.event_time or event_time_of(row.times)
    transaction = transaction_id(row.source, row.transaction)
    key, key_columns = key_image(message.key) if row.key is None else image_of(row.key, {})
    keys = tuple(key) if key else context.keys_for(database, schema, table)
    position = _position(row, message, reading, has_key=bool(keys), is_key_sent=bool(key))
    is_half = op is Op.DELETE and header_of(message, "__debezium.newkey") is not None
    if is_half and not reading.by_offset:
        place = (database, schema, table)
        return Control(
            ControlKind.HALF,
            "key_change",
            *place,
            position=position,
            event_time=event_time,
            transaction_id=transaction,
        )
    bare = None if op is not Op.DELETE else bare_key(message.key) if row.key is None else row.key
    row = _with_hints(row, context.hints_for(database, schema, table), bare)
    row = _with_definition(
        row,
        declared_fields(
            context.definition_at(row.names, position),
            is_mysql=_is_mysql(row),
            is_oracle=row.connector == "oracle" or "scn" in row.source.members,
            is_sql_server=row.connector == "sqlserver",
        ),
        keys,
    )
    configured = configured_columns(context, row.names)
    if any(column.type == "string" for column in key_columns.values()):  # a key with a schema block
        key, key_columns = configured.image(dict(key or {}), key_columns)
    images = images_of(
        row, op, message, Known(reading.unavailable_value, context.modes, configured, keys, key, bare)
    )
    columns = configured.declared(joined_columns(images.columns, key_columns))
    has_place = position is not None and not reading.by_offset
    is_shared = row.source.is_shared or (reading.is_compressed and row.source.is_in_binlog)
    codecs = context.codecs_for(database, schema, table)
    before, after = decoded_image(images.before, codecs), decoded_image(images.after, codecs)
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
        server=None if row.source.is_snapshot else row.source.server,
        is_time=has_place and row.source.position is None,
        is_shared=has_place and is_shared,
        is_of_record=has_place and not keys and _is_of_record(row, op, is_shared=is_shared),
        is_single=op is Op.READ and not keys and "ts_ns" in row.times,  # read at a nanosecond of its own
        evidence=images.evidence,
        committed=_committed(row, has_place=has_place),
        is_exclusive=has_place and not is_shared and op is not Op.READ and row.source.is_in_binlog,
    )


def _with_codecs(columns: Mapping[str, Column], codecs: Mapping[str, str]) -> Mapping[str, Column]:
    """The columns, those that are decoded as text."""
    if not codecs:
        return columns
    return {
        name: Column(type="string", declared=c.declared) if name in codecs else c
        for name, c in columns.items()
    }


def _is_mysql(row: ConnectRow) -> bool:
    """Whether types mean those of MySQL and MariaDB; flattened rows may not name their connector."""
    return row.connector not in _OTHERS and _OTHER_PLACES.isdisjoint(row.source.members)


def _with_definition(row: ConnectRow, known: Mapping[str, Field], keys: Sequence[str] | None) -> ConnectRow:
    """The row with fields of the schema-change topic where a schema or its sign is missing."""
    if not known:
        return row
    names = dict.fromkeys((*(row.before or {}), *(row.after or {}), *(keys or ())))
    fields = {
        name: known[name]
        for name in names
        if name in known and _tells_more(row.fields.get(name), known[name])
    }
    return replace(row, fields={**row.fields, **fields}) if fields else row


def _tells_more(field: Field | None, known: Field) -> bool:
    return field is None or (field.type == "int64" and field.name is None and bool(known.parameters))


def _with_hints(row: ConnectRow, given: Mapping[str, ColumnHint], key: Cells | None) -> ConnectRow:
    """The row with configured fields where a schema or its sign is missing."""
    if not given:
        return row
    if any(type(cell) is not Raw for cells in (row.before, row.after) for cell in (cells or {}).values()):
        raise NeedsExactDecoding
    open_columns = {name: what for name, what in given.items() if _is_open(row.fields.get(name), what)}
    return replace(row, fields={**row.fields, **fields_of(open_columns, row.before, row.after, key)})


def _is_open(field: Field | None, given: ColumnHint) -> bool:
    if field is None:
        return True
    is_plain = field.name is None
    return is_plain and (
        (given.unsigned and field.type == "int64") or (is_coded_text(given) and field.type == "string")
    )


def _position(
    row: ConnectRow, message: RawMessage, reading: Reading, *, has_key: bool, is_key_sent: bool
) -> tuple[int, ...] | None:
    """The position of a row: the source's position, snapshot before stream, then the tie-breaker."""
    if reading.by_offset:
        return offset_position(message)
    place, was_read = row.source.position, row.source.is_snapshot
    is_copied = _is_copied(row) and not (reading.needs_no_position and not row.connector)
    if place is not None and not any(place) and (row.op == "r" or is_copied):
        place = None
    if place is None:
        if was_read or is_copied:
            return None
        is_expected = (row.connector in _POSITIONED and not row.is_flat) or row.source.is_outside_stream
        if is_expected and not reading.needs_no_position:
            raise Malformed(Reason.MISSING_POSITION, f"source has no position: {BY_PARTITION}")
        return time_position(row.source, row.times)
    if reading.is_compressed and row.source.is_in_binlog:
        place = (*place[:2], 0, 0)  # `row` begins anew in each statement of the transaction
    tie = 0
    if was_read and not is_key_sent:  # a configured key may have too few columns
        tie = number_in(row.times.get("ts_ns"), "ts_ns") or (event_time_of(row.times) or 0) * 1000
    elif not has_key and "lsn" in row.source.members:
        tie = number_in(row.transaction.get("total_order"), "transaction.total_order") or 0
    elif "vgtid" in row.source.members:
        tie = number_in(row.transaction.get("total_order"), "transaction.total_order") or message.offset + 1
    return (*place, 0 if was_read else 1, tie)


def _is_of_record(row: ConnectRow, op: Op, *, is_shared: bool) -> bool:
    """Whether the position is that of a record or a transaction, which may contain many rows.

    A record of PostgreSQL contains several rows only if they are inserted.
    """
    source = row.source
    if source.position is None:
        return False
    if "lsn" in source.members:
        return op is Op.INSERT and "total_order" not in row.transaction
    return is_shared or source.is_of_transaction


def _committed(row: ConnectRow, *, has_place: bool) -> tuple[int, ...] | None:
    place = row.source.last_commit if has_place and "lsn" in row.source.members else None
    return None if place is None else (*place, 1, 0)


def _is_copied(row: ConnectRow) -> bool:
    """Whether a writer that gives copied rows no position has copied the row."""
    if row.is_flat:
        return row.op == "r" and row.source.is_outside_stream
    return row.op == "r" or (row.op == "c" and row.source.is_blank)


def time_position(source: SourceBlock, times: Members) -> tuple[int, ...]:
    """The position of a message that has none: its time, which orders it among partitions.

    0 without a time.
    """
    return (source.event_time or event_time_of(times) or 0, 0, 0, 0, 1, 0)


def offset_position(message: RawMessage) -> tuple[int, ...]:
    """The position by the broker's offset alone, because all messages of a key are in one partition."""
    return (message.offset + 1, 0, 0, 0, 1, 0)


def transaction_id(source: SourceBlock, transaction: Members) -> str | None:
    """The transaction by the connector's number, else by the source's own."""
    return transaction_name(member_text(transaction, "id")) or source.transaction
