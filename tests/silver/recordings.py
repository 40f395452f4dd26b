"""Recorded runs of real databases: the messages that Debezium wrote, and what the tables held at the end."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from framework.contracts.messages import RawMessage
from tests.real.columns import Column
from tests.real.tables import FROM_TEXT, database_row

FOLDER = Path(__file__).parents[1] / "fixtures" / "recordings"


@dataclass(frozen=True)
class Recorded:
    """A table at the end: its keys, its columns, its rows as plain values."""

    keys: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: list[dict[str, Any]]


def recorded_tables(letter: str, folder: Path = FOLDER) -> dict[str, Recorded]:
    """The tables of MariaDB (m) or PostgreSQL (p)."""
    found = {}
    for name, table in json.loads((folder / f"{letter}.tables.json").read_text(encoding="utf-8")).items():
        columns = tuple(Column(c, declared, kind, ()) for c, declared, kind in table["columns"])
        found[name] = Recorded(
            tuple(table["keys"]), columns, [database_row(columns, cells) for cells in table["rows"]]
        )
    return found


def recorded_messages(prefix: str, folder: Path = FOLDER) -> Iterator[RawMessage]:
    """The messages of one connector, or of those that share a file."""
    for line in gzip.decompress((folder / f"{prefix}.jsonl.gz").read_bytes()).decode().splitlines():
        m = json.loads(line)
        flat = m.get("headers", [])
        headers = tuple(
            (n, None if v is None else v.encode()) for n, v in zip(flat[::2], flat[1::2], strict=True)
        )
        key, value = (None if m[part] is None else m[part].encode() for part in ("key", "payload"))
        yield RawMessage("feed", m["topic"], m["partition"], m["offset"], m["ts"] * 1000, key, value, headers)


def plain(column: Column, text: str | None) -> Any:
    """A canonical text as a plain value; one that its type does not hold is None, as in a replica."""
    if text is None:
        return None
    try:
        return _PLAIN.get(column.kind, str)(text)
    except (ValueError, ArithmeticError):
        return None


def _bits(text: str) -> int:
    return int({"true": "1", "false": "0"}.get(text, text))


def _json(text: str) -> Any:
    return json.loads(text, parse_float=Decimal, parse_int=Decimal)


def _float(text: str) -> float:
    return float(text.replace("Infinity", "inf"))


def _point(text: str) -> tuple[float, ...]:
    found = _json(text)
    return (float(found["x"]), float(found["y"]))


_PLAIN: Mapping[str, Callable[[str], Any]] = {
    "number": lambda text: Decimal(_bits(text)) if text in ("true", "false") else Decimal(text),
    "money": Decimal,
    "interval": Decimal,
    "bits": _bits,
    "pg_bits": _bits,
    "pg_bits_wide": lambda text: base64.b64decode(text).rstrip(b"\0"),
    "float": lambda text: FROM_TEXT["float"](text.encode()),
    "double": _float,
    "boolean": lambda text: text == "true",
    "bytes": base64.b64decode,
    "date": date.fromisoformat,
    "wall": datetime.fromisoformat,
    "instant": lambda text: datetime.fromisoformat(text.removesuffix("Z")),
    "time": lambda text: FROM_TEXT["time"](text.encode()),
    "timetz": lambda text: FROM_TEXT["time"](text.removesuffix("Z").encode()),
    "json": _json,
    "numbers": _json,
    "hstore": _json,
    "geometry": lambda text: base64.b64decode(json.loads(text)["wkb"]).hex(),
    "point": _point,
}
