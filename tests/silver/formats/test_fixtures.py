"""Every recorded message of every format decodes to the events that are written beside it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import NODEFAULT
from msgspec.structs import fields

from framework.contracts.ddl_actions import actions_text
from framework.contracts.events import Column, Control, Event
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.decoding.format import Context, Format
from tests.silver.recorded import FOLDER, SCENARIOS, context_of, format_of, messages_of


def written(value: Any) -> Any:
    """A value as the JSON file holds it."""
    if isinstance(value, Column):
        return {
            name: part
            for name in ("type", "declared", "token")
            if (part := written(getattr(value, name))) is not None
        }
    if isinstance(value, dict):
        return {name: written(part) for name, part in value.items()}
    return list(value) if isinstance(value, tuple) else str(value) if isinstance(value, str) else value


def described(event: Event) -> dict[str, Any]:
    """An event's members, without those that hold their default."""
    members = {}
    for field in fields(event):
        value = getattr(event, field.name)
        default = field.default if field.default_factory is NODEFAULT else field.default_factory()
        if default is NODEFAULT or value != default:
            members[field.name] = (
                json.loads(actions_text(value)) if field.name == "actions" else written(value)
            )
    return members


def decoded(message: RawMessage, fmt: Format, context: Context) -> Any:
    try:
        return [described(event) for event in fmt.decode(message, context)]
    except Malformed as error:
        return {"malformed": str(error.reason)}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_recorded_messages_decode_to_their_events(scenario: str) -> None:
    fmt = format_of(scenario.partition("/")[0])
    context = context_of(scenario, fmt)
    expected = json.loads((FOLDER / f"{scenario}.events.json").read_text(encoding="utf-8"))
    messages = messages_of(scenario)
    assert len(messages) == len(expected)
    for message, events in zip(messages, expected, strict=True):
        assert decoded(message, fmt, context) == events, f"line {message.offset + 1}"


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_columns_are_described_in_the_written_order(scenario: str) -> None:
    fmt = format_of(scenario.partition("/")[0])
    context = context_of(scenario, fmt)
    expected = json.loads((FOLDER / f"{scenario}.events.json").read_text(encoding="utf-8"))
    for message, events in zip(messages_of(scenario), expected, strict=True):
        found = decoded(message, fmt, context)
        if isinstance(found, list):
            assert [list(event.get("columns", {})) for event in found] == [
                list(event.get("columns", {})) for event in events
            ]


def test_expected_reasons_are_reasons() -> None:
    for path in FOLDER.glob("*/*.events.json"):
        for events in json.loads(path.read_text(encoding="utf-8")):
            if isinstance(events, dict):
                assert Reason(events["malformed"]), path


def test_written_events_are_of_known_kinds() -> None:
    assert described(Control(kind="ddl", op="DDL")) == {"kind": "ddl", "op": "DDL"}  # type: ignore[arg-type]
