"""Alibaba Canal's flat messages, and TiCDC's canal-json: every value as text, several rows a message.

    {"database": "shop", "table": "orders", "type": "UPDATE", "es": 1609344671000, "id": 7, "isDdl": false,
     "sql": "", "pkNames": ["id"], "mysqlType": {"id": "int(11)", "paid": "timestamp"},
     "data": [{"id": "1", "paid": "2020-12-30 16:11:11"}], "old": [{"paid": null}]}

For the members see `silver/envelopes/canal.py`. Values are the server's own texts:

    mysqlType                        canonical       wire
    int(11), bigint(20) unsigned     int, decimal(20,0)
    decimal(12,2)                    the same
    timestamp                        timestamp       wall time in the source's zone (`timezone`)
    datetime(6)                      timestamp_ntz   wall time
    date, time, json, text           date, string    as it is
    blob, binary                     binary          ISO-8859-1: a character is a byte; `decode` makes it text
    geometry, point, polygon ...     binary          the same; four bytes of SRID, then WKB
    enum('a','b'), set('a','b')      string          the number of the member; in a set the sum of the bits

Sinks of Flink, RisingWave and SeaTunnel write the same messages without `es`, some of them without names.
With `order: partition` for the source, the partition orders such messages, and the topic
(`[prefix.][database.]table`) names the table.

TiCDC declares `enum` and `set` without their members, so the number stays. Canal doubles a backtick inside a
name. `es` is seconds times 1000; for a long statement it is the time of its start. The order is `es`, TiCDC's
commit timestamp (0 for Canal), then the broker's coordinates. `id` numbers the batches of each Canal process
from 1: it orders nothing and identifies nothing. The message key is null. TiCDC's heartbeats are
TIDB_WATERMARK.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from framework.contracts.events import Event, Op, Token
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.decoding import BY_PARTITION, Context, Format, number_of, read_non_null_cell
from silver.envelopes.canal import ColumnDeclaration, Dialect, Envelope, decode_flat
from silver.envelopes.signatures import canal_signature
from silver.values.canonical import INTEGERS, declared_text, instant_of_wall, wall_of_text

_MEMBERS = re.compile(r"(?:enum|set)\s*\((.*)\)", re.IGNORECASE | re.DOTALL)
_MEMBER = re.compile(r"'((?:[^'\\]|''|\\.)*)'", re.DOTALL)
_NUMBER = re.compile(r"[0-9]{1,20}")
_GEOMETRIES = frozenset(
    {
        "geometry",
        "point",
        "linestring",
        "polygon",
        "multipoint",
        "multilinestring",
        "multipolygon",
        "geometrycollection",
        "geomcollection",
    }
)


def decode(message: RawMessage, context: Context) -> Sequence[Event]:
    """The row changes of one message, or its control event."""
    return decode_flat(message, context, _WITHOUT_POSITIONS if context.needs_no_position else _DIALECT)


def _position(envelope: Envelope[Any]) -> tuple[int, ...]:
    time = number_of(envelope.es, "es")
    if time is None:
        raise Malformed(Reason.MISSING_POSITION, f"es is missing: {BY_PARTITION}")
    return _place(envelope, time)


def _position_or_none(envelope: Envelope[Any]) -> tuple[int, ...]:
    return _place(envelope, number_of(envelope.es, "es") or 0)


def _place(envelope: Envelope[Any], time: int) -> tuple[int, ...]:
    commit = watermark = None
    if envelope.tidb is not None:
        commit, watermark = (
            number_of(envelope.tidb.commitTs, "_tidb.commitTs"),
            number_of(envelope.tidb.watermarkTs, "_tidb.watermarkTs"),
        )
    return (time, commit or watermark or 0)


def _text(declared: ColumnDeclaration, token: Token, text: str, zone: str) -> str:
    kind = declared.column.type or "string"
    if declared.codec is not None:
        return _decoded(text, declared.codec)
    if kind == "timestamp":
        return instant_of_wall(text, zone)
    if kind == "timestamp_ntz":
        return wall_of_text(text)
    if kind == "binary":
        return _base64(text)
    if kind == "string":
        return _member(declared.column.declared or "", text)
    return declared_text(kind, token, text) or text


def _conversion(declared: ColumnDeclaration, kind: type, zone: str) -> Callable[[Any], str] | None:
    """Every value is a text; `_text` in short for the types that need no more than that."""
    if kind is type(None):
        return None
    type_name = declared.column.type or "string"
    if kind is not str:
        return lambda cell: _text(declared, *read_non_null_cell(cell), zone)
    if type_name in ("float", "double", "date") or (
        type_name == "string" and _members(declared.column.declared or "") is None
    ):
        return None
    if type_name in INTEGERS or type_name.startswith("decimal"):
        return lambda text: (
            text if text.isdigit() and text[0] != "0" else declared_text(type_name, Token.TEXT, text) or text
        )
    return lambda text: _text(declared, Token.TEXT, text, zone)


def _base64(text: str) -> str:
    try:
        return base64.b64encode(text.encode("latin-1")).decode("ascii")
    except UnicodeEncodeError:
        return text


def _decoded(text: str, codec: str) -> str:
    try:
        return text.encode("latin-1").decode(codec)
    except (ValueError, LookupError):
        raise Malformed(Reason.ENCODING, f"a value is not {codec} text in ISO-8859-1 characters") from None


def _member(declared: str, text: str) -> str:
    """The member of an enum, or those of a set joined by commas, that a number stands for.

    A text that is no such number is returned unchanged.
    """
    members = _members(declared)
    if members is None or not _NUMBER.fullmatch(text):
        return text
    number = int(text)
    if declared[:4].lower() == "enum":
        return "" if number == 0 else members[number - 1] if number <= len(members) else text
    chosen = [member for bit, member in enumerate(members) if number >> bit & 1]
    return text if number >> len(members) else ",".join(chosen)


@lru_cache(maxsize=1024)
def _members(declared: str) -> tuple[str, ...] | None:
    found = _MEMBERS.match(declared)
    return (
        None
        if found is None
        else tuple(re.sub(r"''|\\(.)", lambda m: m[1] or "'", member) for member in _MEMBER.findall(found[1]))
    )


def _name(written: str) -> str:
    return written.replace("``", "`")


_DIALECT = Dialect(
    position_of=_position,
    text_of=_text,
    conversion_of=_conversion,
    name_of=_name,
    sql_of=lambda _: "mysql",
    bytes_types=_GEOMETRIES,
)
_WITHOUT_POSITIONS = replace(_DIALECT, position_of=_position_or_none, names_from_topic=True)

FORMAT = Format(
    name="canal",
    title="Alibaba Canal",
    writer="Alibaba Canal, FlatMessage; TiCDC, canal-json",
    reference="https://github.com/alibaba/canal/wiki/Canal-Kafka-RocketMQ-QuickStart",
    update_arrives_as="one message, `data` and the changed columns in `old`, many rows",
    keys_come_from="pkNames",
    order_comes_from="es (seconds in Canal), then broker position",
    decode=decode,
    ops=frozenset({Op.INSERT, Op.UPDATE, Op.DELETE, Op.READ}),
    positions_are_unique=False,
    shares_envelope_with=("oms_canal",),
    signature=canal_signature,
)
