"""A message as it was received."""

from __future__ import annotations

from msgspec import Struct

OURS = "mainstem."
"""The start of our own headers' names. A producer's header of such a name lands under `foreign_name`."""
BAD_COORDINATES = "mainstem.bad_coordinates"
"""The header of a line of layout `kcat` that is no kcat object, or of a row of a table that lacks a
coordinate; its value says why."""
TOO_LONG = "mainstem.too_long"
"""The header of a line that no row can hold, with the number of its bytes; only the file has them."""


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
