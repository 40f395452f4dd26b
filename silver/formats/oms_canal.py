"""OceanBase OMS, Canal-compatible messages: flat messages with native JSON numbers, as OMS writes them to Kafka.

    {"database": "shop", "table": "orders", "type": "UPDATE", "es": 1609344671000, "isDdl": false, "sql": "",
     "pkNames": ["id"], "mysqlType": {"id": "int", "paid": "timestamp"},
     "data": [{"id": 1, "paid": "1606233662.012345"}], "old": [{"paid": "1606233661.000001"}]}

What the members mean is `silver/canal_wire.py`; the values are those of `silver/oms.py`:

    mysqlType                    canonical        wire
    tinyint to bigint, int64     the same         number; bigint may exceed 64 bits, the column is widened then
    decimal without digits       undeclared       number of any length
    float, double                the same         number of any length
    timestamp                    timestamp        seconds of the epoch with a fraction, as text; once whole seconds
    datetime                     timestamp_ntz    `YYYY-MM-DD HH:mm:ss[.n] [zone]`; before OMS 3.3.0 `YYYY-MM-DDTHH:mm[:ss]`
    date, time                   date, string     text
    blob, binary                 binary           base64
    bit                          decimal(20,0)    base64; a number before OMS 3.3.0

The tenant is stripped from `database`. An invalid date or time arrives as its text (`0000-00-00 00:00:00`) and keeps
it. The time `es` is all that orders messages: the broker's coordinates break ties. `sql` is documented as empty.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from framework.contracts.events import Event, Op, Token
from framework.contracts.raw import RawMessage
from framework.contracts.reasons import Reason
from silver.canal_wire import Declared, Dialect, Envelope, decode_flat
from silver.format import BeforeImage, Context, Format
from silver.oms import coded_text, declared_conversion, declared_value
from silver.wire import number_of, required


def decode(message: RawMessage, context: Context) -> Sequence[Event]:
    """The row changes of one message, or its control event."""
    return decode_flat(message, context, _DIALECT)


def _position(envelope: Envelope[Any]) -> tuple[int, ...]:
    return (required(number_of(envelope.es, "es"), Reason.MISSING_POSITION, "es"),)


def _text(declared: Declared, token: Token, text: str, zone: str) -> str:
    if declared.codec is not None:
        return coded_text(declared.name, text, declared.codec)
    return declared_value(declared.column, token, text, zone)


def _conversion(declared: Declared, kind: type, zone: str) -> Callable[[Any], str] | None:
    return declared_conversion(declared.column, kind, zone)


_DIALECT = Dialect(position_of=_position, text_of=_text, conversion_of=_conversion)

FORMAT = Format(
    name="oms_canal",
    title="OceanBase OMS, Canal",
    writer="OceanBase Migration Service, serialization method Canal",
    reference="https://en.oceanbase.com/docs/enterprise-oms-doc-en-10000000000833999",
    update_arrives_as="one message, `data` and the changed columns in `old`",
    keys_come_from="pkNames",
    order_comes_from="es (milliseconds), then broker position",
    decode=decode,
    ops=frozenset({Op.INSERT, Op.UPDATE, Op.DELETE, Op.READ}),
    before_image=BeforeImage.CHANGED,
    positions_are_unique=False,
)
