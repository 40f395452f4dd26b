"""The canonical types of columns, as Spark SQL writes them. Pure."""

from __future__ import annotations

import re

MAX_DIGITS = 38
"""The most digits that a decimal has."""

_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")
_PLAIN = frozenset({"boolean", *_NUMBERS, "date", "timestamp", "timestamp_ntz", "binary", "string"})
_DECIMAL = re.compile(r"decimal\(([1-9][0-9]?),(0|[1-9][0-9]?)\)", re.ASCII)


def is_canonical(kind: str) -> bool:
    """Whether the text is the name of a canonical type and nothing else."""
    if kind in _PLAIN:
        return True
    found = _DECIMAL.fullmatch(kind)
    return found is not None and int(found[2]) <= int(found[1]) <= MAX_DIGITS


def sql_type(kind: str) -> str:
    """The type as text of a statement; raises ValueError for any other text, because it would become SQL."""
    if not is_canonical(kind):
        raise ValueError(f"no canonical type: {kind[:60]!r}")
    return kind
