"""The comments of a table and its columns, as the source's statements give them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from framework.naming import in_one_case
from framework.text.formatting import one_line
from gold.schema.columns import ColumnNaming
from gold.schema.lineage import Lineage

_LONGEST = 1_000
"""How many characters of a comment gold keeps: catalogs have limits of their own."""


@dataclass(frozen=True, slots=True)
class Comments:
    """What the source says of a table and of its columns, by their current names."""

    table: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)


def comments_of(lineage: Lineage, namings: Sequence[ColumnNaming], columns: Iterable[str]) -> Comments:
    """The comments after all statements.

    Args:
        lineage: The table's lineage.
        namings: How the columns of its rows are named today.
        columns: The current names of its columns. A statement may spell them in another case.
    """
    if not lineage.comments:
        return Comments()
    spelling = {in_one_case(name): name for name in columns}
    table, found = "", dict[str, str]()
    for naming, column, text in lineage.comments:
        if column is None:
            table = text
            continue
        name = _current_name(namings[naming], column)
        if name is not None and in_one_case(name) in spelling:
            found[spelling[in_one_case(name)]] = text
    texts = {name: _plain(text) for name, text in found.items()}
    return Comments(_plain(table) or None, {name: text for name, text in texts.items() if text})


def _plain(text: str) -> str:
    return one_line(" ".join(text.split()), _LONGEST)


def _current_name(naming: ColumnNaming, column: str) -> str | None:
    names = {in_one_case(name): current for name, current in naming.names.items()}
    return names.get(in_one_case(column), column)
