from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import pytest

from framework.contracts.epochs import EpochRow
from framework.report.row_mapping import open_stops
from silver.epochs.history import History, resumed_row, withdrawn_row
from silver.epochs.stop_points import UNDECIDED


def stopped(epoch: int, batch: int) -> EpochRow:
    return EpochRow("crm", epoch, "stopped", "crm.public.t", 0, 120, UNDECIDED, "it falls", batch)


WITHDRAWN = withdrawn_row(History((stopped(1, 7),)).stopped_sources()["crm"])


@pytest.mark.parametrize(
    ("rows", "batches"),
    [
        ([stopped(1, 7)], [7]),
        ([stopped(1, 7), WITHDRAWN], []),
        ([stopped(1, 7), WITHDRAWN, stopped(1, 9)], [9]),
        ([stopped(1, 7), EpochRow("crm", 2, "begun", "crm.public.t", 0, 120)], []),
        ([stopped(1, 7), stopped(2, 9), resumed_row("erp", 1, 9)], [9]),
    ],
)
def test_a_report_shows_the_stops_that_hold_a_source_in_silver(
    rows: Sequence[EpochRow], batches: Sequence[int]
) -> None:
    standing = History(tuple(rows)).stopped_sources()
    assert [source.batch for source in standing.values()] == batches
    shown = [(stop.source, stop.epoch, stop.offset) for stop in open_stops(map(asdict, rows))]
    assert shown == [
        (name, source.epoch, stop.offset) for name, source in standing.items() for stop in source.stops
    ]
