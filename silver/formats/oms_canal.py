"""OceanBase OMS, Canal-compatible messages: flat messages with native JSON numbers.

    {"database": "shop", "table": "orders", "type": "UPDATE", "es": 1609344671000, "isDdl": false, "sql": "",
     "pkNames": ["id"], "mysqlType": {"id": "int", "paid": "timestamp"},
     "data": [{"id": 1, "paid": "1606233662.012345"}], "old": [{"paid": "1606233661.000001"}]}

For the members see `silver/envelopes/canal.py`, for the values `silver/envelopes/oms/values.py`:

    mysqlType                    canonical        wire
    tinyint to bigint, int64     the same         number; a bigint may exceed 64 bits, then the column is
                                                  widened
    decimal without digits       undeclared       number of any length
    float, double                the same         number of any length
    timestamp                    timestamp        seconds since the epoch with a fraction, as text;
                                                  formerly whole seconds
    datetime                     timestamp_ntz    `YYYY-MM-DD HH:mm:ss[.n] [zone]`; before OMS 3.3.0
                                                  `YYYY-MM-DDTHH:mm[:ss]`
    date, time                   date, string     text
    blob, binary                 binary           base64
    bit                          decimal(20,0)    base64; a number before OMS 3.3.0

The tenant is removed from `database`. An invalid date or time comes as its text (`0000-00-00 00:00:00`) and
stays so. Only the time `es` orders messages; the broker's coordinates break ties. `sql` is documented as
empty; a statement is MySQL's, unless it has types or quotes of a tenant that speaks Oracle's SQL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from framework.contracts.events import Event, Op, Token
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.decoding import BY_PARTITION, Context, Format, number_of
from silver.decoding.cells import coded_text
from silver.envelopes.canal import ColumnDeclaration, Dialect, Envelope, decode_flat
from silver.envelopes.oms.values import (
    configured_value,
    declared_conversion,
    declared_value,
    written_default,
)
from silver.envelopes.signatures import oms_canal_signature

_OF_ORACLE = re.compile(
    r"""["']|\bN?VARCHAR2\b|\bNUMBER\s*\(|\bBINARY_(?:FLOAT|DOUBLE)\b|\bN?CLOB\b""", re.IGNORECASE
)
_TEXT_OR_COMMENT = re.compile(
    r"""(?P<kept>"(?:[^"\\]|""|\\.?)*(?:"|\Z)|`[^`]*(?:`|\Z))"""
    r"""|'(?:[^'\\]|''|\\.?)*(?:'|(?P<open>\Z))"""
    r"""|/\*.*?(?:\*/|\Z)|--[^\n]*|(?<![\w$#])\#[^\n]*""",
    re.DOTALL,
)
"""What says nothing of the SQL: a text in single quotes, a comment; `#` may be part of a name of Oracle's.

A text without an end, as MySQL reads it, is not MySQL's: in Oracle a backslash is a character of a text.
"""
_QUOTED_TEXT = re.compile(
    r"""(?:\bDEFAULT|\bCOMMENT|=)\s*"(?:[^"\\]|""|\\.)*\""""
    r"""|\b(?:ENUM|SET)\s*\((?:"(?:[^"\\]|""|\\.)*"|[^()"])*\)""",
    re.IGNORECASE | re.DOTALL,
)
"""Where MySQL has a text in double quotes; Oracle has names in them."""


def decode(message: RawMessage, context: Context) -> Sequence[Event]:
    """The row changes of one message, or its control event."""
    return decode_flat(message, context, _WITHOUT_POSITIONS if context.needs_no_position else _DIALECT)


def _position(envelope: Envelope[Any]) -> tuple[int, ...]:
    time = number_of(envelope.es, "es")
    if time is None:
        raise Malformed(Reason.MISSING_POSITION, f"es is missing: {BY_PARTITION}")
    return (time,)


def _position_or_none(envelope: Envelope[Any]) -> tuple[int, ...]:
    return (number_of(envelope.es, "es") or 0,)


def _text(declared: ColumnDeclaration, token: Token, text: str, zone: str) -> str:
    if declared.codec is not None:
        return coded_text(declared.name, text, declared.codec)
    return declared_value(declared.column, token, text, zone)


def _conversion(declared: ColumnDeclaration, kind: type, zone: str) -> Callable[[Any], str] | None:
    return declared_conversion(declared.column, kind, zone)


def _sql_of(statement: str) -> str:
    bare = _TEXT_OR_COMMENT.sub(_mark, statement)
    return "" if "`" not in bare and _OF_ORACLE.search(_QUOTED_TEXT.sub("", bare)) else "mysql"


def _mark(found: re.Match[str]) -> str:
    """What of a text or comment may tell the SQL."""
    return found["kept"] or ("'" if found["open"] is not None else " ")


_DIALECT = Dialect(
    position_of=_position,
    text_of=_text,
    conversion_of=_conversion,
    sql_of=_sql_of,
    configured_text=configured_value,
)
_WITHOUT_POSITIONS = replace(_DIALECT, position_of=_position_or_none, names_from_topic=True)

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
    positions_are_unique=False,
    default_text=written_default,
    shares_envelope_with=("canal",),
    signature=oms_canal_signature,
)
