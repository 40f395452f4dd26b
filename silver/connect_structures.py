"""What the schema-change topic tells of columns whose rows come without a schema: the schema that is missing.

Columns are read as the connectors of MariaDB and MySQL write them by default:

    column of the structure            wire                                         read as
    DECIMAL(p,s), NUMERIC(p,s)         base64 of the unscaled value                 decimal; a number as it is
    BIGINT UNSIGNED                    a number that is negative from 2^63 on       decimal(20,0)
    DATE                               days since the epoch                         date
    TIME                               microseconds since midnight                  time of day
    DATETIME(0) to (3), (4) to (6)     milli-, microseconds                         wall time
    TIMESTAMP                          ISO 8601 with an offset                      instant
    BIT(n)                             base64, little-endian; BIT(1) a boolean      decimal(20,0)
    BINARY, VARBINARY, BLOB            base64                                       binary
    YEAR, integers, FLOAT, DOUBLE      numbers                                      as with a schema block
    text, ENUM, SET, JSON, others      text                                         string
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from silver.connect_types import Field
from silver.structures import Declared

_DECLARED = re.compile(
    r"([A-Za-z][A-Za-z0-9_ ]*?)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?\s*((?:unsigned|zerofill|signed|\s)*)", re.IGNORECASE
)
_LABEL = re.compile(r"'((?:[^']|'')*)'")
_INTEGERS = {"tinyint": "int16", "smallint": "int16", "mediumint": "int32", "int": "int32", "integer": "int32", "bigint": "int64"}
_WIDER = {"smallint": "int32", "int": "int64", "integer": "int64"}
_BYTES = frozenset({"binary", "varbinary", "blob", "tinyblob", "mediumblob", "longblob"})
_TEXTS = frozenset({"char", "varchar", "nchar", "nvarchar", "text", "tinytext", "mediumtext", "longtext", "enum", "set", "json", "uuid"})
_TIME = "io.debezium.time."
_NAMED = {"date": _TIME + "Date", "time": _TIME + "MicroTime", "timestamp": _TIME + "ZonedTimestamp", "year": _TIME + "Year"}


@lru_cache(maxsize=4096)
def declared_fields(columns: Declared) -> Mapping[str, Field]:
    """The fields of columns by their declarations; columns of types that are not known here are left out."""
    return {name: field for name, declared in columns if (field := _field(declared)) is not None}


def _field(declared: str) -> Field | None:
    found = _DECLARED.fullmatch(declared.strip())
    if declared.lower().startswith("enum("):
        labels = (label.replace("''", "'").replace(",", "\\,") for label in _LABEL.findall(declared))
        return _named("string", "io.debezium.data.Enum", {"allowed": ",".join(labels)})
    if found is None:
        return Field(type="string") if declared.lower().startswith("set(") else None
    words = found[1].lower().split()
    name, is_unsigned = words[0], "unsigned" in words[1:] or "unsigned" in (found[4] or "").lower()
    length, scale = int(found[2] or 0), int(found[3] or 0)
    if name in ("decimal", "numeric", "dec", "fixed"):
        return _named(
            "bytes", "org.apache.kafka.connect.data.Decimal", {"connect.decimal.precision": str(length or 10), "scale": str(scale)}
        )
    if name in _INTEGERS:
        if name == "bigint" and is_unsigned:
            return Field(type="int64", parameters={"__debezium.source.column.type": "BIGINT UNSIGNED"})
        return Field(type=_WIDER.get(name, _INTEGERS[name]) if is_unsigned else _INTEGERS[name])
    if name == "bit":
        return Field(type="boolean") if length <= 1 else _named("bytes", "io.debezium.data.Bits", {"length": str(length)})
    if name == "datetime":
        return _named("int64", _TIME + ("Timestamp" if length <= 3 else "MicroTimestamp"))
    if name in _NAMED:
        return _named("int32" if name == "year" else "int64", _NAMED[name])
    if name in ("float", "double", "real"):
        return Field(type="float" if name == "float" and length <= 24 else "double")
    return Field(type="bytes") if name in _BYTES else Field(type="string") if name in _TEXTS else None


def _named(kind: str, name: str, parameters: dict[str, str] | None = None) -> Field:
    return Field(type=kind, name=name, parameters=parameters)
