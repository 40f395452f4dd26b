"""Declared column types of source databases as canonical types, as messages write them.

Messages differ from statements in four ways. A decimal without digits says nothing of its digits, where a statement
says the default ones: such a column is treated as undeclared. Integers also go by their width (`INT64`). BOOLEAN is a
type of its own, where a MySQL statement means TINYINT. And writers have words that no SQL has: `ZONED_DATETIME`,
`INTERVAL_DAY_TO_SECOND`, `BYTES`. Everything else is the statements' own table (`silver/ddl_types.py`).

    declared, in the dialect's spelling               canonical
    TINYINT to BIGINT, INT8 to INT64, YEAR            the integer; unsigned ones the next wider, BIGINT UNSIGNED decimal(20,0)
    DECIMAL(p,s), NUMBER(p,s)                         decimal(p,s); more than 38 digits: string
    DECIMAL, NUMERIC, NUMBER, DECFLOAT without digits undeclared
    BIT                                               decimal(20,0)
    FLOAT, DOUBLE, BINARY_FLOAT, BINARY_DOUBLE        float, double
    BOOLEAN                                           boolean
    DATETIME, TIMESTAMP of Oracle and DB2             timestamp_ntz; with more than six digits of a second: string
    TIMESTAMP of MySQL, WITH LOCAL TIME ZONE          timestamp
    ZONED_DATETIME, WITH TIME ZONE                    string, for the text names its zone
    text, ENUM, SET, JSON, XML, TIME, INTERVAL, ROWID string
    BLOB, BINARY, RAW, BYTES, FOR BIT DATA            binary
"""

from __future__ import annotations

from functools import lru_cache

from silver.ddl_types import canonical_type as statement_type

_WIDTHS = {"int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint"}
_WITHOUT_DIGITS = frozenset({"decimal", "numeric", "dec", "fixed", "number", "bignumeric", "bigdecimal", "decfloat"})
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
def canonical_type(declared: str, dialect: str) -> str | None:
    """The canonical type of a declared one; None where the column is to be treated as undeclared.

    `dialect` is mysql, oracle, db2, postgres or tsql. A name that the dialect does not know is undeclared too: the
    values tell.
    """
    plain = " ".join(declared.lower().split())
    bare = plain.removesuffix(" zerofill").removesuffix(" unsigned")
    if bare in _WITHOUT_DIGITS:
        return None
    if dialect != "postgres":
        if bare in _WIDTHS:
            return statement_type(plain.replace(bare, _WIDTHS[bare], 1), "mysql")
        if plain.startswith("timestamp") and plain.endswith(" with time zone"):
            return "string"
    return _OWN_WORDS.get(plain) or statement_type(plain, dialect)
