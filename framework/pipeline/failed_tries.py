"""When work that failed is tried again, in the rounds of one command: after pauses that grow.

A try of a source reads all its messages and changes, and one of a table may rebuild it. Mostly it fails as
the one before it did.
"""

from __future__ import annotations

import time
from collections.abc import Hashable

from framework.errors import MainstemError

FIRST_PAUSE = 30.0
LONGEST_PAUSE = 3_600.0
"""Seconds between two tries of the same. The pause is doubled after each try that fails."""


class FailedTries:
    """What this command has tried in vain, by any name. The first try is never put off."""

    def __init__(self) -> None:
        self._pauses: dict[Hashable, float] = {}
        self._due: dict[Hashable, float] = {}
        self._failures: dict[Hashable, MainstemError] = {}

    def is_due(self, work: Hashable) -> bool:
        """Whether it may be tried now."""
        return time.monotonic() >= self._due.get(work, 0.0)

    def note(self, work: Hashable, failure: MainstemError | None = None) -> None:
        """Put off the next try of what has failed, for this reason."""
        pause = min(2 * self._pauses.get(work, FIRST_PAUSE / 2), LONGEST_PAUSE)
        self._pauses[work] = pause
        self._due[work] = time.monotonic() + pause
        if failure is not None:
            self._failures[work] = failure

    def failure(self, work: Hashable) -> MainstemError | None:
        """Why it failed the last time; None where that was not noted, or where it went well."""
        return self._failures.get(work)

    def forget(self, work: Hashable) -> None:
        """It went well: should it fail again, its pauses begin anew."""
        self._pauses.pop(work, None)
        self._due.pop(work, None)
        self._failures.pop(work, None)
