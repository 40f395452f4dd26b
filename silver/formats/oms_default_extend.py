"""OceanBase OMS, DefaultExtendColumnType messages: Default records whose images declare column types.

    {"prevStruct": null,
     "postStruct": {"id": 1, "paid": "1606233662.012345",
                    "__light_type": {"id": {"schemaType": "BIGINT"}, "paid": {"schemaType": "TIMESTAMP"}}},
     "allMetaData": {"record_primary_key": "id", "record_primary_value": "1", "dbType": "OB_MYSQL",
                     "storeDataSequence": 160934467100001, "table_name": "orders", "db": "tenant_1.shop",
                     "timestamp": "1609344671"},
     "recordType": "INSERT"}

Envelope and operations are those of Default (`silver/envelopes/oms/records.py`). For types and values see
`silver/envelopes/oms/values.py`:

    schemaType                            canonical
    TINYINT SMALLINT INT BIGINT INT64     tinyint, smallint, int, bigint (widened if one exceeds 64 bits)
    FLOAT DOUBLE                          float, double
    DECIMAL without digits                undeclared
    VARCHAR TIME                          string
    BLOB                                  binary
    DATE DATETIME TIMESTAMP               date, timestamp_ntz, timestamp

`__light_type` is removed from the image and never becomes a column. Names in it that no image has are
ignored; a column that it does not name is undeclared. Where both images have one, that of `postStruct`
counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw

from framework.contracts.events import Event, Op
from framework.contracts.messages import RawMessage
from silver.decoding import Context, DualDecoder, Format, NeedsExactDecoding, dual_decoder, read_json
from silver.envelopes.oms.records import Record, decode_record
from silver.envelopes.oms.values import Types, written_default
from silver.envelopes.signatures import default_extend_signature

_LIGHT_TYPE = "__light_type"


class _LightType(msgspec.Struct):
    schemaType: str | None = None


_RECORD = DualDecoder(dual_decoder(Record).plain, dual_decoder(Record).exact, is_nested=True)
_LIGHT_TYPES = msgspec.json.Decoder(dict[str, _LightType | None] | None)


def decode(message: RawMessage, context: Context) -> Sequence[Event]:
    """The change or control event of one DefaultExtendColumnType record."""
    return decode_record(_RECORD, message, context, _split_types)


def _split_types(cells: dict[str, Any]) -> tuple[dict[str, Any], Types]:
    """The image without `__light_type`, and the types that it names."""
    if _LIGHT_TYPE not in cells:
        return cells, ()
    columns = {name: cell for name, cell in cells.items() if name != _LIGHT_TYPE}
    written = cells[_LIGHT_TYPE]
    if not isinstance(written, Raw):
        return columns, _plain_types(written)
    types = read_json(_LIGHT_TYPES, bytes(written)) or {}
    return columns, tuple(
        (name, light.schemaType) for name, light in types.items() if light is not None and light.schemaType
    )


def _plain_types(written: Any) -> Types:
    """The types of a `__light_type` in its usual form; raises `NeedsExactDecoding` for any other form."""
    try:
        types = tuple([(name, light["schemaType"]) for name, light in written.items()])
    except (AttributeError, KeyError, TypeError):
        raise NeedsExactDecoding from None
    if not all(type(kind) is str and kind for _, kind in types):
        raise NeedsExactDecoding
    return types


FORMAT = Format(
    name="oms_default_extend",
    title="OceanBase OMS, DefaultExtendColumnType",
    writer="OceanBase Migration Service, serialization method DefaultExtendColumnType",
    reference="https://en.oceanbase.com/docs/enterprise-oms-doc-en-10000000000833999",
    update_arrives_as="one message with both images",
    keys_come_from="record_primary_key and record_primary_value, else configuration (`keys`)",
    order_comes_from="storeDataSequence (seconds and counter), else timestamp (seconds), "
    "then broker position",
    decode=decode,
    ops=frozenset({Op.INSERT, Op.UPDATE, Op.DELETE, Op.READ}),
    positions_are_unique=False,
    default_text=written_default,
    shares_envelope_with=("oms_default",),
    signature=default_extend_signature,
)
