"""The rows of a database and of a replica in one form: a mapping of columns to plain values."""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from pyspark.sql import SparkSession

from tests.real.columns import Column

OWN = ("_cdc_sequence", "_cdc_event_time", "_cdc_change_id", "_cdc_op")
_DAY = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(\.\d+)?(?:\+00)?")

# In SQL: one text a cell, as hexadecimal digits, NULL as a dash.
MARIADB_TEXT: Mapping[str, str] = {
    "bytes": "HEX({0})",
    "bits": "HEX(CAST({0} + 0 AS CHAR))",
    "geometry": "HEX(HEX(ST_AsWKB({0})))",
}
POSTGRES_TEXT: Mapping[str, str] = {
    "bytes": "encode({0}, 'hex')",
    "text": "encode(convert_to(format('%s', {0}), 'UTF8'), 'hex')",
    "money": "encode(convert_to({0}::numeric::text, 'UTF8'), 'hex')",
    "json": "encode(convert_to(to_json({0})::text, 'UTF8'), 'hex')",
    "hstore": "encode(convert_to(hstore_to_json({0})::text, 'UTF8'), 'hex')",
    "numbers": "encode(convert_to(to_json({0})::text, 'UTF8'), 'hex')",
    "timetz": "encode(convert_to(({0} AT TIME ZONE 'UTC')::text, 'UTF8'), 'hex')",
    "interval": "encode(convert_to((extract(epoch from {0}) * 1000000 + {1})::bigint::text, 'UTF8'), 'hex')",
}
_YEARS = (
    "(extract(year from {0}) * 12 + extract(month from {0})) * 2629800000000 - extract(epoch from "
    "date_trunc('month', {0})) * 1000000"
)


def mariadb_cell(column: Column) -> str:
    """The expression that gives a cell's text in MariaDB."""
    text = MARIADB_TEXT.get(column.kind, "HEX(CONVERT(CAST({0} AS CHAR) USING utf8mb4))")
    return f"COALESCE({text.format(f'`{column.name}`')}, '-')"


def postgres_cell(column: Column) -> str:
    """The expression that gives a cell's text in PostgreSQL."""
    name = f'"{column.name}"'
    text = POSTGRES_TEXT.get(column.kind, POSTGRES_TEXT["text"])
    return f"CASE WHEN {name} IS NULL THEN '-' ELSE {text.format(name, _YEARS.format(name))} END"


def database_row(columns: Sequence[Column], cells: Sequence[str]) -> dict[str, Any]:
    """A row of the database by the texts of its cells."""
    return {
        c.name: None if cell == "-" else FROM_TEXT[c.kind](bytes.fromhex(cell))
        for c, cell in zip(columns, cells, strict=True)
    }


def _text(data: bytes) -> str:
    return data.decode()


def _number(data: bytes) -> Decimal | None:
    return None if data == b"NaN" else Decimal(data.decode())


def _float(data: bytes) -> float:
    return float(data.decode().replace("Infinity", "inf"))


def _single(data: bytes) -> float:
    return float(struct.unpack("<f", struct.pack("<f", _float(data)))[0])


def _date(data: bytes) -> date | None:
    found = _DAY.fullmatch(data.decode())
    if found is None or found[2] == "00" or found[3] == "00":
        return None
    return date(int(found[1]), int(found[2]), int(found[3]))


def _moment(data: bytes) -> datetime | None:
    found = _MOMENT.fullmatch(data.decode())
    if found is None or found[1].startswith("0000"):
        return None
    return datetime.fromisoformat(f"{found[1]} {found[2]}{(found[3] or '.0')[:7].ljust(7, '0')}")


def _time(data: bytes) -> str:
    text = data.decode().removesuffix("+00")
    return text.rstrip("0").removesuffix(".") if "." in text else text


def _json(data: bytes) -> Any:
    return json.loads(data, parse_float=Decimal, parse_int=Decimal)


def _bits(data: bytes) -> int | bytes:
    text = data.decode()
    return int(text, 2)


def _wide_bits(data: bytes) -> bytes:
    text = data.decode()
    return int(text, 2).to_bytes((len(text) + 7) // 8, "little").rstrip(b"\0")


def _point(data: bytes) -> tuple[float, ...]:
    return tuple(float(part) for part in data.decode().strip("()").split(","))


FROM_TEXT: Mapping[str, Callable[[bytes], Any]] = {
    "number": _number,
    "float": _single,
    "double": _float,
    "bits": lambda data: int(data.decode()),
    "pg_bits": _bits,
    "pg_bits_wide": _wide_bits,
    "money": _number,
    "boolean": lambda data: data == b"t",
    "text": _text,
    "bytes": bytes,
    "date": _date,
    "wall": _moment,
    "instant": _moment,
    "time": _time,
    "timetz": _time,
    "interval": _number,
    "json": _json,
    "numbers": _json,
    "hstore": _json,
    "geometry": lambda data: data.decode().lower(),
    "point": _point,
}
"""A cell of the database as a plain value, by the column's kind."""


def replica_rows(
    spark: SparkSession, path: str, columns: Sequence[Column]
) -> tuple[list[str], list[dict[str, Any]]]:
    """The replica's columns in their order, and its rows as plain values.

    Columns that the source lacks are unchanged.
    """
    table = spark.read.format("delta").load(path).toArrow()
    kinds = {c.name: c.kind for c in columns}
    rows = [
        {name: _plain(kinds.get(name, ""), row[name]) for name in row if name not in OWN}
        for row in table.to_pylist()
    ]
    return [name for name in table.column_names if name not in OWN], rows


def _plain(kind: str, value: Any) -> Any:
    if value is None:
        return None
    if kind in ("number", "bits", "pg_bits", "money", "interval"):
        return Decimal(str(int(value) if isinstance(value, bool) else value))
    if kind in ("float", "double") and isinstance(value, str):  # numbers and NaN, without a schema
        return FROM_TEXT[kind](value.encode())
    if kind == "instant":
        return value.replace(tzinfo=None)
    if kind in ("json", "numbers", "hstore"):
        return _json(value.encode())
    if kind == "time":
        return _time(value.encode())
    if kind == "timetz":
        return _time(value.removesuffix("Z").encode())
    if kind == "pg_bits_wide":
        return bytes(value).rstrip(b"\0")
    if kind == "geometry":
        return _wkb(value)
    if kind == "point":
        found = _json(value.encode())
        return (float(found["x"]), float(found["y"]))
    return bytes(value) if kind == "bytes" else value


def _wkb(value: str) -> str:
    return base64.b64decode(json.loads(value)["wkb"]).hex()


def differences(
    wanted: Iterable[Mapping[str, Any]], found: Iterable[Mapping[str, Any]], keys: Sequence[str]
) -> list[str]:
    """Every cell that differs, and every row that one side alone has. NaN equals NaN."""
    mine = {repr([row[k] for k in keys]): row for row in wanted}
    theirs: dict[str, Mapping[str, Any]] = {}
    faults = []
    for row in found:
        key = repr([row.get(k) for k in keys])
        if key in theirs:
            faults.append(f"{key}: two rows")
        theirs[key] = row
    faults += [f"{key}: missing" for key in mine.keys() - theirs.keys()] + [
        f"{key}: too many" for key in theirs.keys() - mine.keys()
    ]
    for key in mine.keys() & theirs.keys():
        for name in mine[key]:
            one, other = mine[key][name], theirs[key].get(name)
            if one != other and not (one != one and other != other):
                faults.append(f"{key}.{name}: {one!r} in the database, {other!r} in the replica")
    return sorted(faults)
