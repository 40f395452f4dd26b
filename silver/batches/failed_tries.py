"""When a source that failed is tried again, in the rounds of one command: after pauses that grow.

A try reads all messages and all changes of its source, and mostly fails as the one before it did.
"""

from __future__ import annotations

import time

FIRST_PAUSE = 30.0
LONGEST_PAUSE = 3_600.0
"""Seconds between two tries of a source. The pause is doubled after each try that fails."""


class FailedTries:
    """The sources that this command has tried in vain. Its first try is never put off."""

    def __init__(self) -> None:
        self._pauses: dict[str, float] = {}
        self._due: dict[str, float] = {}

    def is_due(self, source: str) -> bool:
        """Whether a source may be tried now."""
        return time.monotonic() >= self._due.get(source, 0.0)

    def note(self, source: str) -> None:
        """Put off the next try of a source that has failed."""
        pause = min(2 * self._pauses.get(source, FIRST_PAUSE / 2), LONGEST_PAUSE)
        self._pauses[source] = pause
        self._due[source] = time.monotonic() + pause

    def forget(self, source: str) -> None:
        """A source goes on: should it fail again, its pauses begin anew."""
        self._pauses.pop(source, None)
        self._due.pop(source, None)
