"""The sequence: one text whose byte order is the order of the source.

Each number is written as two digits of length and its digits (`7` gives `017`, `120` gives `03120`) and the numbers
are joined by `.`, so comparing bytes compares numbers. First stands the epoch, then a mark (`0` for a snapshot row
without a position, which sorts before every streamed change of its epoch, else `1`), then the format's position. Where
a format's position does not identify one change, the broker's partition and offset and the row's ordinal follow.
"""

from __future__ import annotations

from collections.abc import Iterable

_SNAPSHOT, _STREAM = "010", "011"
MAX_DIGITS = 99


def number_part(value: int) -> str:
    """One number, order-preserving. Raises ValueError below zero or beyond 99 digits."""
    text = str(value)
    if value < 0 or len(text) > MAX_DIGITS:
        raise ValueError("a position is a number from 0 to 99 digits")
    return f"{len(text):02d}{text}"


def joined(numbers: Iterable[int]) -> str:
    """Several numbers, most significant first."""
    return ".".join(map(number_part, numbers))


def sequence_of(epoch: int, position: tuple[int, ...] | None, ties: tuple[int, ...]) -> str:
    """The sequence of a change. `ties` is empty where the position identifies one change."""
    if position is None:
        return ".".join((number_part(epoch), _SNAPSHOT, joined(ties) if ties else "010"))
    parts = [number_part(epoch), _STREAM, joined(position)]
    if ties:
        parts.append(joined(ties))
    return ".".join(parts)
