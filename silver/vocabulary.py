"""Declared column types of source databases as canonical types, as messages write them.

A message that declares a decimal without digits says nothing of its digits, where a statement says the default ones:
such a column is treated as undeclared. Feeds also name integers by their width (`INT64`).
"""

from __future__ import annotations

from silver.ddl_types import canonical_type as statement_type

_WIDTHS = {"int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint"}
_WITHOUT_DIGITS = frozenset({"decimal", "numeric", "dec", "fixed", "number", "bignumeric", "bigdecimal"})


def canonical_type(declared: str, dialect: str) -> str | None:
    """The canonical type of a declared one; None where the column is to be treated as undeclared."""
    plain = declared.strip().lower().removesuffix(" zerofill").removesuffix(" unsigned").strip()
    if plain in _WITHOUT_DIGITS:
        return None
    return _WIDTHS.get(plain) or statement_type(declared, dialect)
