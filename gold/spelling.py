"""Columns as the rows spell them, where a statement's name differs by case alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from framework.contracts.actions import AddColumn, DropColumn, RenameColumn
from gold.lineage import ColumnAction, Lineage


def fitted(lineage: Lineage, seen: Iterable[tuple[int, str]]) -> Lineage:
    """The lineage whose steps name columns as the rows do (`seen`: stretch and name), where they differ by case alone.

    Column names in statements are not case-sensitive in most databases; an exact match comes first.
    """
    rows: dict[int, set[str]] = {}
    last: dict[str, int] = {}
    for stretch, name in seen:
        rows.setdefault(stretch, set()).add(name)
        last[name] = max(stretch, last.get(name, 0))
    known, shown = _Names(), _Names()
    for name in last:
        shown.add(name)
    steps: list[tuple[str, ColumnAction]] = []
    for at, (sequence, action) in enumerate(lineage.steps):
        for name in rows.get(at, ()):
            known.add(name)
        if isinstance(action, RenameColumn):
            old = known.spelled(action.old)
            known.discard(old)
            action = RenameColumn(old, _later(shown, last, at, action.new))
            known.add(action.new)
        elif isinstance(action, AddColumn):
            name = known.spelled(action.name)
            name = name if name in known else _later(shown, last, at, action.name)
            action = replace(action, name=name, after=action.after and known.spelled(action.after))
            known.add(name)
        else:
            action = replace(action, name=known.spelled(action.name))
            if isinstance(action, DropColumn):
                known.discard(action.name)
        steps.append((sequence, action))
    return replace(lineage, steps=tuple(steps))


class _Names:
    """A set of names that answers how a name is spelled in it."""

    def __init__(self) -> None:
        self._by_case: dict[str, set[str]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self.like(name)

    def like(self, name: str) -> set[str]:
        """The names that differ from this one by case at most."""
        return self._by_case.get(name.casefold(), set())

    def add(self, name: str) -> None:
        self._by_case.setdefault(name.casefold(), set()).add(name)

    def discard(self, name: str) -> None:
        self.like(name).discard(name)

    def spelled(self, name: str) -> str:
        """The name as it is here; as it came where none is like it, or several are."""
        close = self.like(name)
        return next(iter(close)) if len(close) == 1 and name not in close else name


def _later(shown: _Names, last: dict[str, int], at: int, name: str) -> str:
    """The name as rows behind a step spell it."""
    close = [other for other in shown.like(name) if last[other] > at]
    return close[0] if len(close) == 1 and name not in close else name
