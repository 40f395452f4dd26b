"""Collects the faults of a configuration, so that all of them are told at once."""

from __future__ import annotations

from framework.config.document import Document, KeyPath
from framework.errors import ConfigurationError, nearest


class Faults:
    """The faults of one document, each at a key path."""

    def __init__(self) -> None:
        self._found: list[tuple[KeyPath, ConfigurationError]] = []

    def add(self, keys: KeyPath, error: ConfigurationError) -> None:
        """Add a fault at a key path."""
        self._found.append((keys, error))

    def covers(self, keys: KeyPath) -> bool:
        """Whether a fault at, below or above a key path is known: one here may only follow from it."""
        return any(keys[: len(path)] == path or path[: len(keys)] == keys for path, _ in self._found)

    def is_misspelt(self, keys: KeyPath) -> bool:
        """Whether an unknown key beside a missing key is similar to it."""
        return any(
            error.condition == "CONFIG_UNKNOWN_KEY"
            and path[:-1] == keys[:-1]
            and nearest(str(path[-1]), [str(keys[-1])]) is not None
            for path, error in self._found
        )

    def raise_any(self, document: Document) -> None:
        """Raise ConfigurationError if there is a fault: the first in the file, with the others."""
        if self._found:
            ordered = sorted(self._found, key=lambda fault: document.position(fault[0]) or (0, 0))
            first, *others = [error for _, error in ordered]
            first.others = tuple(others)
            raise first
