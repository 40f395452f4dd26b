"""Each vendor's type names: source type text, canonical type, Delta type. One row a name."""

from __future__ import annotations

import re

import pytest
from deltalake.schema import PrimitiveType
from msgspec import Raw

from framework.contracts.events import Column, Token
from silver.envelopes.connect.column_types import Field, column_of
from silver.envelopes.oms.values import declared_value
from silver.formats import datahub_blob
from silver.values.declared_types import is_open_decimal, type_of_declaration, undeclared_token

DELTA = {
    **{
        "tinyint": "byte",
        "smallint": "short",
        "int": "integer",
        "bigint": "long",
        "float": "float",
        "double": "double",
    },
    **{"boolean": "boolean", "date": "date", "timestamp": "timestamp", "timestamp_ntz": "timestamp_ntz"},
    **{"binary": "binary", "string": "string"},
}
OPEN = None
"""The declaration leaves the type open: the values decide."""

MYSQL = {
    "TINYINT": "tinyint",
    "SMALLINT": "smallint",
    "MEDIUMINT": "int",
    "INT": "int",
    "INTEGER": "int",
    "BIGINT": "bigint",
    "int(11)": "int",
    "bigint(20) unsigned": "decimal(20,0)",
    "INT UNSIGNED ZEROFILL": "bigint",
    "YEAR": "int",
    "BOOL": "boolean",
    "BOOLEAN": "boolean",
    "BIT": "decimal(20,0)",
    "bit(64)": "decimal(20,0)",
    "DECIMAL": OPEN,
    "NUMERIC": OPEN,
    "decimal(10,2)": "decimal(10,2)",
    "decimal(65,30)": "string",
    "FLOAT": "float",
    "DOUBLE": "double",
    "CHAR": "string",
    "VARCHAR": "string",
    "varchar(20)": "string",
    "TINYTEXT": "string",
    "TEXT": "string",
    "MEDIUMTEXT": "string",
    "LONGTEXT": "string",
    "ENUM": "string",
    "enum('a','b')": "string",
    "SET": "string",
    "JSON": "string",
    "TINYBLOB": "binary",
    "BLOB": "binary",
    "MEDIUMBLOB": "binary",
    "LONGBLOB": "binary",
    "BINARY": "binary",
    "VARBINARY": "binary",
    "DATE": "date",
    "TIME": "string",
    "DATETIME": "timestamp_ntz",
    "datetime(6)": "timestamp_ntz",
    "TIMESTAMP": "timestamp",
    "GEOMETRY": OPEN,
}
OMS_OWN = {
    "INT8": "tinyint",
    "INT16": "smallint",
    "INT32": "int",
    "INT64": "bigint",
    "UINT64": "decimal(20,0)",
    "FLOAT32": "float",
    "FLOAT64": "double",
    "STRING": "string",
    "BYTES": "binary",
    "ZONED_DATETIME": "string",
    "INTERVAL_DAY_TO_SECOND": "string",
    "INTERVAL_YEAR_TO_MONTH": "string",
}
ORACLE = {
    "NUMBER": OPEN,
    "NUMBER(10)": "decimal(10,0)",
    "NUMBER(10,2)": "decimal(10,2)",
    "NUMBER(38,-2)": "string",
    "FLOAT": OPEN,
    "FLOAT(126)": OPEN,
    "BINARY_FLOAT": "float",
    "BINARY_DOUBLE": "double",
    "CHAR": "string",
    "NCHAR": "string",
    "VARCHAR2": "string",
    "NVARCHAR2": "string",
    "VARCHAR": "string",
    "CLOB": "string",
    "NCLOB": "string",
    "LONG": "string",
    "ROWID": "string",
    "UROWID": "string",
    "XMLTYPE": "string",
    "BLOB": "binary",
    "RAW": "binary",
    "LONG RAW": "binary",
    "DATE": "timestamp_ntz",
    "TIMESTAMP": "timestamp_ntz",
    "TIMESTAMP(9)": "string",
    "TIMESTAMP(6) WITH TIME ZONE": "string",
    "TIMESTAMP WITH TIME ZONE": "string",
    "TIMESTAMP WITH LOCAL TIME ZONE": "timestamp",
    "TIMESTAMP_TZ": "string",
    "TIMESTAMP_LTZ": "timestamp",
    "INTERVAL YEAR TO MONTH": "string",
    "INTERVAL DAY(2) TO SECOND(6)": "string",
    "DATETIME": "timestamp_ntz",
    "TINYINT": "tinyint",
    "BIGINT": "bigint",
    "DOUBLE": "double",
    "TIME": "string",
}
DB2 = {
    "SMALLINT": "smallint",
    "INTEGER": "int",
    "BIGINT": "bigint",
    "DECIMAL": OPEN,
    "DECIMAL(10,2)": "decimal(10,2)",
    "NUMERIC(31,31)": "decimal(31,31)",
    "DECFLOAT": OPEN,
    "REAL": "float",
    "FLOAT": "double",
    "DOUBLE": "double",
    "CHAR": "string",
    "VARCHAR": "string",
    "LONG VARCHAR": "string",
    "CLOB": "string",
    "GRAPHIC": "string",
    "VARGRAPHIC": "string",
    "LONG VARGRAPHIC": "string",
    "DBCLOB": "string",
    "XML": "string",
    "CHAR(8) FOR BIT DATA": "binary",
    "VARCHAR(8) FOR BIT DATA": "binary",
    "BINARY": "binary",
    "BLOB": "binary",
    "DATE": "date",
    "TIME": "string",
    "TIMESTAMP": "timestamp_ntz",
    "TIMESTAMP(12)": "string",
    "BOOLEAN": "boolean",
    "DATETIME": "timestamp_ntz",
    "TINYINT": "tinyint",
}
NAMES = [
    (dialect, name, kind)
    for dialect, table in (("mysql", MYSQL | OMS_OWN), ("oracle", ORACLE | OMS_OWN), ("db2", DB2 | OMS_OWN))
    for name, kind in table.items()
]


def delta_type(kind: str) -> str:
    """What the Delta log says of a column of this canonical type."""
    return kind if kind.startswith("decimal(") else DELTA[kind]


@pytest.mark.parametrize(("dialect", "name", "kind"), NAMES)
def test_a_type_of_a_table_of_oms_is_a_canonical_type(dialect: str, name: str, kind: str | None) -> None:
    assert type_of_declaration(name, dialect) == kind
    assert type_of_declaration(name.lower(), dialect) == type_of_declaration(name.upper(), dialect) == kind


@pytest.mark.parametrize("kind", sorted({kind for _, _, kind in NAMES if kind is not None}))
def test_a_canonical_type_is_a_delta_type(kind: str) -> None:
    assert PrimitiveType(delta_type(kind)).type == delta_type(kind)
    digits = re.fullmatch(r"decimal\((\d+),(\d+)\)", kind)
    assert digits is None or int(digits[2]) <= int(digits[1]) <= 38


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("BOOLEAN", "boolean"),
        ("LONG", "bigint"),
        ("DOUBLE", "double"),
        ("STRING", "string"),
        ("DATE", "timestamp"),
        ("BYTES", "binary"),
    ],
)
def test_the_six_types_of_datahub(name: str, kind: str) -> None:
    schema = b'{"dataColumn":[{"name":"c","type":"%b"}]}' % name.encode()
    assert datahub_blob._schema_of(Raw(schema)).columns == {"c": Column(type=kind, declared=name)}
    assert PrimitiveType(delta_type(kind))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("int8", "tinyint"),
        ("int16", "smallint"),
        ("int32", "int"),
        ("int64", "bigint"),
        ("float", "float"),
        ("float32", "float"),
        ("double", "double"),
        ("float64", "double"),
        ("boolean", "boolean"),
        ("string", "string"),
        ("bytes", "binary"),
        ("struct", "string"),
        ("array", "string"),
        ("map", "string"),
    ],
)
def test_the_types_of_lindorm_and_arcion(name: str, kind: str) -> None:
    assert column_of(Field(type=name)) == Column(type=kind, declared=name)
    assert PrimitiveType(delta_type(kind))


@pytest.mark.parametrize(
    ("declared", "token", "wire", "text"),
    [
        # whole numbers, also beyond what is declared
        ("BIGINT", Token.NUMBER, "10223372036854775806", "10223372036854775806"),
        ("INT64", Token.TEXT, "18446744073709551615", "18446744073709551615"),
        ("TINYINT", Token.NUMBER, "-128", "-128"),
        ("YEAR", Token.NUMBER, "2024", "2024"),
        ("YEAR", Token.TEXT, "0000", "0"),
        ("BOOLEAN", Token.NUMBER, "1", "true"),
        ("BOOLEAN", Token.NUMBER, "0", "false"),
        # decimals and doubles: no digit is lost
        ("DECIMAL(12,2)", Token.NUMBER, "9.90", "9.90"),
        ("DECIMAL(12,2)", Token.NUMBER, "1.5E+3", "1500"),
        ("DOUBLE", Token.NUMBER, "9.99E-308", "9.99E-308"),
        ("DECIMAL(65,30)", Token.NUMBER, "1" * 65, "1" * 65),
        # BIT is base64 since OMS 3.3.0, and was a number
        ("BIT", Token.TEXT, "AQI=", "258"),
        ("BIT(64)", Token.TEXT, "//////////8=", "18446744073709551615"),
        ("BIT", Token.NUMBER, "258", "258"),
        # TIMESTAMP is seconds with a fraction since OMS 3.3.0, and was whole seconds
        ("TIMESTAMP", Token.TEXT, "1606233662.012345", "2020-11-24T16:01:02.012345Z"),
        ("TIMESTAMP", Token.TEXT, "1606233662.123456789", "2020-11-24T16:01:02.123456789Z"),
        ("TIMESTAMP", Token.NUMBER, "1606233662", "2020-11-24T16:01:02Z"),
        ("TIMESTAMP", Token.TEXT, "-1.5", "1969-12-31T23:59:58.5Z"),
        ("TIMESTAMP", Token.TEXT, "0000-00-00 00:00:00", "0000-00-00 00:00:00"),
        # DATETIME has a space, a fraction and a zone since OMS 3.3.0, and had a T
        ("DATETIME", Token.TEXT, "2020-11-25 00:01:02", "2020-11-25T00:01:02"),
        ("DATETIME", Token.TEXT, "2020-11-25 00:01:02.5", "2020-11-25T00:01:02.5"),
        ("DATETIME", Token.TEXT, "2020-11-25 00:01:02.012345 Asia/Shanghai", "2020-11-25T00:01:02.012345"),
        ("DATETIME", Token.TEXT, "2020-11-25 00:01:02 +08:00", "2020-11-25T00:01:02"),
        ("DATETIME", Token.TEXT, "2020-11-25T00:01", "2020-11-25T00:01:00"),
        ("DATETIME", Token.TEXT, "2020-11-25T00:01:02", "2020-11-25T00:01:02"),
        ("DATETIME", Token.TEXT, "2020-02-31 00:01:02", "2020-02-31 00:01:02"),
        ("DATETIME", Token.NUMBER, "1590315269000.123456789", "2020-05-24T18:14:29.123456789"),
        ("DATETIME", Token.NUMBER, "1590315269000", "2020-05-24T18:14:29.000"),
        ("DATE", Token.TEXT, "2020-11-25", "2020-11-25"),
        ("DATE", Token.TEXT, "0000-00-00", "0000-00-00"),
        # texts stay what they are
        ("TIME", Token.TEXT, "838:59:59.123", "838:59:59.123"),
        ("TIME", Token.TEXT, "-00:00:01", "-00:00:01"),
        (
            "ZONED_DATETIME",
            Token.TEXT,
            "2020-11-25 00:01:02.012345 Asia/Shanghai",
            "2020-11-25 00:01:02.012345 Asia/Shanghai",
        ),
        ("INTERVAL_DAY_TO_SECOND", Token.TEXT, "INTERVAL '3' DAY", "INTERVAL '3' DAY"),
        ("VARCHAR", Token.TEXT, "007", "007"),
        ("BLOB", Token.TEXT, "aGVsbG8=", "aGVsbG8="),
    ],
)
def test_a_value_of_a_declared_column_is_canonical_text(
    declared: str, token: Token, wire: str, text: str
) -> None:
    column = Column(type=type_of_declaration(declared, "mysql"), declared=declared)
    assert declared_value(column, token, wire, "Asia/Shanghai") == text


def test_an_open_decimal_as_text_counts_as_a_number() -> None:
    assert is_open_decimal("Decimal")
    assert is_open_decimal("NUMBER")
    assert not is_open_decimal("decimal(10,2)")
    assert undeclared_token("DECIMAL", Token.TEXT, "9.90") is Token.NUMBER
    assert undeclared_token("DECIMAL", Token.TEXT, "9,90") is Token.TEXT
    assert undeclared_token("VARCHAR", Token.TEXT, "9.90") is Token.TEXT
    assert undeclared_token(None, Token.TEXT, "007") is Token.TEXT
