"""How a command line names a row, and the command that shows its life. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

_WITH_TEXT = ("string", "binary")


def column_word(name: str) -> str:
    """A column as `COLUMN=VALUE` names it: in backticks if it has a `=` or begins with a backtick."""
    if "=" not in name and not name.startswith("`"):
        return name
    return "`" + name.replace("`", "``") + "`"


def row_words(key: Mapping[str, str | None]) -> str:
    """The key of a row as `forget` and `trace` take it, for people: `id=17 line=2`, `id=17 --null line`."""
    values = [f"{column_word(name)}={text}" for name, text in key.items() if text is not None]
    return " ".join([*values, *(f"--null {name}" for name, text in key.items() if text is None)])


def trace_command(
    table: str, names: Sequence[str], keys: Iterable[str] = (), kinds: Mapping[str, str] | None = None
) -> str | None:
    """`mainstem trace` for a row of a table.

    Args:
        table: The dotted name of the table.
        names: The columns of its key.
        keys: Texts for people, as `id=7, line=2`. The first one that is such a key counts;
            without one, the reader names a row.
        kinds: The types of columns. `null` is null in a column that has no text; elsewhere it may be a text.

    Returns:
        The command as a shell takes it; None for a table without columns.
    """
    if not names:
        return None
    of_key = re.compile(", ".join(f"{re.escape(name)}=(.*)" for name in names), re.DOTALL)
    found = next((match for match in map(of_key.fullmatch, keys) if match is not None), None)
    values = (
        found.groups() if found and all(map(str.isprintable, found.groups())) else ("VALUE",) * len(names)
    )
    nulls = [
        name
        for name, value in zip(names, values, strict=True)
        if value == "null" and (kinds or {}).get(name, "string") not in _WITH_TEXT
    ]
    words = [
        f"{column_word(name)}={value}" for name, value in zip(names, values, strict=True) if name not in nulls
    ]
    words += [word for name in nulls for word in ("--null", name)]
    return f"mainstem trace {shlex.join([table, *words])}"
