"""The sequences that OMS makes: a time, then the number of the change in its second.

    16093446719     the ninth change of the second 1609344671
    160934467110    the tenth one
    16093446721     the first one of the next second

The counter has up to five digits, and nothing says that zeros fill it up: as whole numbers, the tenth change
would be behind the first one of the next second.
"""

from __future__ import annotations

_SECONDS_DIGITS = 10


def seconds_and_counter(sequence: int) -> tuple[int, int] | None:
    """Seconds since the epoch, and the counter, 0 without one; None for a number that is too short."""
    digits = str(sequence)
    if len(digits) < _SECONDS_DIGITS:
        return None
    return int(digits[:_SECONDS_DIGITS]), int(digits[_SECONDS_DIGITS:] or "0")
