"""Every mode in which Debezium writes decimals, bytes, times, intervals and unsigned numbers, against the
tables' true rows.

What a connector wrote is decoded twice where it sends no schema blocks: with the modes as settings, and by
the evidence of its own values alone.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from typing import Any

import pytest

from framework.contracts.events import Control, ControlKind, Event, Op, RowChange
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed
from silver.changes.ddl_events import statement_events
from silver.decoding.encoding_modes import Modes, ModeState, evidence_of, state_of
from silver.decoding.format import ColumnHint, Context
from silver.decoding.table_definitions import TableDefinitions, definitions_by_table, definitions_in
from silver.envelopes.debezium.encoding_modes import KINDS
from silver.formats.debezium import FORMAT, DebeziumOptions
from tests.real.columns import Column
from tests.real.connectors import STYLES
from tests.real.modes import FOLDER, SETS
from tests.real.tables import differences
from tests.silver.recordings import plain, recorded_messages, recorded_tables

WALLS = {
    "wall_3": ColumnHint("timestamp_ntz", "milliseconds"),
    "wall_6": ColumnHint("timestamp_ntz", "microseconds"),
}
KNOWN_HINTS: Mapping[str, ColumnHint] = {
    **{
        "code": ColumnHint("decimal(20,0)"),
        "price": ColumnHint("decimal(12,2)"),
        "whole": ColumnHint("decimal(30,0)"),
        "raw": ColumnHint("binary"),
    },
    **{
        "open_number": ColumnHint("decimal(38,2)"),
        "born": ColumnHint("date"),
        "moment": ColumnHint("timestamp"),
    },
    **dict.fromkeys(("wall_3", "wall_6"), ColumnHint("timestamp_ntz")),
}
"""What the configuration says of PostgreSQL's columns where no message describes them."""
SETTINGS = {
    "0": ("base64", "base64", {"m": "adaptive_time_microseconds", "p": "adaptive"}),
    "1": ("text", "hex", {"m": "connect", "p": "connect"}),
    "2": ("number", "base64", {"m": "isostring", "p": "isostring"}),
    "3": ("base64", "base64url", {"m": "microseconds", "p": "microseconds"}),
    "4": ("text", "base64", {"m": "nanoseconds", "p": "nanoseconds"}),
    "5": ("base64", "hex", {"m": "adaptive_time_microseconds", "p": "adaptive_time_microseconds"}),
}
"""The settings `decimals`, `binary` and `times` that a set of the connectors' modes asks for."""
ROUNDED = ("code", "whole", "open_number")
"""Columns of which decimal.handling.mode=double cannot hold every value."""
_SPAN = re.compile(r"P(-?\d+)Y(-?\d+)M(-?\d+)DT(-?\d+)H(-?\d+)M(-?[\d.]+)S")
States = Mapping[str, ModeState]


@cache
def messages(letter: str, name: str, style: str) -> tuple[RawMessage, ...]:
    prefix = f"{letter}{name}{style}"
    return tuple(m for m in recorded_messages(f"{letter}{name}", FOLDER) if m.topic.split(".")[0] == prefix)


def hints_of(letter: str, name: str, *, by_setting: bool) -> dict[str, ColumnHint]:
    """PostgreSQL's columns; where the mode is adaptive only the type of the column shows its unit."""
    if letter == "m":
        return {}
    is_open = name in ("0", "5") or not by_setting
    times = {"at_3": _time(name, "milliseconds"), "at_6": _time(name, "microseconds")}
    walls = {
        column: ColumnHint("timestamp_ntz", _unit(name, given.encoding or ""))
        for column, given in WALLS.items()
    }
    return {**KNOWN_HINTS, **times, **(walls if is_open and name != "2" else {})}


def _unit(name: str, adaptive: str) -> str:
    return {"1": "milliseconds", "3": "microseconds", "4": "nanoseconds"}.get(name, adaptive)


def _time(name: str, adaptive: str) -> ColumnHint:
    return ColumnHint("string", "microseconds" if name == "5" else _unit(name, adaptive))


def context(
    letter: str, name: str, states: States, structures: TableDefinitions, *, by_setting: bool
) -> Context:
    columns = hints_of(letter, name, by_setting=by_setting)
    return Context(
        "feed",
        DebeziumOptions(database="shop"),
        "UTC",
        lambda *_: None,
        hints_for=lambda *_: columns,
        definition_at=lambda table, position: structures.columns(table, (1, *(position or ()))),
        modes=states,
    )


def decoded(message: RawMessage, known: Context) -> list[Event]:
    found: list[Event] = []
    for event in FORMAT.decode(message, known):
        found.extend(statement_events(event, FORMAT) if isinstance(event, Control) else (event,))
    return found


def structures_of(letter: str, name: str, style: str) -> TableDefinitions:
    bare = Context("feed", DebeziumOptions(), "UTC", lambda *_: None)
    own = [m for m in messages(letter, name, style) if m.topic == f"{letter}{name}{style}"]
    return definitions_by_table([s for m in own for s in definitions_in(decoded(m, bare), 1)])


def shown(letter: str, name: str, style: str, structures: TableDefinitions) -> dict[str, set[Modes]]:
    """What the values of one connector show, each decoded as if it were the first."""
    found: dict[str, set[Modes]] = {kind: set() for kind in KINDS}
    blank = context(letter, name, {}, structures, by_setting=False)
    for message in messages(letter, name, style):
        try:
            evidence = [
                text
                for event in decoded(message, blank)
                if isinstance(event, RowChange)
                for text in event.evidence
            ]
        except Malformed as error:
            evidence = list(error.evidence)
        for text in evidence:
            kind, modes = evidence_of(text)
            found[kind].add(modes)
    return found


def rows_of(events: list[Event]) -> tuple[list[Mapping[str, str | None]], dict[str, str | None]]:
    """The rows of the table after all its changes, and the columns' types."""
    rows: dict[tuple[str | None, ...], Mapping[str, str | None]] = {}
    types: dict[str, str | None] = {}
    changes = [event for event in events if isinstance(event, RowChange)]
    for event in sorted(changes, key=lambda e: e.position or ()):
        assert event.keys is not None
        types.update({column: c.type for column, c in event.columns.items()})
        image = event.before or event.after or {}
        was = rows.pop(tuple(image[k] for k in event.keys), None)
        assert event.op in (Op.INSERT, Op.READ) or was is not None, "the old key leads to no row"
        if event.op is not Op.DELETE:
            assert event.after is not None
            rows[tuple(event.after[k] for k in event.keys)] = event.after
    return list(rows.values()), types


def value(column: Column, text: str | None, kind: str | None) -> Any:
    """A canonical text as a plain value. A schema block calls text what its connector writes as text."""
    if text is not None and kind == "string" and column.kind == "bytes":
        return (
            bytes.fromhex(text)
            if re.fullmatch("([0-9a-f]{2})*", text)
            else base64.urlsafe_b64decode(text.replace("+", "-").replace("/", "_"))
        )
    span = _SPAN.fullmatch(text or "")
    if span is not None:
        years, months, days, hours, minutes = (int(part) for part in span.groups()[:-1])
        seconds = days * 86400 + hours * 3600 + minutes * 60
        return (years * 12 + months) * Decimal(2629800000000) + (seconds + Decimal(span[6])) * 1000000
    return plain(column, text)


def differences_of(letter: str, name: str, style: str, states: States, *, by_setting: bool) -> list[str]:
    structures = structures_of(letter, name, style)
    known = context(letter, name, states, structures, by_setting=by_setting)
    events = [event for message in messages(letter, name, style) for event in decoded(message, known)]
    assert not any(isinstance(e, Control) and e.kind is ControlKind.HEARTBEAT for e in events)
    rows, types = rows_of(events)
    table = recorded_tables(letter, FOLDER)["modes"]
    found = [{c.name: value(c, row.get(c.name), types[c.name]) for c in table.columns} for row in rows]
    wanted = [dict(row) for row in table.rows]
    if SETS[name].decimals == "double":
        for row in (*found, *wanted):
            row.update({column: float(row[column]) for column in ROUNDED if row.get(column) is not None})
    return differences(wanted, found, table.keys)


CASES = [(letter, name, style) for letter in ("m", "p") for name in SETS for style in STYLES]


@pytest.mark.parametrize(("letter", "name", "style"), CASES)
def test_values_of_every_mode_are_read_as_the_settings_say(letter: str, name: str, style: str) -> None:
    decimals, binary, times = SETTINGS[name]
    settings = {"decimals": decimals, "binary": binary, "times": times[letter]}
    states = {kind: state_of(KINDS[kind], setting, ()) for kind, setting in settings.items()}
    assert differences_of(letter, name, style, states, by_setting=True) == []


@pytest.mark.parametrize(("letter", "name", "style"), [case for case in CASES if case[2] in ("n", "g")])
def test_values_of_every_mode_are_read_by_their_own_evidence(letter: str, name: str, style: str) -> None:
    seen = shown(letter, name, style, structures_of(letter, name, style))
    states = {kind: state_of(KINDS[kind], None, seen[kind]) for kind in KINDS}
    decimals, binary, times = SETTINGS[name]
    assert all(states.values())
    for kind, mode in (("decimals", decimals), ("binary", binary), ("times", times[letter])):
        assert mode in states[kind].left, (kind, states[kind])
    assert differences_of(letter, name, style, states, by_setting=False) == []
