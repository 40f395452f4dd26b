"""Gold's tests read silver as a large pipeline does; those of the whole pipeline hold the changes of their small tables."""

from __future__ import annotations

import pytest

from gold import held


@pytest.fixture(autouse=True)
def _nothing_is_held(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "is_held" not in request.fixturenames:
        monkeypatch.setattr(held, "HELD_ROWS", -1)


@pytest.fixture
def is_held() -> None:
    """Asked for by the tests of what is held."""
