"""Every recorded message of every format decodes to the events that are written beside it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.decoding.event_json import event_members
from silver.decoding.format import Context, Format
from tests.silver.recorded import FOLDER, SCENARIOS, context_of, format_of, messages_of


def decoded(message: RawMessage, fmt: Format, context: Context) -> Any:
    try:
        return [event_members(event) for event in fmt.decode(message, context)]
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
