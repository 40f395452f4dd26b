"""A message as it was received."""

from __future__ import annotations

import re

from msgspec import Struct

OURS = "mainstem."
"""The start of our own headers' names. A producer's header of such a name lands under `foreign_name`."""
BAD_COORDINATES = "mainstem.bad_coordinates"
"""The header of a line of layout `kcat` that is no kcat object, or of a row of a table that lacks a
coordinate; its value says why."""
TOO_LONG = "mainstem.too_long"
"""The header of a line that no row can hold, with the number of its bytes; only the file has them."""


_TOPIC_LIKE = re.compile(r"[A-Za-z0-9._-]+")
_FILE_ENDING = re.compile(r"\.(?:json|jsonl|ndjson|kcat|txt|gz)$", re.IGNORECASE)


class RawMessage(Struct, frozen=True):
    """One message of a feed: bytes and coordinates, never parsed.

    `key` and `value` are None where the broker's message had none (a null value is a broker tombstone).
    `timestamp` is the broker's, in microseconds since the epoch, None where there is none. `headers` keeps
    order and repeats.
    """

    source: str
    topic: str
    partition: int
    offset: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def foreign_name(name: str) -> str:
    """The name under which a producer's header lands: the start of our names is doubled.

    No two names become one, so that the sent name stays known.
    """
    return OURS + name if name.startswith(OURS) else name


def topic_of_bad_line(file: str) -> str:
    """The topic of a line of a file of layout `kcat` that is no kcat object: the path of its file.

    Messages and bad lines of one file must not share coordinates. So a file that has the name of a topic, as
    `kcat -t orders > orders` makes it, is `./orders`: no topic of a broker has a slash.
    """
    is_like_topic = _TOPIC_LIKE.fullmatch(file) is not None and _FILE_ENDING.search(file) is None
    return f"./{file}" if is_like_topic else file
