"""Finds signs that a setting of a source is missing, which no message shows alone but two neighbours do.

Where MySQL compresses transactions, all their changes have the position of the transaction. Read without the
setting, changes that differ would count as one change delivered twice, or follow each other in any order.

    position   change
    500        insert id 1
    500        update id 1        the neighbours share a position: evidence
    900        delete id 2
    900        insert id 3        a change of a key, which MySQL writes as two changes of one position

A tombstone follows the delete that it belongs to. Where a connector sends tombstones instead of deletes, and
they are ignored, rows are never deleted.

    offset   message
    7        update id 1
    8        tombstone            it follows no delete: evidence
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from framework.contracts.events import ControlKind, Op
from silver.changes.staged_rows import Row
from silver.decoding.encoding_modes import evidence_text

TRANSACTIONS, TOMBSTONES = "transactions", "tombstones"
"""The kinds of evidence, which a format's `shown_settings` names."""
SHARED_POSITION = evidence_text(TRANSACTIONS, frozenset({"compressed"}))
"""Evidence about a source: changes share a position that the feed gives one change alone."""
LONE_TOMBSTONE = evidence_text(TOMBSTONES, frozenset({"delete"}))
"""Evidence about a source: a tombstone follows a change that is no delete."""
_KEY_CHANGE = {str(Op.DELETE), str(Op.INSERT)}
_SAME_PLACE = ("sequence", "source", "server", "restart")
_CONTENT = ("op", "change_id", "before", "after")
_LEAVE_A_ROW = frozenset({str(Op.INSERT), str(Op.UPDATE), str(Op.READ)})


def note_missing_settings(rows: Sequence[Row]) -> None:
    """Note on rows, as evidence, what they show of missing settings, each kind once a source.

    Args:
        rows: The rows in the order of their messages. Those whose position is exclusive have `is_exclusive`.
    """
    noted: set[tuple[str, str]] = set()
    for row, text in (*_with_shared_position(rows), *_lone_tombstones(rows)):
        if (row["source"], text) not in noted:
            noted.add((row["source"], text))
            row["evidence"] = ";".join(filter(None, (row["evidence"], text)))


def _with_shared_position(rows: Iterable[Row]) -> Iterator[tuple[Row, str]]:
    last: Row | None = None
    for row in rows:
        if "is_exclusive" in row and row["kind"] != "duplicate":  # which is a message that has landed before
            if last is not None and last["sequence"] == row["sequence"] and _is_shared(last, row):
                yield row, SHARED_POSITION
            last = row


def _is_shared(one: Row, other: Row) -> bool:
    if any(one[name] != other[name] for name in _SAME_PLACE) or {one["op"], other["op"]} == _KEY_CHANGE:
        return False
    return any(one[name] != other[name] for name in _CONTENT)


def _lone_tombstones(rows: Sequence[Row]) -> Iterator[tuple[Row, str]]:
    tombstones = [row for row in rows if row["kind"] == ControlKind.TOMBSTONE and row["keys"]]
    if not tombstones:
        return
    before = {_place(row): row for row in rows if row["kind"] == "row" and row["op"] in _LEAVE_A_ROW}
    for row in tombstones:
        source, topic, partition, offset = _place(row)
        if (source, topic, partition, offset - 1) in before:
            yield row, LONE_TOMBSTONE


def _place(row: Row) -> tuple[str, str, int, int]:
    return row["source"], row["topic"], row["partition"], row["offset"]
