"""Rows of a PostgreSQL log, in the manner of wal2json: an image is a list of columns with their types.

{"action": "U", "lsn": "0/16B2D30", "schema": "public", "table": "orders",
 "columns": [{"name": "id", "type": "integer", "value": 1},
             {"name": "price", "type": "numeric(10,2)", "value": 9.90}],
 "identity": [{"name": "id", "type": "integer", "value": 1},
              {"name": "price", "type": "numeric(10,2)", "value": 9.50}],
 "pk": [{"name": "id", "type": "integer"}]}

action   columns       identity         becomes
I        the row                        insert
U        the new row   the old row      update
D                      the key          delete
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Generic

import msgspec
from msgspec import Raw

from framework.contracts.events import Column, Event, Op, RowChange, Token
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.decoding import (
    C,
    Context,
    Format,
    Texts,
    checked_keys,
    dual_decoder,
    image_cell_by_cell,
    joined_columns,
    named_cells,
    optional_text,
    required,
)
from silver.values.canonical import declared_text, undeclared_text
from silver.values.declared_types import type_of_declaration

_OPS = {"I": Op.INSERT, "U": Op.UPDATE, "D": Op.DELETE}
_LSN = re.compile(r"([0-9A-F]{1,8})/([0-9A-F]{1,8})")


class _Key(msgspec.Struct):
    name: str


class _Cell(msgspec.Struct, Generic[C]):
    name: str
    value: C
    type: str | None = None


class _Message(msgspec.Struct, Generic[C]):
    action: str
    schema: str | None = None
    table: str | None = None
    columns: list[_Cell[C]] | None = None
    identity: list[_Cell[C]] | None = None
    pk: list[_Key] | None = None
    lsn: Raw = Raw()


_MESSAGE = dual_decoder(_Message)


def decode(message: RawMessage, context: Context) -> Sequence[Event]:
    """The change of one message."""
    return _MESSAGE.events(message.value, lambda envelope: (_change(envelope, context),))


def _change(envelope: _Message[Any], context: Context) -> RowChange:
    op = _OPS.get(envelope.action)
    if op is None:
        raise Malformed(Reason.UNKNOWN_OP, envelope.action[:100])
    after, after_columns = (None, {}) if op is Op.DELETE else _image(envelope.columns, "columns")
    before, before_columns = (None, {}) if op is Op.INSERT else _image(envelope.identity, "identity")
    return RowChange(
        op=op,
        database=context.source,
        schema=envelope.schema,
        table=required(envelope.table or None, Reason.MISSING_TABLE, "table"),
        keys=checked_keys([column.name for column in envelope.pk or ()], before, after),
        before=before,
        after=after,
        columns=joined_columns(after_columns, before_columns),
        position=_position(envelope.lsn),
        event_time=None,
    )


def _position(lsn: Raw) -> tuple[int, ...]:
    match = _LSN.fullmatch(required(optional_text(lsn), Reason.MISSING_POSITION, "lsn"))
    if match is None:
        raise Malformed(Reason.BAD_POSITION, "lsn is no log position")
    return (int(match[1], 16), int(match[2], 16))


def _image(cells: list[_Cell[Any]] | None, member: str) -> tuple[Texts, Mapping[str, Column]]:
    cells = required(cells, Reason.MISSING_IMAGE, member)
    types = {cell.name: cell.type for cell in cells}

    def read(name: str, token: Token, text: str | None) -> tuple[str | None, Column]:
        declared = types[name]
        kind = None if declared is None else type_of_declaration(declared, "postgres")
        if kind is None:
            return undeclared_text(token, text), Column(token=token)
        return declared_text(kind, token, text), Column(kind, declared)

    return image_cell_by_cell(named_cells((cell.name, cell.value) for cell in cells), read)


FORMAT = Format(
    name="walrows",
    title="Log rows",
    writer="a logical decoding plugin",
    reference="https://github.com/eulerto/wal2json",
    update_arrives_as="one message, the new row in `columns` and the old row in `identity`",
    keys_come_from="pk",
    order_comes_from="lsn",
    decode=decode,
    ops=frozenset(_OPS.values()),
)
