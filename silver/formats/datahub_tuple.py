"""DataHub Tuple records: a row of the source table with metadata columns, as one flat JSON object.

    {"_sequence_id_": "1649991610688000001", "_operation_type_": "U", "_excute_time_": "1649991756000",
     "_source_table_": "orders", "_before_image_": "N", "_after_image_": "Y", "id": 1, "name": "joe"}

    _operation_type_  _before_image_  _after_image_   becomes
    I                 N               Y               insert; read (of the full load) if _sequence_id_ is -1
    U                 Y               N               the before half of an update
    U                 N               Y               the after half; the halves share _sequence_id_
    D                 Y               N               delete

Metadata columns never become columns of the replica. `_excute_time_` (milliseconds) is the vendor's spelling,
which newer writers correct to `_execute_time_`; -1 means no time. Some writers leave `_source_table_` out;
then the source's option `table` names the table. The feed names no database (the source's option `database`,
else the source's name does), no key (configure `keys`) and no types: gold infers them from the values. There
are no DDL messages and no heartbeats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw
from pydantic import Field

from framework.contracts.events import Event, Half, Op, RowChange
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.decoding import (
    Context,
    DualDecoder,
    Format,
    NumberText,
    Options,
    checked_keys,
    number_in,
    required,
    text_in,
    time_in,
    undeclared_image,
)
from silver.envelopes.configured_columns import Rows, configured_columns, decoded_rows
from silver.envelopes.dataworks import is_none

_OPS = {
    ("I", "N", "Y"): (Op.INSERT, None),
    ("U", "Y", "N"): (Op.UPDATE, Half.BEFORE),
    ("U", "N", "Y"): (Op.UPDATE, Half.AFTER),
    ("D", "Y", "N"): (Op.DELETE, None),
}
_FLAGS = ("_operation_type_", "_before_image_", "_after_image_")
_TIMES = ("_excute_time_", "_execute_time_")
_METADATA = frozenset((*_FLAGS, *_TIMES, "_sequence_id_", "_source_table_"))
_RECORD: DualDecoder[dict[str, Any]] = DualDecoder(
    msgspec.json.Decoder(dict[str, Any], float_hook=NumberText),
    msgspec.json.Decoder(dict[str, Raw]),
)


class TupleOptions(Options):
    """The names that the feed leaves out."""

    database: str | None = Field(
        default=None, description="The database, which the feed never names; else the source's name."
    )
    table: str | None = Field(
        default=None, min_length=1, description="The table, where records have no `_source_table_`."
    )


def decode(message: RawMessage, context: Context) -> Sequence[Event]:
    """The change, or the half of one, of one Tuple record."""
    return _RECORD.events(message.value, lambda record: _events(record, context))


def _events(record: dict[str, Any], context: Context) -> Sequence[Event]:
    options = context.options if isinstance(context.options, TupleOptions) else TupleOptions()
    table = text_in(record.get("_source_table_")) or options.table
    if table is None:
        raise Malformed(
            Reason.MISSING_TABLE,
            "_source_table_ is missing: set `table` for the source, beside `files` or `kafka`",
        )
    flags = (_flag(record, _FLAGS[0]), _flag(record, _FLAGS[1]), _flag(record, _FLAGS[2]))
    if flags[0] not in ("I", "U", "D"):
        raise Malformed(Reason.UNKNOWN_OP, flags[0][:100])
    if flags not in _OPS:
        raise Malformed(
            Reason.WRONG_SHAPE,
            f"_operation_type_ {flags[0]} with image flags {flags[1][:5]!r} and {flags[2][:5]!r}",
        )
    op, half = _OPS[flags]
    sequence, position = record.get("_sequence_id_"), None
    if op is Op.INSERT and is_none(sequence):
        op = Op.READ
    else:
        number = number_in(sequence, "_sequence_id_")
        position = (required(number, Reason.MISSING_POSITION, "_sequence_id_"),)
    database = options.database or context.source
    image, columns = configured_columns(context, (database, None, table)).row(
        *undeclared_image({name: cell for name, cell in record.items() if name not in _METADATA})
    )
    name = next((name for name in _TIMES if record.get(name) is not None), _TIMES[0])
    time = record.get(name)
    images: Rows = (image, None) if flags[1] == "Y" else (None, image)
    if codecs := context.codecs_for(database, None, table):
        images, columns = decoded_rows(images, columns, codecs)
    return (
        RowChange(
            op=op,
            database=database,
            schema=None,
            table=table,
            keys=checked_keys(context.keys_for(database, None, table), image),
            before=images[0],
            after=images[1],
            columns=columns,
            position=position,
            event_time=None if is_none(time) else time_in(time, name),
            half=half,
        ),
    )


def _flag(record: Mapping[str, Any], name: str) -> str:
    return required(text_in(record.get(name)), Reason.WRONG_SHAPE, name)


FORMAT = Format(
    name="datahub_tuple",
    title="DataHub Tuple",
    writer="Alibaba DataWorks into DataHub, Tuple topics",
    reference="https://www.alibabacloud.com/help/en/dataworks/user-guide/appendix-message-formats",
    update_arrives_as="two rows with image flags",
    keys_come_from="configuration (`keys`)",
    order_comes_from="_sequence_id_",
    decode=decode,
    ops=frozenset({Op.INSERT, Op.UPDATE, Op.DELETE, Op.READ}),
    halves=True,
    options=TupleOptions,
)
