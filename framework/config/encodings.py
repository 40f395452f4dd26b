"""Whether the values of a column can be written as its `encoding` says.

    type                        encoding
    binary                      base64, base64url, hex
    decimal(p,s), integers      base64, text
    timestamp, timestamp_ntz    milliseconds, microseconds, nanoseconds
    string (a time of day)      milliseconds, microseconds, nanoseconds

An encoding that is refused here would have no effect: values would be read as if it were not written, and
could become other values.
"""

from __future__ import annotations

from collections.abc import Sequence

from framework.config.document import Document, KeyPath
from framework.config.faults import Faults
from framework.config.tables import ColumnRule, Encoding, TableRule
from framework.errors import ConfigurationError

_COUNTS = (Encoding.MILLISECONDS, Encoding.MICROSECONDS, Encoding.NANOSECONDS)
_NUMBERS = (Encoding.BASE64, Encoding.TEXT)
_OF_TYPES = {
    "binary": (Encoding.BASE64, Encoding.BASE64URL, Encoding.HEX),
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), _NUMBERS),
    **dict.fromkeys(("timestamp", "timestamp_ntz", "string"), _COUNTS),
}


def check_encodings(tables: Sequence[TableRule], document: Document, faults: Faults) -> None:
    """Add a fault for each encoding that the values of its column cannot have.

    Another entry may give the type: then one of the types that are written for a column of this name must
    have the encoding.
    """
    for number, rule in enumerate(tables):
        for name, column in rule.columns.items():
            action = None if column.encoding is None else _advice(name, column, tables)
            if action is not None:
                keys: KeyPath = ("tables", number, "columns", name, "encoding")
                error = ConfigurationError(
                    "CONFIG_BAD_VALUE",
                    found=document.quoted(keys),
                    where=document.where(keys),
                    action=action,
                )
                faults.add(keys, error)


def _advice(name: str, column: ColumnRule, tables: Sequence[TableRule]) -> str | None:
    """What to write instead; None where the encoding is one of the column's type."""
    others = [rule.columns[name].type for rule in tables if name in rule.columns]
    types = dict.fromkeys(kind for kind in ([column.type] if column.type else others) if kind)
    is_known = column.decode is not None and column.encoding is Encoding.BASE64  # as formats write bytes
    if is_known or any(column.encoding in _encodings(kind) for kind in types):
        return None
    if column.decode is not None:
        return "leave `encoding` out, or write `type: binary` and the encoding of its bytes"
    if not types:
        return "write the column's `type` beside it, for instance `type: binary`"
    kind = next(iter(types))
    allowed = _encodings(kind)
    if not allowed:
        return f"leave `encoding` out: values of type {kind} have none"
    return f"values of type {kind} are written as {', '.join(allowed[:-1])} or {allowed[-1]}"


def _encodings(kind: str) -> tuple[Encoding, ...]:
    return _NUMBERS if kind.startswith("decimal") else _OF_TYPES.get(kind, ())
