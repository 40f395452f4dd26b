"""What silver adds to `mainstem status`: the outcomes of all messages, and what waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from framework.contracts import dismissals
from framework.contracts.events import KINDS_OF_PAIRS
from framework.contracts.table_names import (
    BATCHES_TABLE,
    MESSAGES_TABLE,
    PENDING_TABLE,
    QUARANTINE_TABLE,
)
from framework.lakehouse.table_reader import Query
from framework.pipeline.generation import first_counted
from framework.pipeline.layer import View
from framework.pipeline.message_counts import accounts, accounts_of_refused
from silver.epochs.history import history_of
from silver.operations.late_snapshots import late_snapshots

CONTROL_KINDS = ("ddl", "truncate", "heartbeat", "transaction", "tombstone")
_KINDS = Query(
    BATCHES_TABLE,
    "SELECT `kind`, sum(`rows`) AS `rows`, sum(`merged`) AS `merged` FROM {rows} "
    "WHERE `batch` >= {first} GROUP BY `kind`",
)
_REASONS = Query(
    QUARANTINE_TABLE,
    "SELECT `reason`, count(*) AS `rows`, count(`dismissed_at`) AS `dismissed` FROM {rows} "
    "WHERE NOT `is_resolved` GROUP BY `reason` ORDER BY `reason` NULLS FIRST",
    dismissals.COLUMNS,
)
_OF_SOURCE = Query(MESSAGES_TABLE, "SELECT count(*) AS `rows` FROM {rows} WHERE `source` = {source}")


def left_out_note(source: str) -> str:
    """What to do about messages of a source that the configuration does not name."""
    return (
        f"source {source}: messages of it have landed, and the configuration does not name it: they have no"
        " outcome; give a source this name (again) and run: they are decoded then"
    )


def status(view: View) -> dict[str, Any]:
    """The outcomes of the messages by kind, the halves that wait, and the sources that are stopped."""
    history = history_of(view.tables)
    found: dict[str, Any] = {
        "late_snapshots": [],
        "changes": 0,
        "control_events": 0,
        "duplicates": 0,
        "excluded": 0,
        "quarantined": {},
        "dismissed": {},
        "pending_halves": view.tables.count(view.lake.location(PENDING_TABLE)),
        "merged_halves": 0,
        "key_change_halves": 0,
        "further_rows": 0,
        "without_fate": 0,
        "stopped": [
            {
                "source": stopped.source,
                "epoch": stopped.epoch,
                "code": (error := stopped.error()).condition,
                "reason": stopped.first.reason,
                "detail": stopped.first.detail,
                "action": error.action,
            }
            for stopped in history.stopped_sources().values()
        ],
        "left_out": [
            {"source": source, "messages": _messages_of(view, source), "note": left_out_note(source)}
            for source in history.left_out(view.config.sources)
        ],
    }
    if not view.tables.exists(BATCHES_TABLE):
        return {**found, "without_fate": _messages(view)}
    names = {
        "row": "changes",
        "duplicate": "duplicates",
        "excluded": "excluded",
        **dict.fromkeys(CONTROL_KINDS, "control_events"),
    }
    first = first_counted(view.tables, view.lake)
    found["late_snapshots"] = late_snapshots(view.tables, first)
    for row in view.tables.rows(_KINDS, first=first):
        kind = row["kind"]
        found["merged_halves"] += (row["merged"] or 0) if kind in KINDS_OF_PAIRS else 0
        if kind in names:
            found[names[kind]] += row["rows"]
    for row in view.tables.rows(_REASONS):
        open_rows = row["rows"] - row["dismissed"]
        for state, rows in (("quarantined", open_rows), ("dismissed", row["dismissed"])):
            if rows:
                found[state][row["reason"]] = rows
    return {**found, **_accounted(view, found)}


def _accounted(view: View, found: Mapping[str, Any]) -> dict[str, int]:
    """Other reasons for the number of messages, so that all numbers add up.

    All changes are read only if something is missing.
    """
    outcomes = ("changes", "control_events", "duplicates", "excluded", "pending_halves", "merged_halves")
    refused = sum(found["quarantined"].values()) + sum(found["dismissed"].values())
    missing = _messages(view) - sum(found[name] for name in outcomes) - refused
    counts = accounts_of_refused(view.tables)
    if missing + sum(each.further for each in counts):
        counts = accounts(view.tables)
    key_halves, further = sum(each.key_halves for each in counts), sum(each.further for each in counts)
    return {
        "key_change_halves": key_halves,
        "further_rows": further,
        "without_fate": max(missing - key_halves + further, 0),
    }


def _messages_of(view: View, source: str) -> int:
    return sum(row["rows"] for row in view.tables.rows(_OF_SOURCE, source=source))


def _messages(view: View) -> int:
    """The number of all messages of bronze; 0 where the table is gone."""
    return view.tables.count(view.lake.location(MESSAGES_TABLE))
