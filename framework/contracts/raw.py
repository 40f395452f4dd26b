"""A message as it was received."""

from __future__ import annotations

from msgspec import Struct

TOO_LONG = "mainstem.too_long"
"""The header of a line that no row can hold, with the number of its bytes; they are in the file alone."""


class RawMessage(Struct, frozen=True):
    """One message of a feed: bytes and coordinates, never parsed.

    `key` and `value` are None where the broker's message had none (a null value is a broker tombstone). `timestamp` is
    the broker's, in microseconds of the epoch, None where there is none. `headers` keeps order and repeats.
    """

    source: str
    topic: str
    partition: int
    offset: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
