"""Matching the column names of statements with those of rows where they differ by case alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from framework.contracts.ddl_actions import AddColumn, DropColumn, RenameColumn
from framework.naming import in_one_case
from gold.schema.lineage import ColumnAction, Lineage


def match_case(lineage: Lineage, seen: Iterable[tuple[int, str]]) -> Lineage:
    """The lineage with columns spelled as in the rows, where the names in statements differ by case alone.

    `seen` has the naming and name of each column of the rows. Column names in statements are not
    case-sensitive in most databases; an exact match comes first.
    """
    rows: dict[int, set[str]] = {}
    last: dict[str, int] = {}
    for naming, name in seen:
        rows.setdefault(naming, set()).add(name)
        last[name] = max(naming, last.get(name, 0))
    known, shown = _Names(), _Names()
    for name in last:
        shown.add(name)
    matched: list[tuple[str, ColumnAction]] = []
    for at, (sequence, action) in enumerate(lineage.column_changes):
        for name in rows.get(at, ()):
            known.add(name)
        if isinstance(action, RenameColumn):
            old = known.spelling(action.old)
            known.discard(old)
            action = RenameColumn(old, _later_spelling(shown, last, at, action.new))
            known.add(action.new)
        elif isinstance(action, AddColumn):
            name = known.spelling(action.name)
            name = name if name in known else _later_spelling(shown, last, at, action.name)
            action = replace(action, name=name, after=action.after and known.spelling(action.after))
            known.add(name)
        else:
            action = replace(action, name=known.spelling(action.name))
            if isinstance(action, DropColumn):
                known.discard(action.name)
        matched.append((sequence, action))
    return replace(lineage, column_changes=tuple(matched))


class _Names:
    """A set of names, looked up without regard to case."""

    def __init__(self) -> None:
        self._by_case: dict[str, set[str]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self.like(name)

    def like(self, name: str) -> set[str]:
        """The names that differ from this one by case at most."""
        return self._by_case.get(in_one_case(name), set())

    def add(self, name: str) -> None:
        self._by_case.setdefault(in_one_case(name), set()).add(name)

    def discard(self, name: str) -> None:
        self.like(name).discard(name)

    def spelling(self, name: str) -> str:
        """The name as the set spells it; unchanged where no name or several names match."""
        close = self.like(name)
        return next(iter(close)) if len(close) == 1 and name not in close else name


def _later_spelling(shown: _Names, last: dict[str, int], at: int, name: str) -> str:
    """The name as rows after a column change spell it."""
    close = [other for other in shown.like(name) if last[other] > at]
    return close[0] if len(close) == 1 and name not in close else name
