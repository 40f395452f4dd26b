"""Columns of rows without a schema block: the schema-change topic takes the place of the schema.

Columns are read as the connectors of MariaDB and MySQL write them. Where a setting of the connector decides
how, the mode is left open here, and `silver/envelopes/debezium/encoding_modes.py` finds it:

    column of the structure            written as                                   read as
    DECIMAL(p,s), NUMERIC(p,s)         in the mode of `decimals`                    decimal; a number as it is
    NUMBER(p,s) of Oracle, money       the same                                     decimal
    NUMBER of Oracle, negative scales  {"scale": ..., "value": base64}, or numbers  as the row shows it
    BIGINT UNSIGNED                    negative from 2^63 on, or base64             decimal(20,0)
    DATE                               days since the epoch, or text                date (Oracle: wall time)
    TIME                               in the mode of `times`                       time of day
    DATETIME                           in the mode of `times`                       wall time
    TIMESTAMP                          ISO 8601 with an offset                      instant
    BIT(n)                             base64, little-endian; BIT(1) a boolean      decimal(20,0)
    BINARY, VARBINARY, BLOB            in the mode of `binary`                      binary
    YEAR, integers, FLOAT, DOUBLE      numbers                                      as with a schema block
    TINYINT                            the same; a boolean by a converter           smallint, 1 or 0
    text, ENUM, SET, JSON, others      text                                         string
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from silver.decoding.table_definitions import DeclaredColumns
from silver.envelopes.connect.column_types import MAY_BE_BOOLEAN, Field
from silver.envelopes.debezium.encoding_modes import OPEN_BYTES, OPEN_DECIMAL, OPEN_TIME, OPEN_WALL

_DECLARED = re.compile(
    r"([A-Za-z][A-Za-z0-9_ ]*?)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?\s*((?:unsigned|zerofill|signed|\s)*)",
    re.IGNORECASE,
)
_LABEL = re.compile(r"'((?:[^']|'')*)'")
_INTEGERS = {
    "tinyint": "int16",
    "smallint": "int16",
    "mediumint": "int32",
    "int": "int32",
    "integer": "int32",
    "bigint": "int64",
}
_WIDER = {"smallint": "int32", "int": "int64", "integer": "int64"}
_BYTES = frozenset({"binary", "varbinary", "blob", "tinyblob", "mediumblob", "longblob"})
_TEXTS = frozenset(
    {
        "char",
        "varchar",
        "nchar",
        "nvarchar",
        "text",
        "tinytext",
        "mediumtext",
        "longtext",
        "enum",
        "set",
        "json",
        "uuid",
    }
)
_MONEY = {"money": "money(19,4)", "smallmoney": "smallmoney(10,4)"}
_TIME = "io.debezium.time."
_NAMED = {"date": _TIME + "Date", "timestamp": _TIME + "ZonedTimestamp", "year": _TIME + "Year"}


@lru_cache(maxsize=4096)
def declared_fields(
    columns: DeclaredColumns,
    *,
    is_mysql: bool = True,
    is_oracle: bool = False,
    is_sql_server: bool = False,
) -> Mapping[str, Field]:
    """The fields of columns by their declarations; columns whose type is not known here are left out.

    Other databases have types of the same names with other meanings (DATETIME, TIMESTAMP, BIT), and their
    FLOAT has 64 bits. A DATE of Oracle has a time of day, in milliseconds; its FLOAT is a NUMBER.
    """
    if is_sql_server:
        columns = tuple((name, _MONEY.get(declared.lower(), declared)) for name, declared in columns)
    found = {name: field for name, declared in columns if (field := _field(declared)) is not None}
    if is_mysql:
        return found
    common = {name: _of_others(field) for name, field in found.items() if _is_common(field)}
    if not is_oracle:
        return common
    return {name: _of_oracle(field) for name, field in common.items() if not _is_float(field)}


def _is_common(field: Field) -> bool:
    """Whether the type has the same meaning in every database but Oracle."""
    return field.type != "boolean" and field.name in (None, OPEN_DECIMAL, OPEN_BYTES, _TIME + "Date")


def _of_others(field: Field) -> Field:
    return Field(type="double") if field.type == "float" else field


def _is_float(field: Field) -> bool:
    return field.type in ("float", "double")


def _of_oracle(field: Field) -> Field:
    return _semantic_field("int64", _TIME + "Timestamp") if field.name == _TIME + "Date" else field


def _field(declared: str) -> Field | None:
    found = _DECLARED.fullmatch(declared.strip())
    if declared.lower().startswith("enum("):
        labels = (label.replace("''", "'").replace(",", "\\,") for label in _LABEL.findall(declared))
        return _semantic_field("string", "io.debezium.data.Enum", {"allowed": ",".join(labels)})
    if found is None:
        return Field(type="string") if declared.lower().startswith("set(") else None
    words = found[1].lower().split()
    name, is_unsigned = words[0], "unsigned" in words[1:] or "unsigned" in (found[4] or "").lower()
    length, scale = int(found[2] or 0), int(found[3] or 0)
    if name in ("decimal", "numeric", "dec", "fixed"):
        return _scaled(length or 10, scale)
    if name in ("number", "money", "smallmoney"):
        return _scaled(length, scale) if length and found[3] else None
    if name in _INTEGERS:
        if name == "bigint" and is_unsigned:
            return Field(type="int64", parameters={"__debezium.source.column.type": "BIGINT UNSIGNED"})
        kind = _WIDER.get(name, _INTEGERS[name]) if is_unsigned else _INTEGERS[name]
        return Field(type=kind, parameters={MAY_BE_BOOLEAN: ""} if name == "tinyint" else None)
    if name == "bit":
        return (
            Field(type="boolean")
            if length <= 1
            else _semantic_field("bytes", "io.debezium.data.Bits", {"length": str(length)})
        )
    if name in ("datetime", "time"):
        return _semantic_field(
            "int64", OPEN_WALL if name == "datetime" else OPEN_TIME, {"digits": str(length)}
        )
    if name in _NAMED:
        return _semantic_field("int32" if name == "year" else "int64", _NAMED[name])
    if name in ("float", "double", "real"):
        return Field(type="float" if name == "float" and length <= 24 else "double")
    return (
        _semantic_field("bytes", OPEN_BYTES)
        if name in _BYTES
        else Field(type="string")
        if name in _TEXTS
        else None
    )


def _scaled(precision: int, scale: int) -> Field:
    """A decimal that Oracle's connector may write as a boolean, by a converter, if it has one digit."""
    parameters = {"connect.decimal.precision": str(precision), "scale": str(scale)}
    if (precision, scale) == (1, 0):
        parameters[MAY_BE_BOOLEAN] = ""
    return _semantic_field("bytes", OPEN_DECIMAL, parameters)


def _semantic_field(kind: str, name: str, parameters: dict[str, str] | None = None) -> Field:
    return Field(type=kind, name=name, parameters=parameters)
