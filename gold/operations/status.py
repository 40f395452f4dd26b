"""What gold adds to `mainstem status`: the tables, with their state, their rows and what they lack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from framework.contracts.ddl_actions import actions_of, has_effect
from framework.contracts.erasure import FORGOTTEN
from framework.contracts.table_names import BATCHES_TABLE, STATEMENTS_TABLE
from framework.lakehouse.table_reader import Query
from framework.pipeline.bad_cells import BAD_CELLS
from framework.pipeline.layer import View
from gold.planning.table_state import (
    TableId,
    TableState,
    silver_extents,
    states_of,
    table_id,
    waiting_batches,
)

_THREADS = 4
_MISSED = Query(
    BATCHES_TABLE,
    "SELECT `source`, `database`, `schema`, `table`, sum(`rows`) AS `rows` FROM {rows} "
    "WHERE `kind` = 'excluded' AND `table` IS NOT NULL AND (`reason` IS NULL OR `reason` <> {forgotten}) "
    "GROUP BY `source`, `database`, `schema`, `table`",
)
_UNCLEAR = Query(
    STATEMENTS_TABLE,
    "SELECT `change_id`, `source`, `database`, `schema`, `table`, `actions` FROM {rows} "
    "WHERE `actions` LIKE '%\"NotUnderstood\"%' OR `sequence` IS NULL",
)


def status(view: View) -> dict[str, Any]:
    """The tables, sorted by source and name."""
    states = states_of(view.tables)
    waiting = waiting_batches(view.tables, states.values(), silver_extents(view.tables))
    bad, unclear, missed = _bad_values(view), _not_understood(view), _missed(view)
    places = sorted(states, key=repr)
    with ThreadPoolExecutor(max_workers=_THREADS) as pool:
        counts = pool.map(lambda place: _row_count(view, states[place]), places)
    return {
        "tables": [
            {
                **_entry(states[place]),
                "is_configured": place[0] in view.config.sources,
                "rows": rows,
                "bad_values": bad.get(place, 0),
                "behind": waiting.get(place, 0),
                "statements_not_applied": unclear.get(place, 0),
                "missed_while_excluded": missed.get(place, 0),
            }
            for place, rows in zip(places, counts, strict=True)
        ]
    }


def _missed(view: View) -> dict[TableId, int]:
    """How many messages came to each table while it was excluded; silver has no images of them."""
    counts = {table_id(row): row["rows"] for row in view.tables.rows(_MISSED, forgotten=FORGOTTEN)}
    return {
        place: n
        for place, n in counts.items()
        if not view.config.settings(place[0], place[1].database, place[1].schema, place[1].table).exclude
    }


def _bad_values(view: View) -> dict[TableId, int]:
    return {table_id(row): row["cells"] for row in view.tables.rows(BAD_CELLS)}


def _not_understood(view: View) -> Mapping[TableId, int]:
    """How many statements of each table have an unknown effect or no position."""
    statements = {row["change_id"]: row for row in view.tables.rows(_UNCLEAR)}
    return Counter(table_id(row) for row in statements.values() if has_effect(actions_of(row["actions"])))


def _row_count(view: View, state: TableState) -> int:
    return 0 if state.replica is None else view.tables.count(state.replica)


def _entry(state: TableState) -> dict[str, Any]:
    return {
        "source": state.source,
        "database": state.name.database,
        "schema": state.name.schema,
        "table": state.name.table,
        "state": str(state.state),
        "reason": state.reason,
        "failing_keys": list(state.gate_keys or ()),
        "replica": state.replica,
        "history": state.history,
        "rows": 0,
        "keys": list(state.keys),
        "sequence": state.sequence,
        "event_time": state.event_time.isoformat() if state.event_time else None,
        "changes_applied": state.changes_applied,
    }
