"""Maxwell's daemon: rows of MySQL's binlog as JSON, one row in each message.

    {"database": "shop", "table": "orders", "type": "update", "ts": 1709200800, "xid": 7125, "commit": true,
     "position": "master.000006:800911", "server_id": 23042, "primary_key_columns": ["id"],
     "data": {"id": 1, "name": "Ann"}, "old": {"name": "Jane"}}

    type                                             becomes
    insert update delete                             insert, update, delete
    bootstrap-insert                                 read: a row of a snapshot; it has no position
    bootstrap-start bootstrap-complete               transaction
    table-create table-alter table-drop              ddl, see `silver/envelopes/maxwell_tables.py`
    database-create database-alter                   ddl without effect on tables
    database-drop                                    ddl that drops all tables of the database

`old` has only the changed columns: the before image is `data` overlaid with it. Rows declare no types: values
are what the JSON shows, binary is base64 (`decode` makes it text), a SET is a JSON array. A null value may be
left out of `data`; the image is complete all the same. `ts` is seconds in rows and milliseconds in
statements.

An update of a row with a key has a partial image where `old` has no column but those of the key: then MySQL
has not logged the former values (`binlog_row_image=MINIMAL`), and `data` has only the key and the changed
columns. Other updates that leave columns out (`NOBLOB`) do not show it: the source needs
`binlog_row_image=FULL`.

The order is `position`, which Maxwell writes with `output_binlog_position`, then `xid` and `xoffset`. Without
`position` the order inside a partition is the broker's: a transaction gets its `xid` when it begins, not when
it commits, so a later commit can have a lower one. There `xid` and `xoffset` relate partitions, and with
`order: time` they order all rows. They also show that a row is delivered again. The last row of a transaction
has `commit` and no `xoffset`, and comes after the others. Where `xoffset` is not sent (`output_xoffset`),
rows of one transaction, or of one binlog event, share a position, and the broker's coordinates order them.
Rows with neither `position` nor `xid` are ordered by time. Only `position` orders a statement; without it the
statement is refused as `missing_position`. The key is `primary_key_columns`, else the `pk.` members of the
message key (`_uuid` means no key).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Generic

import msgspec
from msgspec import Raw

from framework.contracts.ddl_actions import Action, DropDatabase, DropTable, NoEffect, has_no_effect
from framework.contracts.events import Column, Control, ControlKind, Event, Op, RowChange
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.decoding import (
    C,
    Context,
    Format,
    NeedsExactDecoding,
    Texts,
    checked_keys,
    dual_decoder,
    joined_columns,
    number_of,
    optional_text,
    plain_cells,
    read_json,
    required,
    time_of,
    undeclared_image,
)
from silver.envelopes.configured_columns import configured_columns
from silver.envelopes.connect.messages import decoded_image
from silver.envelopes.maxwell_tables import Definition, alteration, columns_of, creation, primary_key_of
from silver.values.canonical import wall_as_written

_ROWS = {"insert": Op.INSERT, "update": Op.UPDATE, "delete": Op.DELETE, "bootstrap-insert": Op.READ}
_MARKERS = ("bootstrap-start", "bootstrap-complete")
_TABLES = ("table-create", "table-alter", "table-drop")
_DATABASE_DROP = "database-drop"
_DATABASES = ("database-create", "database-alter", _DATABASE_DROP)
_POSITION = re.compile(r"(?:.*[^0-9])?([0-9]{1,19}):([0-9]{1,19})", re.DOTALL)
_PLACES = re.compile(r"\(\s*([0-6])\s*\)")
_LAST_OF_TRANSACTION = 1 << 62
_NULL = (b"", b"null")


class _Message(msgspec.Struct, Generic[C]):
    type: str
    database: str | None = None
    table: str | None = None
    data: dict[str, C] | None = None
    old: C = Raw()  # type: ignore[assignment]  # missing, whatever it would be
    definition: Raw = msgspec.field(default=Raw(), name="def")
    sql: str | None = None
    ts: Raw = Raw()
    xid: Raw = Raw()
    xoffset: Raw = Raw()
    commit: bool | None = None
    position: Raw = Raw()
    gtid: str | None = None
    server_id: Raw = Raw()
    primary_key_columns: list[str] | None = None


_MESSAGE = dual_decoder(_Message, is_nested=True)
_IMAGE = msgspec.json.Decoder(dict[str, Raw])
_DEFINITION = msgspec.json.Decoder(Definition)


def decode(message: RawMessage, context: Context) -> Sequence[Event]:
    """The change, or the control event, of one message."""
    if message.value is None and message.key is not None:
        return (Control(kind=ControlKind.TOMBSTONE, op="tombstone"),)
    return _MESSAGE.events(message.value, lambda found: (_event(found, message, context),))


def _event(found: _Message[Any], message: RawMessage, context: Context) -> Event:
    if found.type in _ROWS:
        return _change(found, message, context)
    if found.type in _MARKERS:
        names = (found.database or None, None, found.table or None)
        return Control(ControlKind.TRANSACTION, found.type, *names, event_time=time_of(found.ts, "ts", "s"))
    if found.type in _TABLES or found.type in _DATABASES:
        return _statement(found)
    raise Malformed(Reason.UNKNOWN_OP, found.type[:100])


def _change(found: _Message[Any], message: RawMessage, context: Context) -> RowChange:
    op = _ROWS[found.type]
    table = required(found.table or None, Reason.MISSING_TABLE, "table")
    database = found.database or None
    data = required(found.data or None, Reason.MISSING_IMAGE, "data")
    configured = configured_columns(context, (database, None, table))
    whole, columns = configured.row(*undeclared_image(data))
    before: Texts | None = whole if op is Op.DELETE else None
    old = _old(found.old) if op is Op.UPDATE else None
    if old is not None:
        former, former_columns = configured.row(*undeclared_image(old))
        before, columns = {**whole, **former}, joined_columns(columns, former_columns)
    codecs = context.codecs_for(database, None, table)
    images = decoded_image(before, codecs), decoded_image(None if op is Op.DELETE else whole, codecs)
    keys = (
        found.primary_key_columns or _key_names(message.key, whole) or context.keys_for(database, None, table)
    )
    position = None if op is Op.READ else _position(found)
    is_ordered = position is None or any(position[:2])
    is_of_transaction = position is not None and any(position[:4])
    is_shared = is_of_transaction and not _has_place(found)
    return RowChange(
        op=op,
        database=database,
        schema=None,
        table=table,
        keys=checked_keys(keys, *images),
        before=images[0],
        after=images[1],
        columns={name: Column(type="string") if name in codecs else c for name, c in columns.items()}
        if codecs
        else columns,
        position=position,
        event_time=time_of(found.ts, "ts", "s"),
        partial=op is Op.UPDATE and bool(keys) and (old or {}).keys() <= set(keys or ()),
        transaction_id=found.gtid or optional_text(found.xid) or None,
        server=None if op is Op.READ else optional_text(found.server_id) or None,
        is_time=not is_ordered,
        is_shared=is_shared,
        is_of_record=is_shared and not keys,
        earliest=position if is_of_transaction and not (is_ordered or is_shared) else None,
    )


def _old(part: Any) -> dict[str, Any] | None:
    """The former values, None where they are null or missing."""
    if not isinstance(part, Raw):
        return plain_cells(part)
    return None if bytes(part) in _NULL else read_json(_IMAGE, bytes(part))


def _key_names(key: bytes | None, image: Mapping[str, str | None]) -> Sequence[str]:
    """The columns of a message key such as `{"database": "shop", "table": "orders", "pk.id": 1}`.

    Maxwell writes their names in lower case there, also those of columns in another case. None for other
    keys.
    """
    try:
        members = read_json(_IMAGE, key)
    except Malformed:
        return ()
    columns = {name.lower(): name for name in image} | {name: name for name in image}
    names = [columns.get(name.removeprefix("pk.")) for name in members if name.startswith("pk.")]
    return [name for name in names if name is not None] if None not in names else ()


def _position(found: _Message[Any]) -> tuple[int, ...]:
    """File, position, transaction, and place in the transaction; the time where all of them are missing."""
    file, pos = _binlog(found.position) or (0, 0)
    xid, xoffset = number_of(found.xid, "xid"), number_of(found.xoffset, "xoffset")
    if found.commit and xoffset is None:
        xoffset = _LAST_OF_TRANSACTION
    if file or xid is not None:
        return (file, pos, xid or 0, xoffset or 0, 0)
    return (
        0,
        0,
        0,
        0,
        required(time_of(found.ts, "ts", "s"), Reason.MISSING_POSITION, "position, xid and ts"),
    )


def _has_place(found: _Message[Any]) -> bool:
    """Whether a row has its place in the transaction; without it, several rows share a position."""
    return bool(found.commit) or number_of(found.xoffset, "xoffset") is not None


def _binlog(position: Raw) -> tuple[int, int] | None:
    text = optional_text(position)
    if not text:
        return None
    place = _POSITION.fullmatch(text)
    if place is None:
        raise Malformed(Reason.BAD_POSITION, "position is no file:position")
    return int(place[1]), int(place[2])


def _statement(found: _Message[Any]) -> Control:
    binlog = _binlog(found.position)
    new, old = _definition(found.definition), _definition(found.old)
    actions: tuple[Action, ...] | None = None
    if found.type == _DATABASE_DROP:
        required(found.database or None, Reason.MISSING_TABLE, "database")
        actions = (DropDatabase(),)
    elif found.type in _DATABASES:
        actions = (NoEffect("database"),)
    elif found.type == "table-drop":
        actions = (DropTable(),)
    elif found.type == "table-create" and new is not None:
        actions = (creation(new),)
    elif new is not None and old is not None:
        actions = alteration(old, new, found.sql)
    if binlog is None and not has_no_effect(actions or ()):
        raise Malformed(
            Reason.MISSING_POSITION,
            "a statement without `position`: run Maxwell with output_binlog_position=true",
        )
    named = old or new
    return Control(
        kind=ControlKind.DDL,
        op=found.type,
        database=(named.database if named else found.database) or None,
        table=_statement_table(found, named),
        statement=found.sql or None,
        position=None if binlog is None else (*binlog, 0, 0, 0),
        event_time=time_of(found.ts, "ts"),
        transaction_id=found.gtid or None,
        keys=primary_key_of(new) if new else None,
        columns=columns_of(new) if new else {},
        server=optional_text(found.server_id) or None,
        dialect="mysql",
        actions=actions,
    )


def _statement_table(found: _Message[Any], named: Definition | None) -> str | None:
    """The table of a statement; none for a database. That of a dropped database has an empty name."""
    if found.type in _DATABASES:
        return "" if found.type == _DATABASE_DROP else None
    return required((named.table if named else found.table) or None, Reason.MISSING_TABLE, "table")


def _definition(part: Any) -> Definition | None:
    if part is not None and not isinstance(part, Raw):
        raise NeedsExactDecoding
    data = b"" if part is None else bytes(part)
    return None if data in _NULL else read_json(_DEFINITION, data)


def column_type(kind: str) -> str | None:
    """What rows, which declare nothing, will show of a column that a statement adds.

    None where the values tell.
    """
    if kind in ("tinyint", "smallint", "int", "bigint"):
        return "bigint"
    return None if kind in ("float", "double") or kind.startswith("decimal") else "string"


def default_text(text: str, kind: str, declared: str) -> str | None:
    """A default as Maxwell writes it: a DATETIME with a space and all digits of its fraction.

    None for a TIMESTAMP: Maxwell's zone is not known.
    """
    if kind == "timestamp" and text.endswith("Z"):
        return None
    if kind != "timestamp_ntz" or wall_as_written(text) is None:
        return text
    seconds, _, fraction = text.replace("T", " ").partition(".")
    places = _PLACES.search(declared)
    digits = fraction.ljust(int(places[1]) if places is not None else 0, "0")
    return f"{seconds}.{digits}" if digits else seconds


FORMAT = Format(
    name="maxwell",
    title="Maxwell",
    writer="Maxwell's daemon, JSON",
    reference="https://maxwells-daemon.io/dataformat/",
    update_arrives_as="one message, `data` and the changed columns in `old`",
    keys_come_from="primary_key_columns, else message key",
    order_comes_from="position, else the partition's order (`order: time`: xid and xoffset, else ts)",
    decode=decode,
    ops=frozenset({Op.INSERT, Op.UPDATE, Op.DELETE, Op.READ}),
    column_type=column_type,
    default_text=default_text,
)
