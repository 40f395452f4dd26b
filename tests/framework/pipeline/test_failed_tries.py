"""A source that fails is tried after pauses that grow, and never waits longer than an hour."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest

from framework.pipeline.failed_tries import FIRST_PAUSE, LONGEST_PAUSE, FailedTries


def test_pauses_grow_up_to_an_hour_and_begin_anew_when_the_source_has_gone_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, tries, tried = 0.0, FailedTries(), list[float]()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    for number in range(1_000):
        now = number * FIRST_PAUSE
        if tries.is_due("sick"):
            tried.append(now)
            tries.note("sick")
        assert tries.is_due("healthy")
    pauses = [later - earlier for earlier, later in pairwise(tried)]
    assert pauses[:7] == [FIRST_PAUSE * 2**power for power in range(7)]
    assert set(pauses[7:]) == {LONGEST_PAUSE}
    tries.forget("sick")
    assert tries.is_due("sick")
    tries.note("sick")
    now += FIRST_PAUSE
    assert tries.is_due("sick")
