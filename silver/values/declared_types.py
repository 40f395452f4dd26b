"""The type texts of messages as canonical types. For DDL statements see `silver/values/sql_types.py`.

Messages differ from statements in five ways. A decimal without digits has unknown digits, where in a
statement it has the default ones: such a column is treated as undeclared. Some writers name numbers by their
width (`INT64`, `FLOAT32`). BOOLEAN is a type of its own, where a MySQL statement means TINYINT. Writers have
words that no SQL has: `ZONED_DATETIME`, `INTERVAL_DAY_TO_SECOND`, `BYTES`. And they use MySQL's names for
other databases. Everything else is read like the type of a statement.

    declared, in the dialect's spelling               canonical
    TINYINT to BIGINT, INT8 to INT64, UINT8 ..., YEAR the integer; unsigned ones the next wider type,
                                                      BIGINT UNSIGNED decimal(20,0)
    DECIMAL(p,s), NUMBER(p,s)                         decimal(p,s); more than 38 digits: string
    DECIMAL, NUMERIC, NUMBER, DECFLOAT without digits undeclared
    BIT                                               decimal(20,0)
    FLOAT, DOUBLE, BINARY_FLOAT, BINARY_DOUBLE        float, double
    BOOLEAN                                           boolean
    DATETIME, TIMESTAMP of Oracle and DB2             timestamp_ntz; more than six digits of a second: string
    TIMESTAMP of MySQL, WITH LOCAL TIME ZONE          timestamp
    ZONED_DATETIME, WITH TIME ZONE                    string, because the text names its zone
    text, ENUM, SET, JSON, XML, TIME, INTERVAL, ROWID string
    BLOB, BINARY, RAW, BYTES, FOR BIT DATA            binary
"""

from __future__ import annotations

import re
from functools import lru_cache

from framework.contracts.events import Token
from silver.values.sql_types import type_of_ddl

_WIDTHS = {
    **{"int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint"},
    **{
        "uint8": "tinyint unsigned",
        "uint16": "smallint unsigned",
        "uint32": "int unsigned",
        "uint64": "bigint unsigned",
    },
    **{"float32": "float", "float64": "double"},
}
_WITHOUT_DIGITS = frozenset(
    {"decimal", "numeric", "dec", "fixed", "number", "bignumeric", "bigdecimal", "decfloat"}
)
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")
_OWN_WORDS = {
    "bool": "boolean",
    "boolean": "boolean",
    "string": "string",
    "long": "string",
    "long varchar": "string",
    "long raw": "binary",
    "bytes": "binary",
    "zoned_datetime": "string",
    "zoneddatetime": "string",
    "timestamp_tz": "string",
    "timestamp_ltz": "timestamp",
    "interval_day_to_second": "string",
    "interval_year_to_month": "string",
}


@lru_cache(maxsize=4096)
def type_of_declaration(declared: str, dialect: str) -> str | None:
    """The canonical type of a message's type text; None where the column is treated as undeclared.

    `dialect` is mysql, oracle, db2, postgres or tsql. Writers also use MySQL's names for columns of other
    databases (DATETIME of an Oracle tenant), so a name that the dialect does not know is read as MySQL's. A
    name that MySQL does not know either leaves the column undeclared: gold infers the type from the values.
    """
    plain = " ".join(declared.lower().split())
    if is_open_decimal(plain):
        return None
    bare = _unsigned(plain)
    if dialect != "postgres":
        if bare in _WIDTHS:
            return type_of_ddl(plain.replace(bare, _WIDTHS[bare], 1), "mysql")
        if plain.startswith("timestamp") and plain.endswith(" with time zone"):
            return "string"
    return (
        _OWN_WORDS.get(plain)
        or type_of_ddl(plain, dialect)
        or (None if _is_open(plain, dialect) else type_of_ddl(plain, "mysql"))
    )


def _is_open(plain: str, dialect: str) -> bool:
    """Whether the dialect knows the name and leaves its digits open: Oracle's FLOAT is a decimal."""
    return dialect == "oracle" and plain.partition("(")[0].strip() == "float"


@lru_cache(maxsize=4096)
def is_open_decimal(declared: str) -> bool:
    """Whether a declared type is a decimal without digits."""
    return _unsigned(" ".join(declared.lower().split())) in _WITHOUT_DIGITS


def undeclared_token(declared: str | None, token: Token, text: str | None) -> Token:
    """The token of a value without a canonical type: the text of a decimal without digits is a number."""
    if (
        token is Token.TEXT
        and declared is not None
        and is_open_decimal(declared)
        and _NUMBER.fullmatch(text or "")
    ):
        return Token.NUMBER
    return token


def _unsigned(plain: str) -> str:
    return plain.removesuffix(" zerofill").removesuffix(" unsigned")
