"""Serial Canal: Canal's flat messages with a serial number, which orders them; one message for each row.

{"database": "shop", "table": "orders", "type": "UPDATE", "es": 1709200800000, "serial": 17,
 "pkNames": ["id"], "mysqlType": {"id": "int(11)"}, "data": [{"id": "1"}], "old": [{"id": "2"}]}

type     becomes
INSERT   insert
UPDATE   update; `old` has the values before of the changed columns
DELETE   delete
"""

from __future__ import annotations

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
    number_of,
    required,
    time_of,
)
from silver.values.canonical import declared_text, undeclared_text
from silver.values.declared_types import type_of_declaration

_OPS = {"INSERT": Op.INSERT, "UPDATE": Op.UPDATE, "DELETE": Op.DELETE}


class _Message(msgspec.Struct, Generic[C]):
    type: str
    database: str | None = None
    table: str | None = None
    pkNames: list[str] | None = None
    mysqlType: dict[str, str | None] | None = None
    data: list[dict[str, C]] | None = None
    old: list[dict[str, C]] | None = None
    es: Raw = Raw()
    serial: Raw = Raw()


_MESSAGE = dual_decoder(_Message)


def decode(message: RawMessage, context: Context) -> Sequence[Event]:
    """The change of one message."""
    return _MESSAGE.events(message.value, lambda envelope: (_change(envelope, context),))


def _change(envelope: _Message[Any], context: Context) -> RowChange:
    op = _OPS.get(envelope.type)
    if op is None:
        raise Malformed(Reason.UNKNOWN_OP, envelope.type[:100])
    table = required(envelope.table or None, Reason.MISSING_TABLE, "table")
    types = envelope.mysqlType or {}
    row, columns = _image(required(envelope.data or None, Reason.MISSING_IMAGE, "data")[0], types)
    old, old_columns = _image(envelope.old[0], types) if envelope.old and op is Op.UPDATE else (None, {})
    before = row if op is Op.DELETE else None if old is None else {**row, **old}
    after = None if op is Op.DELETE else row
    return RowChange(
        op=op,
        database=envelope.database,
        schema=None,
        table=table,
        keys=checked_keys(envelope.pkNames, before, after),
        before=before,
        after=after,
        columns=joined_columns(columns, old_columns),
        position=(required(number_of(envelope.serial, "serial"), Reason.MISSING_POSITION, "serial"),),
        event_time=time_of(envelope.es, "es"),
    )


def _image(cells: Mapping[str, Any], types: Mapping[str, str | None]) -> tuple[Texts, Mapping[str, Column]]:
    def read(name: str, token: Token, text: str | None) -> tuple[str | None, Column]:
        declared = types.get(name)
        kind = None if declared is None else type_of_declaration(declared, "mysql")
        if kind is None:
            return undeclared_text(token, text), Column(token=token)
        return declared_text(kind, token, text), Column(kind, declared)

    return image_cell_by_cell(cells, read)


def _signature(document: Mapping[str, Any]) -> str | None:
    return "a serial number" if "serial" in document else None


FORMAT = Format(
    name="serialcanal",
    title="Serial Canal",
    writer="Serial Canal",
    reference="https://serial.example/",
    update_arrives_as="one message, the row in `data` and the changed columns in `old`",
    keys_come_from="pkNames",
    order_comes_from="serial",
    decode=decode,
    ops=frozenset(_OPS.values()),
    shares_envelope_with=("canal", "oms_canal"),
    signature=_signature,
)
