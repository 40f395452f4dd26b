"""Columns that could be the key of a table without one: unique and never null in a sample of its rows.

The sample is the first rows that were inserted or read. A row that is delivered again has the same position
and counts once. Equal rows at two positions are two rows, and then no column can be the key. A row that was
deleted and comes again is new.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from framework.contracts.events import Op, RowChange

MOST_ROWS = 1_000
MOST_CELLS = 2_000_000
"""The limit for all tables of a feed together."""
_MOST_SHOWN = 5
_PAIRED = 30
_LIKE_KEYS = re.compile(
    r"(^|_)(id|no|nr|num|number|key|code|sku|u?uid|guid|pk)$|.(Id|ID|No|Key|Code)$", re.IGNORECASE
)

_Cells = dict[str, int | None]


@dataclass(slots=True)
class Sample:
    """Rows of one table, each value as its hash."""

    rows: dict[int, _Cells] = field(default_factory=dict)

    def take(self, change: RowChange, room: int) -> int:
        """Adds one change; `room` is how many cells may still be added.

        Returns by how many cells the sample grew.
        """
        if change.op is Op.DELETE and change.before is not None:
            gone = _cells(change.before)
            self.rows = {place: row for place, row in self.rows.items() if row != gone}
            return 0
        image = change.after
        if (
            change.op not in (Op.INSERT, Op.READ)
            or image is None
            or len(self.rows) >= MOST_ROWS
            or len(image) > room
        ):
            return 0
        row = _cells(image)
        place = hash((change.position, tuple(sorted(row.items(), key=str))))
        grown = 0 if place in self.rows else len(row)
        self.rows[place] = row
        return grown

    def merged_with(self, other: Sample) -> Sample:
        """The rows of both."""
        return Sample({**self.rows, **other.rows})


def candidates(sample: Sample, columns: Sequence[str]) -> list[list[str]]:
    """The columns that are unique in a sample, else the pairs of columns that are.

    Names like those of keys come first.
    """
    rows = list(sample.rows.values())
    if len(rows) < 2:
        return []
    full = [name for name in columns if all(row.get(name) is not None for row in rows)]
    full.sort(key=lambda name: _LIKE_KEYS.search(name) is None)
    found: Iterable[tuple[str, ...]] = [(name,) for name in full if _is_unique(rows, (name,))]
    found = found or (pair for pair in combinations(full[:_PAIRED], 2) if _is_unique(rows, pair))
    return [list(names) for names, _ in zip(found, range(_MOST_SHOWN), strict=False)]


def _is_unique(rows: Sequence[_Cells], names: tuple[str, ...]) -> bool:
    seen = set()
    for row in rows:
        values = tuple(row[name] for name in names)
        if values in seen:
            return False
        seen.add(values)
    return True


def _cells(image: Mapping[str, str | None]) -> _Cells:
    return {name: None if text is None else hash(text) for name, text in image.items()}
