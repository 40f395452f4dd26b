"""OceanBase OMS, Default messages: both images as plain JSON, without types.

    {"prevStruct": null, "postStruct": {"id": 1, "price": 9.90, "paid": "1606233662.012345"},
     "allMetaData": {"record_primary_key": "id", "record_primary_value": "1", "dbType": "OB_MYSQL",
                     "storeDataSequence": 160934467100001, "table_name": "orders", "db": "tenant_1.shop",
                     "timestamp": "1609344671", "checkpoint": null, "source_identity": null},
     "recordType": "INSERT"}

    recordType   prevStruct   postStruct        becomes
    INSERT       -            the row           insert
    UPDATE       the row      the row           update
    DELETE       the row      -                 delete
    ROW          -            the row           read: a row of the full copy, without a position
    DDL          either one: {"ddl": "..."}     ddl
    HEARTBEAT    -            -                 heartbeat

For the envelope see `silver/envelopes/oms/records.py`. Nothing declares the type of a text: times, dates and
base64 stay the text that was sent, and gold infers types from the values, numbers exactly. A column that the
configuration types is read as that type, see `silver/envelopes/configured_columns.py`. `dbType` (MYSQL,
OCEANBASE in old releases, OB_MYSQL) gives the SQL dialect of a DDL statement. The vendor documents
`{tenant}.{database}` for OceanBase; two tenants with databases of the same name are two sources.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from typing import Any

from framework.contracts.events import Event, Op
from framework.contracts.messages import RawMessage
from silver.decoding import Context, Format, dual_decoder
from silver.envelopes.oms.records import Record, decode_record
from silver.envelopes.oms.values import Types, without_zeros, written_default
from silver.envelopes.signatures import default_signature
from silver.values.canonical import micros_of_instant, wall_as_written

_BIT = re.compile(r"bit\s*(?:\(\s*([0-9]{1,3}))?", re.IGNORECASE)
_BITS_OF_BYTE = 8

_RECORD = dual_decoder(Record)


def decode(message: RawMessage, context: Context) -> Sequence[Event]:
    """The change or control event of one Default record."""
    return decode_record(_RECORD, message, context, _undeclared)


def _undeclared(cells: dict[str, Any]) -> tuple[dict[str, Any], Types]:
    return cells, ()


def column_type(kind: str) -> str | None:
    """The type that a statement's column has in rows; None where OMS writes its values differently."""
    return None if kind in ("timestamp", "timestamp_ntz", "decimal(20,0)") else kind


def default_text(text: str, kind: str, declared: str) -> str | None:
    """A default as OMS writes it: a DATETIME with a space, a TIMESTAMP in seconds, a BIT in base64.

    None where the vendor's texts leave it open: a BIT of several bytes, a wall time of other types.
    """
    if kind == "timestamp" and (micros := micros_of_instant(text)) is not None:
        return without_zeros(f"{micros // 1_000_000}.{micros % 1_000_000:06}")
    if kind == "timestamp_ntz" and wall_as_written(text) is not None:
        return without_zeros(text.replace("T", " ")) if declared.lower().startswith("datetime") else None
    bits = _BIT.match(declared) if kind == "decimal(20,0)" else None
    if bits is not None and text.isdigit():
        is_byte = int(bits[1] or 1) <= _BITS_OF_BYTE and int(text) < 1 << _BITS_OF_BYTE
        return base64.b64encode(bytes([int(text)])).decode() if is_byte else None
    return written_default(text, kind, declared)


FORMAT = Format(
    name="oms_default",
    title="OceanBase OMS, Default",
    writer="OceanBase Migration Service, serialization method Default",
    reference="https://en.oceanbase.com/docs/enterprise-oms-doc-en-10000000000833999",
    update_arrives_as="one message with both images",
    keys_come_from="record_primary_key and record_primary_value, else configuration (`keys`)",
    order_comes_from="storeDataSequence (seconds and counter), else timestamp (seconds), "
    "then broker position",
    decode=decode,
    ops=frozenset({Op.INSERT, Op.UPDATE, Op.DELETE, Op.READ}),
    positions_are_unique=False,
    column_type=column_type,
    default_text=default_text,
    shares_envelope_with=("oms_default_extend",),
    signature=default_signature,
)
