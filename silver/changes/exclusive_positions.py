"""Finds changes that share a position which the feed gives one change alone: a setting is missing then.

Where MySQL compresses transactions, all their changes have the position of the transaction. No message shows
it, but two neighbours do. Read without the setting, changes that differ would count as one change delivered
twice, or follow each other in any order.

    position   change
    500        insert id 1
    500        update id 1        the neighbours share a position: evidence
    900        delete id 2
    900        insert id 3        a change of a key, which MySQL writes as two changes of one position
"""

from __future__ import annotations

from collections.abc import Iterable

from framework.contracts.events import Op
from silver.changes.staged_rows import Row
from silver.decoding.encoding_modes import evidence_text

SHARED_KIND = "transactions"
SHARED_TRANSACTIONS = evidence_text(SHARED_KIND, frozenset({"compressed"}))
"""Evidence about a source: changes share a position that the feed gives one change alone."""
_KEY_CHANGE = {str(Op.DELETE), str(Op.INSERT)}
_SAME_PLACE = ("sequence", "source", "server", "restart")
_CONTENT = ("op", "change_id", "before", "after")


def note_shared_positions(rows: Iterable[Row]) -> None:
    """Note as evidence on a row that it shares the position of its neighbour, once a source.

    Args:
        rows: The rows in the order of their messages. Those whose position is exclusive have `is_exclusive`.
    """
    last: Row | None = None
    noted: set[str] = set()
    for row in rows:
        if "is_exclusive" not in row:
            continue
        if last is not None and last["sequence"] == row["sequence"] and _is_shared(last, row):
            if row["source"] not in noted:
                row["evidence"] = ";".join(filter(None, (row["evidence"], SHARED_TRANSACTIONS)))
            noted.add(row["source"])
        last = row


def _is_shared(one: Row, other: Row) -> bool:
    if any(one[name] != other[name] for name in _SAME_PLACE) or {one["op"], other["op"]} == _KEY_CHANGE:
        return False
    return any(one[name] != other[name] for name in _CONTENT)
