"""OceanBase OMS, SharePlex-compatible messages: the changed columns, and the row as it was before.

    {"data": {"name": "Ann"}, "key": {"id": 1, "name": "Jane", "price": 1.10},
     "meta": {"op": "upd", "table": "shop.orders", "rowid": "shop.orders-1", "scn": "160934467100003",
              "seq": 1, "idx": "1/1", "trans": "tx-7", "time": "2020-12-30T16:11:11",
              "posttime": "2020-12-30T16:11:12", "size": 1}}

    meta.op   data                 key                    becomes
    ins       the row              -                      insert
    upd       the changed columns  the whole row before   update; after image: `key` overlaid with `data`
    upd       {}                   the whole row before   update that changed nothing
    upd       the changed columns  the key alone          update of a partial image
    del       the row              -                      delete

A null column of `data` was set to null; a missing one is unchanged. An update without `key` has a partial
image, too. `meta.table` is `database.table`. The feed names no key columns: `meta.rowid` has only the values
(one printed sample lost the separator U+0001 between them), so the columns are configured (`keys`), or the
table is append-only. The configured key must have these values: under a wrong key, several rows would become
one (`silver/envelopes/oms/row_ids.py`). The feed declares no types either: gold infers them from the values,
or the configuration gives them (`silver/envelopes/configured_columns.py`). `time` is a wall time in the
source's `timezone`. The order is `scn` (seconds, then a counter), then `seq`, as numbers. OMS sends `scn`
only with `sequenceEnabled`, and never with the rows of a full copy. If the source has `order: partition`,
rows without `scn` are read as well, and all rows are in the order of their partition: `scn`, or `time`
without it, relates partitions. There are no DDL messages and no heartbeats.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic

import msgspec
from msgspec import Raw

from framework.contracts.events import Column, Event, Op, RowChange
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed, Reason
from framework.text.formatting import quantity
from silver.decoding import (
    BY_PARTITION,
    C,
    Context,
    Format,
    Texts,
    checked_keys,
    dual_decoder,
    joined_columns,
    number_of,
    required,
    undeclared_image,
)
from silver.envelopes.configured_columns import configured_columns, decoded_rows
from silver.envelopes.oms.row_ids import is_compared, may_be_key, split_values
from silver.envelopes.oms.values import configured_value
from silver.values.canonical import instant_of_wall, micros_of_instant

_MICROSECONDS = 1_000_000
_COUNTERS = 100_000
"""The counter of `scn` has up to five digits."""
_OPS = {"ins": Op.INSERT, "upd": Op.UPDATE, "del": Op.DELETE}


class _Meta(msgspec.Struct):
    op: str
    table: str | None = None
    rowid: str | None = None
    time: str | None = None
    trans: str | None = None
    scn: Raw = Raw()
    seq: Raw = Raw()


class _Message(msgspec.Struct, Generic[C]):
    meta: _Meta
    data: dict[str, C] | None = None
    key: dict[str, C] | None = None


_MESSAGE = dual_decoder(_Message)


def decode(message: RawMessage, context: Context) -> Sequence[Event]:
    """The change of one SharePlex message."""
    return _MESSAGE.events(message.value, lambda envelope: (_change(envelope, context),))


def _change(envelope: _Message[Any], context: Context) -> RowChange:
    meta = envelope.meta
    op = _OPS.get(meta.op)
    if op is None:
        raise Malformed(Reason.UNKNOWN_OP, meta.op[:100])
    database, table = _names(meta.table)
    configured = configured_columns(context, (database, None, table), configured_value)
    former, former_columns = (
        configured.row(*undeclared_image(envelope.key)) if op is Op.UPDATE and envelope.key else (None, {})
    )
    data, data_columns = configured.row(
        *undeclared_image(required(envelope.data, Reason.MISSING_IMAGE, "data"))
    )
    keys = context.keys_for(database, None, table)
    before = data if op is Op.DELETE else former
    after = None if op is Op.DELETE else {**(former or {}), **data}
    if not before and not after:
        raise Malformed(Reason.MISSING_IMAGE, "data has no column")
    columns = joined_columns(former_columns, data_columns)
    # without the row before, the key in `data` may be a new one, and the row id has the former one
    is_shown = op is not Op.UPDATE or (former or {}).keys() >= set(keys or ())
    _check_rowid(keys, meta, (before, after) if is_shown else (), columns, context)
    if codecs := context.codecs_for(database, None, table):
        (before, after), columns = decoded_rows((before, after), columns, codecs)
    scn, time = number_of(meta.scn, "meta.scn"), _event_time(meta.time, context.timezone)
    if scn is None and not context.needs_no_position:
        raise Malformed(Reason.MISSING_POSITION, f"meta.scn is missing: {BY_PARTITION}")
    position = _time_position(time) if scn is None else (scn, number_of(meta.seq, "meta.seq") or 0)
    return RowChange(
        op=op,
        database=database,
        schema=None,
        table=table,
        keys=checked_keys(keys, before, after),
        before=before,
        after=after,
        columns=columns,
        position=position,
        event_time=time,
        partial=op is Op.UPDATE and (former or {}).keys() <= set(keys or ()),
        transaction_id=meta.trans,
        is_time=context.needs_no_position,
        earliest=None if scn is None or not context.needs_no_position else position,
    )


def _names(qualified: str | None) -> tuple[str | None, str]:
    """Database and table of `database.table`; the name of a table may contain further dots."""
    database, dot, table = (qualified or "").partition(".")
    if not dot:
        database, table = "", database
    return database or None, required(table or None, Reason.MISSING_TABLE, "meta.table")


def _check_rowid(
    keys: Sequence[str] | None,
    meta: _Meta,
    images: Iterable[Texts | None],
    columns: Mapping[str, Column],
    context: Context,
) -> None:
    """Raises `Malformed` where the row id shows that the configured key is another one than the source's."""
    if not keys or not meta.rowid:
        return
    names = dict.fromkeys(keys)
    packed = meta.rowid.removeprefix(f"{meta.table}-")
    values = split_values([packed])
    found = [
        {name: image[name] for name in names} for image in images if image and names.keys() <= image.keys()
    ]
    counts = {len(split_values(key.values())) for key in found} or {len(names)}
    if len(values) > 1 and len(values) not in counts:
        raise Malformed(
            Reason.KEY_NOT_IN_IMAGE,
            f"the configured key has {quantity(len(names), 'column')},"
            f" meta.rowid has {quantity(len(values), 'value')}",
        )
    if packed == meta.rowid:  # of another kind, such as Oracle's
        return
    if not found or any(values == split_values(key.values()) for key in found):
        return
    database, table = _names(meta.table)
    hints = context.hints_for(database, None, table)
    codecs = context.codecs_for(database, None, table)
    told = {name: columns[name] for name in names if name in columns and name not in codecs}
    for key in found:
        compared = [name for name, text in key.items() if is_compared(told.get(name), hints.get(name), text)]
        if may_be_key(values, key, compared):
            return
    raise Malformed(Reason.KEY_NOT_IN_IMAGE, "the configured key has other values than meta.rowid")


def _event_time(text: str | None, zone: str) -> int | None:
    if not text:
        return None
    return required(
        micros_of_instant(instant_of_wall(text, zone)), Reason.BAD_POSITION, "a time in meta.time"
    )


def _time_position(time: int | None) -> tuple[int, int]:
    """The seconds of a row without `scn`, as `scn` would begin, and 0 for its counter; 0 without a time."""
    return max(time or 0, 0) // _MICROSECONDS * _COUNTERS, 0


FORMAT = Format(
    name="oms_shareplex",
    title="OceanBase OMS, SharePlex",
    writer="OceanBase Migration Service, serialization method SharePlex",
    reference="https://en.oceanbase.com/docs/enterprise-oms-doc-en-10000000000833999",
    update_arrives_as="one message, the changed columns in `data` and the whole row before in `key`",
    keys_come_from="configuration (`keys`)",
    order_comes_from="scn, then seq; with `order: partition` the partition's order",
    decode=decode,
    ops=frozenset({Op.INSERT, Op.UPDATE, Op.DELETE}),
)
