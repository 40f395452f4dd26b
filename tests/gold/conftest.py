"""Gold's tests read silver as a large pipeline does: without the cache for the changes of small tables."""

from __future__ import annotations

import pytest

from gold.writing import change_cache


@pytest.fixture(autouse=True)
def _no_cache(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "with_cache" not in request.fixturenames:
        monkeypatch.setattr(change_cache, "MAX_CACHED_ROWS", -1)


@pytest.fixture
def with_cache() -> None:
    """Requested by tests of the cache."""
