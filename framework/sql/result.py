"""The rows of a query with their types, as text for a terminal and as JSON. Pure."""

from __future__ import annotations

import base64
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from framework.text.formatting import one_line, quantity
from framework.text.tables import TextTable
from framework.text.times import instant

_WIDEST = 80


@dataclass(frozen=True, slots=True)
class Answer:
    """The first `limit` rows of a query; `has_more` says whether there are others.

    Values are as JSON has them, exactly: decimals and times are text (times with their zone, in UTC), bytes
    are base64, and floats that are no number (`NaN`, `Infinity`) are text.
    """

    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[Any, ...], ...]
    has_more: bool = False


def document(answer: Answer) -> dict[str, Any]:
    """The answer as values of JSON: columns with their types, and an object for each row.

    A second column `id` becomes `id_2`.
    """
    names = distinct([name for name, _ in answer.columns])
    return {
        "columns": [
            {"name": name, "type": kind} for name, (_, kind) in zip(names, answer.columns, strict=True)
        ],
        "rows": [dict(zip(names, row, strict=True)) for row in answer.rows],
        "has_more": answer.has_more,
    }


def lines(answer: Answer) -> list[str | TextTable]:
    """The answer as a table with long values cut, and the number of its rows."""
    heads = [one_line(name, _WIDEST) for name, _ in answer.columns]
    rows = [[_cell(value) for value in row] for row in answer.rows]
    count = quantity(len(answer.rows), "row")
    return [
        TextTable(heads, rows),
        f"({count}, and there are more: --limit {10 * len(answer.rows)})"
        if answer.has_more
        else f"({count})",
    ]


def distinct(names: Iterable[str]) -> list[str]:
    """The names; a repeated one gets its number."""
    seen: Counter[str] = Counter()
    found: list[str] = []
    for name in names:
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return found


def value(found: Any, kind: Mapping[str, Any] | str) -> Any:
    """The JSON value for a collected value; `kind` is its type as Spark writes it in JSON."""
    if found is None:
        return None
    if isinstance(kind, str):
        return _plain(found, kind)
    inner = kind["type"]
    if inner == "array":
        return [value(item, kind["elementType"]) for item in found]
    if inner == "map":
        return {
            str(_plain_key(key, kind["keyType"])): value(item, kind["valueType"])
            for key, item in found.items()
        }
    if inner == "struct":
        return {
            field["name"]: value(item, field["type"])
            for field, item in zip(kind["fields"], found, strict=True)
        }
    return str(found)


def _plain_key(key: Any, kind: Mapping[str, Any] | str) -> Any:
    found = value(key, kind)
    return str(found).lower() if isinstance(found, bool) else found


def _plain(found: Any, kind: str) -> Any:
    if kind == "timestamp" and isinstance(found, datetime):
        # Spark's driver returns an instant in this machine's zone without naming it
        return instant(found).isoformat().replace("+00:00", "Z")
    if isinstance(found, bytes | bytearray):
        return base64.b64encode(found).decode()
    if isinstance(found, float) and not math.isfinite(found):
        return "NaN" if math.isnan(found) else "Infinity" if found > 0 else "-Infinity"
    if isinstance(found, bool | int | float | str):
        return found
    return (
        found.isoformat()
        if hasattr(found, "isoformat")
        else format(found, "f")
        if kind.startswith("decimal")
        else str(found)
    )


def _cell(found: Any) -> str:
    if found is None:
        return "null"
    if isinstance(found, bool):
        return str(found).lower()
    if isinstance(found, Mapping):
        return one_line(
            "{" + ", ".join(f"{name}: {_cell(item)}" for name, item in found.items()) + "}", _WIDEST
        )
    if isinstance(found, Sequence) and not isinstance(found, str):
        return one_line("[" + ", ".join(_cell(item) for item in found) + "]", _WIDEST)
    return one_line(str(found), _WIDEST)
