"""Oracle GoldenGate's JSON: operations with both images, or the row layout, where metadata are columns.

    {"table": "SHOP.ORDERS", "op_type": "U", "op_ts": "2024-02-29 10:00:00.123456",
     "current_ts": "2024-02-29 10:00:01.5", "pos": "00000000000004205123", "primary_keys": ["ID"],
     "tokens": {"TK-XID": "6.28.807"},
     "before": {"ID": 1, "NAME": "Jane"}, "after": {"ID": 1, "NAME": "Ann"}}
    {"table": "SHOP.ORDERS", "op_type": "I", "op_ts": "...", "pos": "...", "primary_keys": ["ID"],
     "ID": 1, "NAME": "Ann"}

    op_type   before       after        becomes
    I                      the row      insert
    U         key or row   changed      update; a column that is missing in `after` is unchanged
    D         key or row                delete
    T                                   truncate

`table` is `schema.table` or `catalog.schema.table`. With two parts the first one is the database; with one
part the database is the option `database`, else the source's name. `pos` is the position in the trail: the
number of the file and the byte in it. Where it is not sent, the time orders, then the offset. `op_ts` has no
zone: it is in the source's `timezone`. Both layouts can come inside a Kafka Connect envelope whose schema
types the columns, and with members `NAME_isMissing`, which say whether a column is missing and are no columns
themselves. Binary is base64 (`decode` makes it text).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw
from pydantic import Field as Setting

from framework.contracts.events import Column, Control, ControlKind, Event, Op, RowChange
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.decoding import (
    Context,
    Format,
    NeedsExactDecoding,
    Options,
    checked_keys,
    number_of,
    optional_text,
    read_json,
    required,
    source_columns,
)
from silver.envelopes.configured_columns import configured_columns
from silver.envelopes.connect.column_types import Field
from silver.envelopes.connect.messages import (
    EXACT,
    PLAIN,
    WHOLE,
    Parts,
    columns_of,
    decoded_image,
    image_fields,
    image_of,
    members,
)
from silver.values.canonical import instant_of_wall, micros_of_instant

_OPS = {"I": Op.INSERT, "U": Op.UPDATE, "D": Op.DELETE}
_METADATA = frozenset(
    {
        "table",
        "op_type",
        "op_ts",
        "current_ts",
        "pos",
        "primary_keys",
        "tokens",
        "before",
        "after",
        "xid",
        "csn",
        "rowid",
        "alltokens",
    }
)
_TRANSACTION = ("TK-XID", "txid", "XID", "xid")
_MISSING_MARK = "_isMissing"
_NULL = (b"", b"null")
_NONE = Raw()

_Cells = dict[str, Raw]


class OggOptions(Options):
    """The names that the feed leaves out."""

    database: str | None = Setting(
        default=None,
        description="The database of tables whose name has one part; else the source's name.",
    )


_KEYS = msgspec.json.Decoder(list[str] | None)
_FIELD = msgspec.json.Decoder(Field | None)


def decode(message: RawMessage, context: Context) -> Sequence[Event]:
    """The change of one operation, or its truncate."""
    if message.value is None and message.key is not None:
        return (Control(kind=ControlKind.TOMBSTONE, op="tombstone"),)
    try:
        return (_event(WHOLE.plain_of(message.value), PLAIN, message, context),)
    except NeedsExactDecoding:
        return (_event(read_json(WHOLE.exact, message.value), EXACT, message, context),)


def _event(whole: _Cells, parts: Parts, message: RawMessage, context: Context) -> Event:
    schema = None
    if "payload" in whole and whole.keys() <= {"schema", "payload"}:
        schema = read_json(_FIELD, bytes(whole["schema"])) if "schema" in whole else None
        whole = parts.members(bytes(whole["payload"]))
    op_type = optional_text(whole.get("op_type"))
    if op_type is None:
        raise Malformed(Reason.WRONG_SHAPE, "op_type is missing")
    if op_type != "T" and op_type not in _OPS:
        raise Malformed(Reason.UNKNOWN_OP, op_type[:100])
    names = _names(optional_text(whole.get("table")), context)
    if op_type == "T":
        return _truncate(whole, names, context)
    return _change(whole, (schema, parts), names, context)


def _truncate(whole: _Cells, names: tuple[str | None, str | None, str], context: Context) -> Control:
    return Control(
        kind=ControlKind.TRUNCATE,
        op="T",
        database=names[0],
        schema=names[1],
        table=names[2],
        position=_position(whole, context),
        event_time=_event_time(whole, context),
        transaction_id=_transaction(whole),
        is_time=number_of(whole.get("pos"), "pos") is None,
    )


def _change(
    whole: _Cells,
    how: tuple[Field | None, Parts],
    names: tuple[str | None, str | None, str],
    context: Context,
) -> RowChange:
    schema, parts = how
    op = _OPS[optional_text(whole["op_type"]) or ""]
    is_flat = "before" not in whole and "after" not in whole
    fields = members(schema) if is_flat else image_fields(schema)
    fields = {
        name: field
        for name, field in fields.items()
        if not _is_no_column(name, is_flat) and not name.endswith(_MISSING_MARK)
    }
    before_cells, after_cells = (
        (None, _flat_cells(whole))
        if is_flat
        else (_cells(whole, "before", parts), _cells(whole, "after", parts))
    )
    if is_flat and op is Op.DELETE:
        before_cells, after_cells = after_cells, None
    declared, configured = columns_of(fields), configured_columns(context, names)
    read = configured.image
    before, before_columns = read(*image_of(before_cells if op is not Op.INSERT else None, fields), declared)
    after, after_columns = read(*image_of(after_cells if op is not Op.DELETE else None, fields), declared)
    required(
        (before if op is Op.DELETE else after) or None,
        Reason.MISSING_IMAGE,
        "before" if op is Op.DELETE else "after",
    )
    codecs = context.codecs_for(*names)
    before, after = _plain(decoded_image(before, codecs)), _plain(decoded_image(after, codecs))
    keys = (
        read_json(_KEYS, bytes(whole["primary_keys"])) if "primary_keys" in whole else None
    ) or context.keys_for(*names)
    columns = source_columns(configured.declared(declared), (after_columns, before_columns), (after, before))
    return RowChange(
        op=op,
        database=names[0],
        schema=names[1],
        table=names[2],
        keys=checked_keys(keys, before, after),
        before=before,
        after=_with_key(after, before, keys),
        columns=_with_codecs(columns, codecs),
        position=_position(whole, context),
        event_time=_event_time(whole, context),
        partial=op is Op.UPDATE,
        transaction_id=_transaction(whole),
        is_time=number_of(whole.get("pos"), "pos") is None,
    )


def _with_codecs(columns: Mapping[str, Column], codecs: Mapping[str, str]) -> Mapping[str, Column]:
    if not codecs:
        return columns
    return {
        name: Column(type="string", declared=c.declared) if name in codecs else c
        for name, c in columns.items()
    }


def _plain(image: Mapping[str, str | None] | None) -> dict[str, str | None] | None:
    return None if image is None else dict(image)


def _with_key(
    after: dict[str, str | None] | None, before: Mapping[str, str | None] | None, keys: Sequence[str] | None
) -> dict[str, str | None] | None:
    """The after image with the key columns that a compressed update leaves out because they are unchanged."""
    if after is None or before is None:
        return after
    return {**{name: before[name] for name in keys or () if name in before and name not in after}, **after}


def _names(table: str | None, context: Context) -> tuple[str | None, str | None, str]:
    parts = required(table or None, Reason.MISSING_TABLE, "table").split(".")
    if not parts[-1]:
        raise Malformed(Reason.MISSING_TABLE, "table ends in a dot")
    if len(parts) == 1:
        database = context.options.database if isinstance(context.options, OggOptions) else None
        return database or context.source, None, parts[0]
    return (
        (parts[0] or None, None, parts[1])
        if len(parts) == 2
        else (parts[0] or None, parts[1] or None, ".".join(parts[2:]))
    )


def _is_no_column(name: str, is_flat: bool) -> bool:
    return is_flat and name in _METADATA


def _flat_cells(whole: _Cells) -> _Cells:
    return _without_missing({name: raw for name, raw in whole.items() if name not in _METADATA})


def _cells(whole: _Cells, side: str, parts: Parts) -> dict[str, Any] | None:
    data = bytes(whole.get(side, _NONE))
    return None if data in _NULL else _without_missing(parts.cells(data))


def _without_missing(cells: dict[str, Any]) -> dict[str, Any]:
    """The cells without missing columns, and without the members `NAME_isMissing`."""
    marks = {
        name for name in cells if name.endswith(_MISSING_MARK) and name.removesuffix(_MISSING_MARK) in cells
    }
    missing = {name.removesuffix(_MISSING_MARK) for name in marks if _is_true(cells[name])}
    return (
        {name: raw for name, raw in cells.items() if name not in marks and name not in missing}
        if marks
        else cells
    )


def _is_true(cell: Any) -> bool:
    return bytes(cell) in (b"true", b'"true"') if isinstance(cell, Raw) else cell is True or cell == "true"


def _position(whole: _Cells, context: Context) -> tuple[int, ...]:
    pos = number_of(whole.get("pos"), "pos")
    return (
        (pos, 0)
        if pos is not None
        else (0, required(_event_time(whole, context), Reason.MISSING_POSITION, "pos and op_ts"))
    )


def _event_time(whole: _Cells, context: Context) -> int | None:
    text = optional_text(whole.get("op_ts"))
    if not text:
        return None
    moment = micros_of_instant(instant_of_wall(text, context.timezone))
    if moment is None:
        raise Malformed(Reason.BAD_POSITION, "op_ts is no time")
    return moment


def _transaction(whole: _Cells) -> str | None:
    """The transaction from the tokens, or from optional metadata."""
    tokens = _cells(whole, "tokens", EXACT) or {}
    for name in _TRANSACTION:
        raw = tokens.get(name, whole.get(name) if name == "xid" else None)
        if raw is not None and (text := optional_text(raw)):
            return text
    return None


FORMAT = Format(
    name="ogg",
    title="Oracle GoldenGate",
    writer="Oracle GoldenGate, JSON operations and rows",
    reference="https://docs.oracle.com/en/middleware/goldengate/big-data/19.1/gadbd/"
    "pluggable-formatters.html",
    update_arrives_as="one message, both images; missing columns are unchanged",
    keys_come_from="primary_keys, else configuration (`keys`)",
    order_comes_from="pos",
    decode=decode,
    ops=frozenset({Op.INSERT, Op.UPDATE, Op.DELETE}),
    options=OggOptions,
)
