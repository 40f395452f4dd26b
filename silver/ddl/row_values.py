"""Texts of statements as they are kept: without the values of rows.

A feed may carry statements that change rows beside the rows themselves. They have no effect on a table, but
their literals are values of rows, which nobody could find again to remove them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from framework.contracts.ddl_actions import DML, Action, Unsupported
from silver.ddl.keywords import ROW_CHANGES

_LONGEST = 200
# Names and keywords on the first line. Where a literal ends depends on the database: nothing after it stays.
_BEGINNING = re.compile(r"(?:[^\W\d]\w*|[ \t.`])*")
_WORD = re.compile(r"\w+")
_DEFINES = frozenset({"CREATE", "ALTER", "DROP", "RENAME", "TRUNCATE", "COMMENT"})


def without_row_values(text: str | None, actions: Sequence[Action] | None) -> str | None:
    """The text; of a statement about rows only its beginning, up to the first literal, and an ellipsis.

    A text that was not understood is one of rows where it changes rows and defines nothing, has a WHERE, or
    inserts values.
    """
    if text is None or not actions or not _is_about_rows(text, actions):
        return text
    beginning = _BEGINNING.match(text.lstrip())
    kept = "" if beginning is None else beginning.group()[:_LONGEST].strip()
    return f"{kept} …".lstrip()


def _is_about_rows(text: str, actions: Sequence[Action]) -> bool:
    if all(action == DML for action in actions):
        return True
    if not all(isinstance(action, Unsupported) for action in actions):
        return False
    words = [word.upper() for word in _WORD.findall(text)]
    if words and words[0] in _DEFINES:
        return "WHERE" in words or {"INSERT", "VALUES"}.issubset(words)
    return not ROW_CHANGES.isdisjoint(words)
