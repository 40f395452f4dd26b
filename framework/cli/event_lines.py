"""What a decoder says of messages, as lines for people: the place of each message, and its events as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from framework.text.formatting import one_line

_WIDE = 100
_LONGEST = 2_000


def event_lines(messages: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The lines of these messages, and at the end how many messages became events."""
    decoded = quarantined = unread = 0
    for message in messages:
        place = f"{message['file']}:{message['line']}"
        if "fault" in message:
            unread += 1
            yield f"{place}  no message: {message['fault']}"
        elif "malformed" in message:
            quarantined += 1
            detail = f" ({message['detail']})" if message["detail"] else ""
            yield f"{place}  quarantined: {message['malformed']}{detail}"
        else:
            decoded += 1
            yield place
            for event in message["events"]:
                yield from (f"  {line}" for line in json_lines(event))
    counts = f"messages with events: {decoded:,}, quarantined: {quarantined:,}"
    yield counts + (f", lines without a message: {unread:,}" if unread else "")


def json_lines(members: Mapping[str, Any]) -> Iterator[str]:
    """An object as JSON with one member a line; wide objects in it have one member a line, too.

    A line of more than 2,000 characters is cut.
    """
    yield "{"
    for name, value, comma in _separated(members):
        line = f"  {_text(name)}: {_text(value)}{comma}"
        if len(line) > _WIDE and isinstance(value, Mapping):
            yield f"  {_text(name)}: {{"
            yield from (
                one_line(f"    {_text(inner)}: {_text(part)}{end}", _LONGEST)
                for inner, part, end in _separated(value)
            )
            yield f"  }}{comma}"
        else:
            yield one_line(line, _LONGEST)
    yield "}"


def _separated(members: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    """Each member, with the comma that follows it."""
    last = len(members) - 1
    return ((name, value, "," if at < last else "") for at, (name, value) in enumerate(members.items()))


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
