"""Few messages that the layers take for many."""

from __future__ import annotations

import pytest

from gold.writing import change_cache
from silver.batches import decoding, process


def take_for_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks decode each batch and write its files, and gold reads its changes table by table."""
    monkeypatch.setattr(decoding, "FEW_MESSAGES", 0)
    monkeypatch.setattr(process, "SMALL_ROWS", 0)
    monkeypatch.setattr(change_cache, "MAX_CACHED_ROWS", -1)
