"""Every column type of MariaDB and PostgreSQL that Debezium sends, with extreme values as SQL literals.

`kind` says how a value of the database is compared with the replica's (see `tables.py`); `hint` is what the
configuration must say of the column where messages have no schema blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Column:
    """A column: its name, its declaration, how its values compare, and its literals (always with NULL)."""

    name: str
    declared: str
    kind: str
    literals: tuple[str, ...]
    hint: Mapping[str, Any] | None = None


def _integers(name: str, declared: str, low: int, high: int) -> Column:
    return Column(name, declared, "number", (str(low), str(high), "0", "1", str(high // 3)))


def _decimals(precision: int, scale: int) -> tuple[str, ...]:
    nines = "9" * (precision - scale) + ("." + "9" * scale if scale else "")
    return (nines, f"-{nines}", "0", "9.90", "-0.01", "1234.5")


def _decimal(name: str, declared: str, precision: int, scale: int) -> Column:
    kind = f"decimal({precision},{scale})" if precision <= 38 else "string"
    return Column(
        name,
        declared,
        "number",
        _decimals(precision, scale),
        {"type": kind, "encoding": "base64"} if precision <= 38 else None,
    )


TEXTS = (
    "''",
    "'plain'",
    "'Grüße aus Köln'",
    "'emoji 🙂 日本語'",
    "'a\tb'",
    "'quote '' and \"'",
    "'  spaces  '",
    "'null'",
    "'007'",
)
BYTES = ("''", "'00ff10'", "'e29882'", "'" + "ab" * 40 + "'")
_UNIX = {"type": "timestamp_ntz"}

MARIADB = (
    _integers("tiny_s", "TINYINT", -128, 127),
    _integers("tiny_u", "TINYINT UNSIGNED", 0, 255),
    _integers("flag", "BOOLEAN", 0, 1),
    _integers("small_s", "SMALLINT", -32768, 32767),
    _integers("small_u", "SMALLINT UNSIGNED", 0, 65535),
    _integers("medium_s", "MEDIUMINT", -8388608, 8388607),
    _integers("medium_u", "MEDIUMINT UNSIGNED", 0, 16777215),
    _integers("int_s", "INT", -2147483648, 2147483647),
    _integers("int_u", "INT UNSIGNED", 0, 4294967295),
    _integers("int_z", "INT(6) ZEROFILL", 0, 4294967295),
    _integers("big_s", "BIGINT", -9223372036854775808, 9223372036854775807),
    Column(
        "big_u",
        "BIGINT UNSIGNED",
        "number",
        ("0", "9223372036854775807", "9223372036854775808", "18446744073709551615"),
        {"type": "decimal(20,0)", "unsigned": True},
    ),
    _decimal("price", "DECIMAL(12,2)", 12, 2),
    _decimal("whole", "DECIMAL(20)", 20, 0),
    _decimal("exact", "DECIMAL(38,10)", 38, 10),
    _decimal("huge", "DECIMAL(65,30)", 65, 30),
    Column("real_4", "FLOAT", "float", ("0", "1.5", "-3.25e10", "3.4e38", "0.1")),
    Column("real_8", "DOUBLE", "double", ("0", "1e308", "-2.5e-300", "0.1", "123456789.123456789")),
    Column("bit_1", "BIT(1)", "bits", ("b'0'", "b'1'")),
    Column("bit_9", "BIT(9)", "bits", ("b'0'", "b'100000001'", "b'111111111'")),
    Column("bit_64", "BIT(64)", "bits", ("b'0'", "b'1'", f"b'{'1' * 64}'", f"b'1{'0' * 63}'"), None),
    Column("made_in", "YEAR", "number", ("1901", "2155", "2024")),
    Column(
        "born",
        "DATE",
        "date",
        ("'2024-02-29'", "'1969-12-31'", "'1000-01-01'", "'9999-12-31'", "'0000-00-00'"),
        {"type": "date"},
    ),
    Column("at_0", "TIME", "time", ("'00:00:00'", "'23:59:59'", "'838:59:59'", "'-12:30:00'")),
    Column("at_6", "TIME(6)", "time", ("'10:00:00.000001'", "'-00:00:00.5'", "'837:00:00.123456'")),
    Column(
        "wall_0",
        "DATETIME",
        "wall",
        ("'2024-02-29 10:00:00'", "'1000-01-01 00:00:00'", "'9999-12-31 23:59:59'", "'0000-00-00 00:00:00'"),
        _UNIX,
    ),
    Column(
        "wall_3", "DATETIME(3)", "wall", ("'2024-02-29 10:00:00.123'", "'1969-12-31 23:59:59.999'"), _UNIX
    ),
    Column(
        "wall_6",
        "DATETIME(6)",
        "wall",
        ("'2024-02-29 10:00:00.123456'", "'2024-03-31 02:30:00.000001'"),
        _UNIX,
    ),
    Column(
        "instant_0",
        "TIMESTAMP NULL",
        "instant",
        ("'2024-02-29 10:00:00'", "'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'"),
        {"type": "timestamp"},
    ),
    Column(
        "instant_6",
        "TIMESTAMP(6) NULL",
        "instant",
        ("'2024-10-27 01:30:00.123456'", "'2001-01-01 00:00:00.5'"),
        {"type": "timestamp"},
    ),
    Column("letters", "CHAR(20)", "text", ("''", "'abc'", "'ä🙂'")),
    Column("name", "VARCHAR(200)", "text", TEXTS),
    Column("latin", "VARCHAR(50) CHARACTER SET latin1", "text", ("'caf\u00e9'", "'plain'")),
    Column("body", "LONGTEXT", "text", (*TEXTS, "REPEAT('long ', 3000)")),
    Column(
        "fixed",
        "BINARY(4)",
        "bytes",
        ("x'00000000'", "x'ffffffff'", "x'01020304'"),
        {"type": "binary", "encoding": "base64"},
    ),
    Column(
        "var_bytes",
        "VARBINARY(100)",
        "bytes",
        tuple(f"x{b}" for b in BYTES),
        {"type": "binary", "encoding": "base64"},
    ),
    Column(
        "photo",
        "BLOB",
        "bytes",
        (*(f"x{b}" for b in BYTES), "REPEAT(x'00fe', 2000)"),
        {"type": "binary", "encoding": "base64"},
    ),
    Column("state", "ENUM('new','paid','sent''d','ü,x')", "text", ("'new'", "'paid'", "'sent''d'", "'ü,x'")),
    Column("tags", "SET('a','b','c')", "text", ("''", "'a'", "'a,c'", "'a,b,c'")),
    Column(
        "doc",
        "JSON",
        "json",
        ('\'{"a": 12345678901234567890, "b": [1.10, null]}\'', "'[]'", "'\"text\"'", "'{}'"),
    ),
    Column(
        "place", "POINT", "geometry", ("ST_GeomFromText('POINT(1 2)')", "ST_GeomFromText('POINT(-0.5 1e10)')")
    ),
    Column("area", "GEOMETRY", "geometry", ("ST_GeomFromText('LINESTRING(0 0,1 1,2 5)')",)),
    Column("token", "UUID", "text", ("'123e4567-e89b-12d3-a456-426655440001'",)),
)

UNKNOWN_ENCODINGS = frozenset({"at_6", "at_3", "bit_9", "amounts", "days", "rounded", "huge"})
"""Columns of PostgreSQL whose values do not show their encoding without a schema, and without a setting."""

POSTGRES = (
    _integers("small_s", "smallint", -32768, 32767),
    _integers("int_s", "integer", -2147483648, 2147483647),
    _integers("big_s", "bigint", -9223372036854775808, 9223372036854775807),
    _decimal("price", "numeric(12,2)", 12, 2),
    _decimal("exact", "numeric(38,10)", 38, 10),
    _decimal("huge", "numeric(50,20)", 50, 20),
    Column("rounded", "numeric(6,-2)", "number", ("123400", "-99900", "0")),
    Column(
        "open_number",
        "numeric",
        "number",
        ("0", "1.10", "-123456789012345678901234567890.123", "1000", "'NaN'"),
        {"type": "decimal(38,3)"},
    ),
    Column("real_4", "real", "float", ("0", "1.5", "'NaN'", "'Infinity'", "'-Infinity'", "0.1")),
    Column(
        "real_8",
        "double precision",
        "double",
        ("0", "1e308", "'NaN'", "'Infinity'", "'-Infinity'", "0.1", "-2.5e-300"),
    ),
    Column(
        "cash",
        "money",
        "money",
        ("'1234.56'", "'-0.01'", "'987654321.09'"),
        {"type": "decimal(20,2)", "encoding": "base64"},
    ),
    Column("flag", "boolean", "boolean", ("true", "false")),
    Column("letters", "char(5)", "text", ("''", "'ab'", "'äöü'")),
    Column("name", "varchar(200)", "text", TEXTS),
    Column("body", "text", "text", (*TEXTS, "repeat('long ', 3000)")),
    Column("folded", "citext", "text", ("'MiXeD'", "'plain'")),
    Column(
        "raw",
        "bytea",
        "bytes",
        tuple(f"decode({b}, 'hex')" for b in BYTES),
        {"type": "binary", "encoding": "base64"},
    ),
    Column(
        "born",
        "date",
        "date",
        ("'2024-02-29'", "'1969-12-31'", "'0001-01-01'", "'9999-12-31'", "'infinity'", "'-infinity'"),
        {"type": "date"},
    ),
    Column("at_6", "time", "time", ("'00:00:00'", "'23:59:59.999999'", "'24:00:00'", "'10:20:30.5'")),
    Column("at_3", "time(3)", "time", ("'00:00:00'", "'23:59:59.999'")),
    Column("at_zone", "timetz", "timetz", ("'10:20:30+02'", "'23:59:59.999999-05'")),
    Column(
        "wall_6",
        "timestamp",
        "wall",
        (
            "'2024-02-29 10:00:00.123456'",
            "'1965-12-31 23:59:59'",
            "'9999-12-31 23:59:59.999999'",
            "'infinity'",
            "'-infinity'",
        ),
        _UNIX,
    ),
    Column("wall_3", "timestamp(3)", "wall", ("'2024-02-29 10:00:00.123'", "'2024-03-31 02:30:00'"), _UNIX),
    Column(
        "instant_6",
        "timestamptz",
        "instant",
        ("'2024-02-29 10:00:00.123456+02'", "'1883-01-01 00:00:00+00'", "'infinity'", "'-infinity'"),
        {"type": "timestamp"},
    ),
    Column("span", "interval", "interval", ("'1 day 02:03:04.5'", "'-3 hours'", "'0'", "'1 year 2 mons'")),
    Column("token", "uuid", "text", ("'123e4567-e89b-12d3-a456-426655440001'",)),
    Column("doc", "json", "text", ('\'{"a":  1.10, "a": 2}\'', "'[12345678901234567890]'", "'null'")),
    Column(
        "doc_b",
        "jsonb",
        "json",
        ('\'{"b": 12345678901234567890.10, "a": null}\'', "'[]'", "'\"text\"'", "'1'"),
    ),
    Column("page", "xml", "text", ("'<a b=\"1\">ü</a>'",)),
    Column("ip", "inet", "text", ("'10.0.0.1'", "'10.1.0.0/16'", "'2001:db8::1'")),
    Column("net", "cidr", "text", ("'10.0.0.0/8'", "'2001:db8::/32'")),
    Column("mac", "macaddr", "text", ("'08:00:2b:01:02:03'",)),
    Column("bit_1", "bit(1)", "pg_bits", ("B'0'", "B'1'")),
    Column("bit_9", "bit(9)", "pg_bits", ("B'000000000'", "B'100000001'")),
    Column(
        "bit_var",
        "bit varying(70)",
        "pg_bits_wide",
        ("B'1'", "B'101'", f"B'{'1' * 70}'"),
        {"type": "binary", "encoding": "base64"},
    ),
    Column("place", "point", "point", ("'(1,2)'", "'(-0.5,1e10)'")),
    Column("few", "int4range", "text", ("'[1,5)'", "'empty'", "'(,3]'")),
    Column("span_of", "tstzrange", "text", ("'[2024-01-01 00:00+00, 2024-01-02 00:00+00)'",)),
    Column("mood", "mood", "text", ("'sad'", "'o''k'", "'happy'")),
    Column(
        "positive",
        "positive_price",
        "number",
        ("1.10", "99999.99"),
        {"type": "decimal(8,2)", "encoding": "base64"},
    ),
    Column("numbers", "integer[]", "json", ("'{}'", "'{1,2,NULL}'", "'{-2147483648}'")),
    Column("amounts", "numeric(10,2)[]", "numbers", ("'{1.10,-2.00,NULL}'", "'{}'")),
    Column("days", "date[]", "json", ("'{2024-02-29,NULL}'",)),
    Column("words", "text[]", "json", ("'{}'", '\'{a,"b c",NULL,"ü\\""}\'')),
    Column("pairs", "hstore", "hstore", ("'a=>1, b=>NULL'", "''", '\'"k k"=>"v\\"v"\'')),
    Column("branch", "ltree", "text", ("'a.b.c'", "''")),
    Column("object", "oid", "number", ("0", "4294967295")),
)
