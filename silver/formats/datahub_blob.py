"""DataHub Blob messages, 1.x: what Alibaba's DataWorks writes to DataHub topics of type Blob.

    {"schema": {"dataColumn": [{"name": "id", "type": "LONG"}], "primaryKey": ["id"],
                "source": {"dbType": "MySQL", "dbName": "shop", "tableName": "orders"}},
     "payload": {"op": "INSERT", "after": {"dataColumn": {"id": 1}}, "sequenceId": "1605339516000000004",
                 "timestamp": {"eventTime": 1605339932000}}, "version": "0.0.1"}

    op                                        becomes
    INSERT, DELETE                            insert, delete
    INSERT with sequenceId -1                 read: a row of the full load, which has no position
    UPDATE_BEFOR, UPDATE_AFTER                the halves of one update; they share sequenceId
    UPDATE, an UPDATE_AFTER with both images  update
    TRUNCATE                                  truncate
    CREATE ALTER RENAME ERASE QUERY CINDEX DINDEX          ddl (the statement is payload.ddl.text)
    TRANSACTION_BEGIN TRANSACTION_END GTID XACOMMIT XAROLLBACK   transaction
    MHEARTBEAT                                heartbeat (no schema, no sequenceId)

    type     canonical   wire
    BOOLEAN  boolean     true, false
    LONG     bigint      number or text; may exceed 64 bits, then the column is widened
    DOUBLE   double      number or text
    STRING   string
    DATE     timestamp   milliseconds of the epoch, 13 digits
    BYTES    binary      base64

`UPDATE_BEFOR` is the vendor's spelling; `UPDATE_BEFORE` is read too. A time of -1 means no time. `ddlMeta` is
a serialized Java object in base64: it stays text in bronze and is never deserialized. DML and DDL share one
sequence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Generic

import msgspec
from msgspec import Raw

from framework.contracts.events import Column, Control, ControlKind, Event, Half, Op, RowChange, Token
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.decoding import (
    C,
    ColumnSet,
    Context,
    DualDecoder,
    Format,
    Kinds,
    NeedsExactDecoding,
    NumberText,
    RowPlan,
    S,
    Step,
    Texts,
    cell_signature,
    checked_keys,
    declared_step,
    image_cell_by_cell,
    is_narrow,
    is_plain,
    number_in,
    read_non_null_cell,
    required,
    schema_block_cache,
    source_columns,
    time_in,
    written_parts,
)
from silver.envelopes.configured_columns import configured_columns, decoded_rows
from silver.envelopes.dataworks import (
    CONTROLS,
    Ddl,
    NamedColumn,
    Timestamp,
    check_truncate,
    event_time,
    is_none,
)
from silver.values.canonical import AS_SENT, declared_text, instant_of_epoch, undeclared_text

_ROWS: dict[str, tuple[Op, Half | None, bool, bool]] = {
    "INSERT": (Op.INSERT, None, False, True),
    "UPDATE": (Op.UPDATE, None, False, True),
    "UPDATE_BEFOR": (Op.UPDATE, Half.BEFORE, True, False),
    "UPDATE_BEFORE": (Op.UPDATE, Half.BEFORE, True, False),
    "UPDATE_AFTER": (Op.UPDATE, Half.AFTER, False, True),
    "DELETE": (Op.DELETE, None, True, False),
}
"""What happened, the half, and whether a before and an after image are needed."""
_VERSIONS = (str, type(None), msgspec.UnsetType)
_CONTROLS = {"MHEARTBEAT": ControlKind.HEARTBEAT, **CONTROLS}
_DIALECTS = {"postgresql": "postgres", "sqlserver": "tsql", "oracle": "oracle", "db2": "db2"}
_TYPES = {
    "BOOLEAN": "boolean",
    "LONG": "bigint",
    "DOUBLE": "double",
    "STRING": "string",
    "DATE": "timestamp",
    "BYTES": "binary",
}


class _Source(msgspec.Struct):
    dbType: str | None = None
    dbName: str | None = None
    schemaName: str | None = None
    tableName: str | None = None


class _Schema(msgspec.Struct):
    dataColumn: list[NamedColumn] | None = None
    primaryKey: list[str] | None = None
    source: _Source | None = None


class _Image(msgspec.Struct, Generic[C]):
    dataColumn: dict[str, C] | None = None


class _Payload(msgspec.Struct, Generic[C]):
    op: str
    before: _Image[C] | None = None
    after: _Image[C] | None = None
    sequenceId: C = None  # type: ignore[assignment]  # missing, whatever it would be
    timestamp: Timestamp[C] | None = None
    ddl: Ddl | None = None


class _PlainPayload(_Payload[Any]):
    """The payload with plain cells; a class of its own, because converting to it is fast."""


class _Message(msgspec.Struct, Generic[C, S]):
    payload: _Payload[C]
    schema: S = None  # type: ignore[assignment]  # no block, whatever one would be
    version: str | None = None


class _SchemaBlock(msgspec.Struct, frozen=True):
    """What a schema block says; one object for all messages with the same block."""

    source: _Source
    keys: tuple[str, ...]
    columns: ColumnSet


_MESSAGE: DualDecoder[_Message[Any, Any]] = DualDecoder(
    msgspec.json.Decoder(_Message[Any, Raw], float_hook=NumberText),
    msgspec.json.Decoder(_Message[Raw, _Schema | None]),
)


def decode(message: RawMessage, context: Context) -> Sequence[Event]:
    """The change or control event of one Blob message."""
    parts = None if message.value is None else written_parts(message.value)
    if parts is not None and type(parts.version) in _VERSIONS:
        try:
            payload = msgspec.convert(parts.payload, _PlainPayload)
            version = None if parts.version is msgspec.UNSET else parts.version
            return (_event(payload, parts.schema or None, version, context),)
        except (NeedsExactDecoding, msgspec.ValidationError):
            pass  # the bytes decide
    return _MESSAGE.events(
        message.value, lambda found: (_event(found.payload, found.schema, found.version, context),)
    )


def _event(payload: _Payload[Any], schema: Any, version: str | None, context: Context) -> Event:
    block = _schema_of(schema)
    if version is not None and version.partition(".")[0] not in ("0", "1"):
        raise Malformed(Reason.UNSUPPORTED_VERSION, "version is neither 0.x nor 1.x")
    source, time = block.source, event_time(payload.timestamp)
    changed_at = None if is_none(time) else time_in(time, "timestamp.eventTime")
    is_loaded = payload.op == "INSERT" and is_none(payload.sequenceId)
    position = None if is_loaded else number_in(payload.sequenceId, "sequenceId")
    if payload.op in _ROWS:
        return _row(payload, block, (changed_at, position, is_loaded), context)
    kind = _CONTROLS.get(payload.op)
    if kind is None:
        raise Malformed(Reason.UNKNOWN_OP, payload.op[:100])
    if kind in (ControlKind.DDL, ControlKind.TRUNCATE):
        required(position, Reason.MISSING_POSITION, "sequenceId")
    dialect = _DIALECTS.get((source.dbType or "").lower(), "mysql")
    statement = payload.ddl.text if payload.ddl else None
    if kind is ControlKind.TRUNCATE:
        check_truncate(source.tableName, statement, dialect)
    return Control(
        kind=kind,
        op=payload.op,
        database=source.dbName,
        schema=source.schemaName,
        table=source.tableName,
        statement=statement,
        position=None if position is None else (position,),
        event_time=changed_at,
        keys=checked_keys(block.keys),
        columns=block.columns,
        dialect=dialect,
    )


def _read_schema(read: _Schema | None) -> _SchemaBlock:
    schema = read or _Schema()
    columns = (
        (c.name, Column(type=_TYPES.get(c.type or "", "string"), declared=c.type))
        for c in schema.dataColumn or ()
    )
    named = schema.source or _Source()
    source = _Source(named.dbType, named.dbName or None, named.schemaName or None, named.tableName or None)
    return _SchemaBlock(source, tuple(schema.primaryKey or ()), ColumnSet(columns))


_schema_of = schema_block_cache(msgspec.json.Decoder(_Schema | None), _read_schema)


def _row(
    payload: _Payload[Any], block: _SchemaBlock, at: tuple[int | None, int | None, bool], context: Context
) -> RowChange:
    (changed_at, position, is_loaded), source = at, block.source
    table = required(source.tableName, Reason.MISSING_TABLE, "schema.source.tableName")
    op, half, needs_before, needs_after = _ROWS[payload.op]
    database, schema = source.dbName, source.schemaName
    configured = configured_columns(context, (database, schema, table))
    declared = configured.declared(block.columns)
    before, shown_before = configured.image(*_image(payload.before, block.columns), block.columns)
    after, shown_after = configured.image(*_image(payload.after, block.columns), block.columns)
    if half == "after" and before is not None:
        half = None
    if (needs_before and before is None) or (needs_after and after is None):
        raise Malformed(
            Reason.MISSING_IMAGE, f"{payload.op} without its {'before' if needs_before else 'after'} image"
        )
    if payload.op == "INSERT":
        before = None
    if not needs_after:
        after = None
    columns = (
        source_columns(declared, (shown_before, shown_after), (after, before))
        if shown_before or shown_after
        else declared
    )
    if codecs := context.codecs_for(database, schema, table):
        (before, after), columns = decoded_rows((before, after), columns, codecs)
    return RowChange(
        op=Op.READ if is_loaded else op,
        database=database,
        schema=schema,
        table=table,
        keys=checked_keys(block.keys or context.keys_for(database, schema, table), before, after),
        before=before,
        after=after,
        columns=columns,
        position=None if is_loaded else (required(position, Reason.MISSING_POSITION, "sequenceId"),),
        event_time=changed_at,
        half=half,
    )


def _image(image: _Image[Any] | None, declared: ColumnSet) -> tuple[Texts | None, Mapping[str, Column]]:
    """An image as canonical text, and its columns that the schema leaves out; none where it has no column."""
    if image is None or not image.dataColumn:
        return None, {}
    cells = image.dataColumn
    if is_narrow(cells, declared):
        plan = _row_plan(*cell_signature(cells), declared)
        if plan is not None:
            return plan.texts(cells), plan.columns

    def read(name: str, token: Token, text: str | None) -> tuple[str | None, Column | None]:
        column = declared.get(name)
        if column is None:
            return undeclared_text(token, text), Column(token=token)
        return None if text is None else _canonical(column.type or "string", token, text), None

    return image_cell_by_cell(cells, read)


@lru_cache(maxsize=1024)
def _row_plan(names: tuple[str, ...], kinds: Kinds, declared: ColumnSet) -> RowPlan | None:
    """The plan of an image; None where cells are bytes, or the schema leaves a column out."""
    if not is_plain(kinds) or any(name not in declared for name in names):
        return None
    steps: list[Step] = []
    for name, kind in zip(names, kinds, strict=True):
        type_name = declared[name].type or "string"
        if kind is type(None) or (kind is str and type_name in AS_SENT):
            continue
        step = None if type_name == "timestamp" else declared_step(type_name, kind)
        steps.append((name, step or partial(_text, type_name)))
    return RowPlan(tuple(steps), ColumnSet())


def _text(kind: str, cell: Any) -> str | None:
    return _canonical(kind, *read_non_null_cell(cell))


def _canonical(kind: str, token: Token, text: str) -> str | None:
    return instant_of_epoch(text, "ms") if kind == "timestamp" else declared_text(kind, token, text)


def column_type(kind: str) -> str | None:
    """The type that rows will declare for a column that a statement adds.

    None where DataHub's choice is not known.
    """
    if kind in ("tinyint", "smallint", "int", "bigint"):
        return "bigint"
    if kind in ("date", "timestamp", "timestamp_ntz"):
        return "timestamp"
    if kind.startswith("decimal"):
        return None
    return "double" if kind == "float" else kind


def default_text(text: str, kind: str, declared: str) -> str | None:
    """A default as DataHub writes it; None for a wall time, because DataHub's zone is not known."""
    return None if kind in ("date", "timestamp_ntz") else text


FORMAT = Format(
    name="datahub_blob",
    title="DataHub Blob",
    writer="Alibaba DataWorks into DataHub, Blob topics",
    reference="https://www.alibabacloud.com/help/en/dataworks/user-guide/appendix-message-formats",
    update_arrives_as="two messages, UPDATE_BEFOR and UPDATE_AFTER",
    keys_come_from="schema.primaryKey",
    order_comes_from="sequenceId",
    decode=decode,
    ops=frozenset({Op.INSERT, Op.UPDATE, Op.DELETE, Op.READ}),
    halves=True,
    column_type=column_type,
    default_text=default_text,
)
