"""Translates names from messages: to folders, SQL identifiers, gold columns, and names for people."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

LONGEST_PART = 120
LONGEST_TABLE = 200
HISTORY_SUFFIX = "__history"

_NULL = "~"
_EMPTY = "~0"
_KEPT_WHEN_LONG = 54
_IN_CATALOG = "___"
_SAFE = re.compile(r"[A-Za-z0-9_-]")
_WINDOWS_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])", re.IGNORECASE)
_DELTA_COLUMNS = frozenset({"_change_type", "_commit_version", "_commit_timestamp"})


def replica_folder(database: str | None, schema: str | None, table: str) -> str:
    """The folder of a replica below `gold/`, unique to its name: `shop/orders`, `shop.public/orders`.

    Letters, digits, `_` and `-` stay; every other character becomes `~XX` for each UTF-8 byte, and so does a
    `_` or `-` at the start (Spark hides such folders). A null database is `~`, an empty name `~0`. A part of
    more than 120 characters becomes its first 54, `~~` and the SHA-256 of the name. Names that differ only by
    case stay apart only on case-sensitive file systems.
    """
    parent = _NULL if database is None else _encoded(database)
    if schema is not None:
        parent = f"{parent}.{_encoded(schema)}"
    return f"{parent}/{_encoded(table)}"


def history_folder(database: str | None, schema: str | None, table: str) -> str:
    """The folder of a table's history; no replica has it, not even one of a table named `orders__history`."""
    return replica_folder(database, schema, table) + HISTORY_SUFFIX


def dotted_name(database: str | None, schema: str | None, table: str | None) -> str:
    """A table's name for people: `database.table` or `database.schema.table`; null parts are left out."""
    return ".".join(present_parts(database, schema, table))


def present_parts(*parts: str | None) -> tuple[str, ...]:
    """The parts that a name has: null is no part."""
    return tuple(part for part in parts if part is not None)


def catalog_table(folder: str) -> str:
    """The name of a catalog's table for a folder, a different one for each: `shop/orders` is `shop__orders`.

    Letters, digits and single `_` stay. Three underscores introduce the rest, so that a catalog that allows
    only letters, digits and `_` takes every name: two hexadecimal digits for a byte, `n` for a null database,
    `z` for an empty name, `h` and a hash for a long one. A catalog ignores case, and so does gold.
    """
    name, history = (
        (folder[: -len(HISTORY_SUFFIX)], HISTORY_SUFFIX) if folder.endswith(HISTORY_SUFFIX) else (folder, "")
    )
    parts = [_catalog_part(part) for part in re.split(r"[/.]", name)]
    if len(parts) > 2 and parts[-1].lower() == HISTORY_SUFFIX.strip("_"):
        parts[-1] = f"{_IN_CATALOG}{ord(parts[-1][0]):02X}{parts[-1][1:]}"
    text = "__".join(parts)
    if len(text) > LONGEST_TABLE:
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
        text = f"{text[:_KEPT_WHEN_LONG].rstrip('_')}{_IN_CATALOG}h{digest}"
    return text + history


def _catalog_part(part: str) -> str:
    if part in (_NULL, _EMPTY):
        return _IN_CATALOG + ("n" if part == _NULL else "z")
    text = re.sub(r"_(?=_)|(?<=_)_|_$", "~5F", part.replace("-", "~2D"))
    return text.replace("~~", f"{_IN_CATALOG}h").replace("~", _IN_CATALOG)


def quoted(identifier: str) -> str:
    """The identifier in backquotes; backquotes inside it are doubled."""
    return "`" + identifier.replace("`", "``") + "`"


def text_literal(text: str) -> str:
    """A text as an expression of Spark SQL, whatever characters it has."""
    return f"CAST(X'{text.encode().hex()}' AS STRING)"


def in_one_case(name: str) -> str:
    """The name of a column as Delta compares it: names that differ by case alone give the same text.

    `ß` and `ss` are two names; `str.casefold` would make them one.
    """
    return name.lower()


def gold_columns(names: Sequence[str]) -> dict[str, str]:
    """The gold column of each source column of a table, in the given order.

    A reserved name gets underscores until no other column has it, ignoring case. Names that are not reserved
    never change.
    """
    taken = {in_one_case(name) for name in names if not _is_reserved(name)}
    renamed = {}
    for name in names:
        target = name
        while _is_reserved(name) and (_is_reserved(target) or in_one_case(target) in taken):
            target = f"_{target}"
        taken.add(in_one_case(target))
        renamed[name] = target
    return renamed


def _is_reserved(name: str) -> bool:
    lowered = name.lower()
    return lowered.startswith("_cdc_") or lowered in _DELTA_COLUMNS


def _encoded(part: str) -> str:
    if not part:
        return _EMPTY
    text = "".join(character if _SAFE.fullmatch(character) else _escaped(character) for character in part)
    if text[0] in "_-" or _WINDOWS_DEVICE.fullmatch(text):
        text = _escaped(text[0]) + text[1:]
    if text.lower().endswith(HISTORY_SUFFIX):
        at = len(text) - len(HISTORY_SUFFIX) + 1
        text = text[:at] + _escaped("_") + text[at + 1 :]
    if len(text) > LONGEST_PART:
        digest = hashlib.sha256(part.encode("utf-8", "surrogatepass")).hexdigest()
        return f"{text[:_KEPT_WHEN_LONG]}~~{digest}"
    return text


def _escaped(character: str) -> str:
    return "".join(f"~{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))
