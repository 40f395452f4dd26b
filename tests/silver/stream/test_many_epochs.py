"""The epochs of many sources: what is recorded of them is not read once more for each of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from framework.config.model import load_config
from framework.contracts.epochs import EpochRow, PartitionStart
from framework.lakehouse.lakehouse import Lakehouse
from silver.batches.run_state import RunState
from silver.epochs.history import (
    EpochStart,
    History,
    StoppedSource,
    left_out_row,
    resumed_row,
    started_rows,
)
from silver.layer import LAYER
from silver.stream.resume import begin_epochs

NAMES = [f"feed_{number}" for number in range(40)]


class Counted(tuple[EpochRow, ...]):
    """Rows that count how often one of them is read."""

    reads = 0

    def __iter__(self) -> Iterator[EpochRow]:
        for row in super().__iter__():
            Counted.reads += 1
            yield row


class Asked(History):
    """A history that counts how often it is asked which sources are stopped."""

    times = 0

    def stopped_sources(self) -> dict[str, StoppedSource]:
        Asked.times += 1
        return super().stopped_sources()


def test_the_rows_of_all_sources_are_not_read_for_each_source(tmp_path: Path) -> None:
    """A run with a thousand sources whose epoch was raised once took minutes for this alone."""
    text = "pipeline: shop\nlakehouse: ./lake\nsources:\n"
    text += "".join(f"  {name}: {{format: canal, files: ./{name}, epoch: 2}}\n" for name in NAMES)
    (tmp_path / "mainstem.yml").write_text(text)
    config = load_config(tmp_path / "mainstem.yml", formats=LAYER.options())
    rows = [row for name in NAMES for row in _of_source(name)]
    state = RunState(Lakehouse(config.root), config, {}, history=Asked(Counted(rows)))
    Counted.reads = Asked.times = 0
    nothing: Any = None  # all epochs have begun: nothing is read or written
    begin_epochs(nothing, state)
    history = state.epoch_history(nothing)
    assert history.passed_over(NAMES) == NAMES[:1]
    assert {tuple(history.epochs(name)) for name in NAMES} == {(1, 2)}
    assert Counted.reads <= 5 * len(rows)
    assert Asked.times <= 3


def _of_source(name: str) -> list[EpochRow]:
    start = EpochStart(name, 2, 1, [PartitionStart("orders", 0, 70)])
    passed = [] if name == NAMES[0] else [resumed_row(name, 2, 5001)]
    return [*started_rows(start, History()), left_out_row(name, 5000), *passed]
