"""What Debezium wrote of real databases, decoded and applied to dictionaries,
is what the databases held at the end.
"""

from __future__ import annotations

from typing import Any

import pytest

from framework.contracts.events import Control, ControlKind, Event, Op, RowChange
from framework.contracts.messages import RawMessage
from silver.changes.ddl_events import statement_events
from silver.decoding.encoding_modes import state_of
from silver.decoding.format import ColumnHint, Context
from silver.decoding.table_definitions import TableDefinitions, definitions_by_table, definitions_in
from silver.envelopes.debezium.encoding_modes import KINDS
from silver.formats.debezium import FORMAT, DebeziumOptions
from tests.real.columns import POSTGRES, UNKNOWN_ENCODINGS
from tests.real.tables import differences
from tests.silver.recordings import plain, recorded_messages, recorded_tables

HINTS = {c.name: ColumnHint(**dict(c.hint)) for c in POSTGRES if c.hint}
SETTINGS = {"decimals": "base64", "binary": "base64", "times": "adaptive_time_microseconds"}
MODES = {kind: state_of(KINDS[kind], setting, ()) for kind, setting in SETTINGS.items()}
Rows = dict[tuple[str | None, ...], dict[str, str | None]]


def context(prefix: str, structures: TableDefinitions) -> Context:
    return Context(
        "feed",
        DebeziumOptions(database="shop"),
        "UTC",
        lambda *_: None,
        hints_for=lambda *_: HINTS if prefix == "pn" else {},
        definition_at=lambda table, position: structures.columns(table, (1, *(position or ()))),
        modes=MODES if prefix == "mn" else {},
    )


def events_of(prefix: str) -> list[Event]:
    """All events of a recording, rows by the structures of its schema-change topic."""
    messages = list(recorded_messages(prefix))
    bare = context(prefix, TableDefinitions())
    structures = definitions_by_table(
        [s for m in messages if m.topic == prefix for s in definitions_in(decoded(m, bare), 1)]
    )
    known = context(prefix, structures)
    return [event for message in messages for event in decoded(message, known)]


def decoded(message: RawMessage, known: Context) -> list[Event]:
    found: list[Event] = []
    for event in FORMAT.decode(message, known):
        found.extend(statement_events(event, FORMAT) if isinstance(event, Control) else (event,))
    return found


def applied(events: list[Event], table: str) -> Rows:
    """The rows of one table after all its changes, in the order of their positions."""
    mine = [
        e for e in events if e.table == table and (isinstance(e, RowChange) or e.kind is ControlKind.TRUNCATE)
    ]
    rows: Rows = {}
    for event in sorted(mine, key=lambda e: e.position or ()):
        if isinstance(event, Control):
            rows.clear()
            continue
        keys = event.keys or ()
        before, after = event.before or {}, event.after or {}
        old = tuple(before.get(k, after.get(k)) for k in keys)
        was = rows.pop(old, {})
        if event.op is not Op.DELETE:
            rows[tuple(after[k] for k in keys)] = {**was, **after} if event.partial else dict(after)
    return rows


@pytest.mark.parametrize("prefix", ["m", "mn", "mf", "p", "pn", "pf"])
def test_recorded_changes_lead_to_the_tables(prefix: str) -> None:
    events = events_of(prefix)
    faults = []
    for name, table in recorded_tables(prefix[0]).items():
        if (name == "growing" and prefix[0] == "m") or (name == "cleared" and prefix.endswith("f")):
            continue  # columns that change their names are gold's to follow; flattening drops the TRUNCATE
        columns = [c for c in table.columns if prefix != "pn" or c.name not in UNKNOWN_ENCODINGS]
        found: list[dict[str, Any]] = [
            {c.name: plain(c, row.get(c.name)) for c in columns} for row in applied(events, name).values()
        ]
        wanted = [{c.name: row[c.name] for c in columns} for row in table.rows]
        faults += [f"{name}: {d}" for d in differences(wanted, found, table.keys)]
    assert not faults, "\n".join(faults[:40])
