"""The age of the newest event of a source, which each table with a freshness rule asks for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from framework.contracts.ddl_actions import TableName
from framework.quality.batch_log import Extent
from gold.operations import progress


class Extents(dict[tuple[str, TableName | None], Extent]):
    """The extents of tables; counts how often all of them are gone through."""

    reads = 0

    def items(self) -> Any:
        self.reads += 1
        return super().items()


def test_a_sources_age_is_found_once_for_all_of_its_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    now = int(datetime.now(UTC).timestamp())
    extents = Extents(
        {("feed", TableName("shop", None, f"t{n}")): Extent((now - 60 - n) * 1_000_000) for n in range(100)}
    )
    extents["feed", None] = Extent((now - 30) * 1_000_000)
    extents["feed", TableName("shop", None, "empty")] = extents["idle", None] = Extent()
    monkeypatch.setattr(progress, "memory_of", lambda _: None)
    monkeypatch.setattr(progress, "batch_log", lambda _: None)
    monkeypatch.setattr(progress, "keep_batches", lambda *_: None)
    monkeypatch.setattr(progress, "_read_extents", lambda *_: (extents, 7, 100))
    nothing: Any = None
    clock = progress.Clock(nothing, {})
    ages = {clock.source_age("feed") for _ in range(100)}
    assert min(age for age in ages if age is not None) in range(30, 40)
    assert len(ages) == 1
    assert clock.source_age("idle") is clock.source_age("unknown") is None
    assert extents.reads == 1
