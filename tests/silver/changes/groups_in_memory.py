"""The groups in which changes may be repeats (`silver/batches/duplicate_groups.py`), in Python."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from silver.changes.pairing import KNOWN
from silver.changes.staged_rows import Row
from silver.values.sequence import name_part, reached_position


def by_reached_position(rows: Iterable[Row]) -> list[list[Row]]:
    """Rows of a table, with `origin`, by the position that was reached where their change came first."""
    first: dict[tuple[str, int], str] = {}
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in sorted(rows, key=_order):
        place = reached_position(row["sequence"], row["position"])
        groups[first.setdefault((row["change_id"], row["ordinal"]), place)].append(row)
    return list(groups.values())


def _order(row: Row) -> tuple[bool, str, int, int]:
    return (row["origin"] != KNOWN, name_part(row["topic"]), row["partition"], row["offset"])
