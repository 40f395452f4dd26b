"""The column types of DDL statements as canonical types.

For messages see `silver/values/declared_types.py`.
"""

from __future__ import annotations

import re
from functools import lru_cache

MAX_DIGITS = 38
LONGEST_TYPE = 1_000
"""Characters of the longest type text that is read."""
MICROSECONDS = 6

_SHAPE = re.compile(r"([^(\[]*)(?:\(([^()]*)\)([^(]*)(?:\([^()]*\))?([^(]*))?", re.DOTALL)

_LISTS = ("enum", "set")
_STRING = "string"
_BINARY = "binary"
_WALL, _INSTANT = "timestamp_ntz", "timestamp"

_TEXTS = (
    "char character varchar text clob nchar nvarchar json xml uuid",
    "character varying|char varying|national character|national char|national varchar|nchar varying",
    "national character varying|national char varying|nchar large object|character large object|"
    "char large object",
)


def _name_set(*lists: str) -> frozenset[str]:
    return frozenset(
        name for names in lists for name in (names.split("|") if "|" in names else names.split())
    )


_STRINGS: dict[str, frozenset[str]] = {
    "mysql": _name_set(
        *_TEXTS,
        "tinytext mediumtext longtext enum set time inet4 inet6 long longchar",
        "long varchar|long char varying",
    ),
    "oracle": _name_set(
        *_TEXTS, "varchar2 nvarchar2 nclob long rowid urowid xmltype sys.xmltype", "long varchar"
    ),
    "db2": _name_set(
        *_TEXTS,
        "graphic vargraphic dbclob nclob time",
        "long varchar|long vargraphic|double-byte character large object",
    ),
    "postgres": _name_set(
        *_TEXTS,
        "jsonb interval time timetz bpchar name citext bit varbit inet cidr macaddr macaddr8 tsvector"
        " tsquery hstore ltree",
        "time without time zone|time with time zone|bit varying|int4range|int8range|numrange|tsrange|"
        "tstzrange|daterange",
    ),
    "tsql": _name_set(*_TEXTS, "ntext sysname uniqueidentifier time"),
}
_BINARIES: dict[str, frozenset[str]] = {
    "mysql": _name_set(
        "binary varbinary blob tinyblob mediumblob longblob", "long varbinary|char byte|binary varying"
    ),
    "oracle": _name_set("raw blob", "long raw"),
    "db2": _name_set("blob binary varbinary", "binary large object|binary varying"),
    "postgres": _name_set("bytea"),
    "tsql": _name_set("binary varbinary image timestamp rowversion", "binary varying"),
}
_PLAIN: dict[str, dict[str, str]] = {
    "mysql": {
        "bool": "tinyint",
        "boolean": "tinyint",
        "float4": "float",
        "float8": "double",
        "double": "double",
        "double precision": "double",
        "real": "double",
        "date": "date",
        "year": "int",
        "bit": "decimal(20,0)",
        "serial": "decimal(20,0)",
    },
    "oracle": {
        "binary_float": "float",
        "binary_double": "double",
        "date": _WALL,
        "boolean": "boolean",
        "integer": "decimal(38,0)",
        "int": "decimal(38,0)",
        "smallint": "decimal(38,0)",
    },
    "db2": {
        "smallint": "smallint",
        "int": "int",
        "integer": "int",
        "bigint": "bigint",
        "real": "float",
        "double": "double",
        "double precision": "double",
        "date": "date",
        "boolean": "boolean",
    },
    "postgres": {
        **dict.fromkeys(("smallint", "int2", "smallserial", "serial2"), "smallint"),
        **dict.fromkeys(("integer", "int", "int4", "serial", "serial4"), "int"),
        **dict.fromkeys(("bigint", "int8", "bigserial", "serial8", "oid"), "bigint"),
        "real": "float",
        "float4": "float",
        "float8": "double",
        "double precision": "double",
        "boolean": "boolean",
        "bool": "boolean",
        "date": "date",
    },
    "tsql": {
        "tinyint": "smallint",
        "smallint": "smallint",
        "int": "int",
        "integer": "int",
        "bigint": "bigint",
        "bit": "boolean",
        "money": "decimal(19,4)",
        "smallmoney": "decimal(10,4)",
        "real": "float",
        "double precision": "double",
        "date": "date",
        "datetime": _WALL,
        "smalldatetime": _WALL,
    },
}
_MYSQL_INTEGERS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("tinyint", "int1"), ("tinyint", "smallint")),
    **dict.fromkeys(("smallint", "int2"), ("smallint", "int")),
    **dict.fromkeys(("mediumint", "middleint", "int3"), ("int", "int")),
    **dict.fromkeys(("int", "integer", "int4"), ("int", "bigint")),
    **dict.fromkeys(("bigint", "int8"), ("bigint", "decimal(20,0)")),
}
_DECIMALS = frozenset({"decimal", "dec", "numeric", "fixed", "number"})
_DEFAULT_DIGITS = {"mysql": 10, "db2": 5, "tsql": 18, "oracle": 38}
_TRIED = ("mysql", "oracle", "postgres", "tsql", "db2")


def type_of_ddl(declared: str, dialect: str) -> str | None:
    """The canonical type of a statement's type text; None when it has none (a user's own type, no digits).

    For an unknown dialect (`""`), the first dialect that knows the type decides. A text that is longer than
    any type is read only if it is an enum or a set, whose list of values may be long.
    """
    if len(declared) > LONGEST_TYPE:
        return _STRING if dialect in ("mysql", "") and declared[:8].lower().startswith(_LISTS) else None
    return _canonical_type(declared, dialect)


@lru_cache(maxsize=4096)
def _canonical_type(declared: str, dialect: str) -> str | None:
    if dialect not in _STRINGS:
        return next((found for d in _TRIED if (found := type_of_ddl(declared, d)) is not None), None)
    lowered = declared.strip().lower()
    if dialect == "postgres" and (lowered.endswith("]") or lowered.endswith(" array")):
        return _STRING
    if dialect == "mysql" and lowered.startswith(_LISTS):
        return _STRING
    if dialect == "tsql":
        lowered = lowered.replace("[", "").replace("]", "")
    shape = _SHAPE.fullmatch(lowered)
    if shape is None:
        return None
    first, inside, middle, last = (part or "" for part in shape.groups())
    words = " ".join(f"{first} {middle} {last}".replace('"', "").split()).removeprefix("pg_catalog.")
    digits = [int(n) for n in re.findall(r"-?\d{1,9}", inside)][:2]
    return _mysql(words, digits) if dialect == "mysql" else _of_words(words, digits, inside, dialect)


def _of_words(words: str, digits: list[int], inside: str, dialect: str) -> str | None:
    if words.endswith("for bit data"):
        return _BINARY
    moment = _moment(words, digits) if dialect != "tsql" or words.startswith("datetime") else None
    if moment is not None:
        return moment
    if words in _BINARIES[dialect]:
        return _BINARY
    if words in _STRINGS[dialect] or words.startswith("interval"):
        return _STRING
    if words in _DECIMALS:
        return _decimal(words, digits, dialect, "*" in inside)
    if words == "float":
        return None if dialect == "oracle" else "float" if digits and digits[0] <= 24 else "double"
    return _PLAIN[dialect].get(words)


def _mysql(words: str, digits: list[int]) -> str | None:
    name, _, rest = words.partition(" ")
    if name in _MYSQL_INTEGERS:
        return _MYSQL_INTEGERS[name]["unsigned" in rest or "zerofill" in rest]
    bare = " ".join(w for w in words.split() if w not in ("unsigned", "signed", "zerofill"))
    if bare in _DECIMALS:
        return _decimal(bare, digits, "mysql", False)
    if bare == "float":
        return "double" if len(digits) == 1 and digits[0] > 24 else "float"
    if bare in ("datetime", "timestamp"):
        return _WALL if bare == "datetime" else _INSTANT
    if bare in _BINARIES["mysql"]:
        return _BINARY
    return _STRING if bare in _STRINGS["mysql"] else _PLAIN["mysql"].get(bare)


def _moment(words: str, digits: list[int]) -> str | None:
    precision = digits[0] if digits else 7 if words in ("datetime2", "datetimeoffset") else MICROSECONDS
    if words in ("timestamp", "timestamp without time zone", "datetime2"):
        return _WALL if precision <= MICROSECONDS else _STRING
    if words in (
        "timestamptz",
        "timestamp with time zone",
        "timestamp with local time zone",
        "datetimeoffset",
    ):
        return _INSTANT if precision <= MICROSECONDS else _STRING
    return None


def _decimal(word: str, digits: list[int], dialect: str, is_starred: bool) -> str | None:
    if not digits and (dialect == "postgres" or word == "number"):
        return None
    precision = digits[0] if digits else _DEFAULT_DIGITS[dialect]
    scale = digits[1] if len(digits) > 1 else 0
    if is_starred:
        precision, scale = MAX_DIGITS, digits[0] if digits else 0
    if scale < 0:
        precision, scale = precision - scale, 0
    precision = max(precision, scale, 1)
    return f"decimal({precision},{scale})" if precision <= MAX_DIGITS else _STRING
