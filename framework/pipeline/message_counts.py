"""Why the counts of messages and changes of a pipeline differ.

    messages = changes + control events + duplicates + quarantined + halves waiting + excluded
               + merged halves + halves of key changes + messages without an outcome yet - further rows

A merged half is a message that is part of another message's change. A further row is one that is not the
first of its message, or a change that was written before its other half arrived and again when it did.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from framework.contracts.table_names import CHANGES_TABLE, QUARANTINE_TABLE
from framework.lakehouse.table_reader import Query, TableReader

_LACKING = {"half": "string"}
_COUNTS = Query(
    CHANGES_TABLE,
    "SELECT `source`, count(*) FILTER (WHERE `kind` = 'half' AND `half` IS NULL) AS `key_halves`, "
    "count(*) FILTER (WHERE `ordinal` > 0 AND `kind` NOT IN ('half', 'quarantined')) AS `further` "
    "FROM {rows} GROUP BY `source`",
    _LACKING,
)
_COMPLETED = Query(
    CHANGES_TABLE,
    "SELECT c.`source`, count(*) AS `further` FROM {rows} AS c LEFT SEMI JOIN "
    "(SELECT `source`, `topic`, `partition`, `offset` FROM {rows} "
    "WHERE `kind` = 'row' AND `half` IS NOT NULL) AS r ON c.`source` = r.`source` "
    "AND c.`topic` = r.`topic` AND c.`partition` = r.`partition` AND c.`offset` = r.`offset` "
    "WHERE c.`kind` = 'row' AND c.`half` IS NULL AND c.`paired_with` IS NOT NULL GROUP BY c.`source`",
    _LACKING,
)

_REFUSED = Query(
    QUARANTINE_TABLE,
    "SELECT `source`, count(*) AS `further` FROM {rows} WHERE NOT `is_resolved` AND `ordinal` > 0 "
    "GROUP BY `source`",
)


@dataclass(frozen=True, slots=True)
class SourceCounts:
    """Of one source: the delete halves of key changes, and the further rows."""

    source: str
    key_halves: int
    further: int


def accounts_of_refused(tables: TableReader) -> list[SourceCounts]:
    """What the messages need beside the counts of their outcomes as far as `silver/quarantine` tells it."""
    return [SourceCounts(row["source"], 0, row["further"]) for row in tables.rows(_REFUSED)]


def accounts(tables: TableReader) -> list[SourceCounts]:
    """What the messages of each source need beside the counts of their outcomes."""
    again = Counter({row["source"]: row["further"] for row in tables.rows(_COMPLETED)})
    again.update({each.source: each.further for each in accounts_of_refused(tables)})
    return [
        SourceCounts(row["source"], row["key_halves"], row["further"] + again[row["source"]])
        for row in tables.rows(_COUNTS)
    ]
