"""The logs of runs, which nothing can restore: a run notices when one of them is lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from framework.contracts.table_names import ALERTS_TABLE, QUALITY_RESULTS_TABLE, RUNS_TABLE
from framework.lakehouse.inventory import Inventory, read_inventory, those_there, write_inventory
from framework.pipeline.checks import Check
from framework.pipeline.layer import Run

_LOST = {
    RUNS_TABLE: "what earlier runs did is not known any more",
    ALERTS_TABLE: "which alerts were sent is not known any more",
    QUALITY_RESULTS_TABLE: (
        "the verdicts of earlier runs are not known any more, and every table is judged anew"
    ),
}
_NAME = "histories"


def lost_histories(run: Run) -> Iterator[str]:
    """The logs that an earlier run has written and that do not exist any more."""
    noted = read_inventory(run.spark, run.lake, _NAME)
    if noted is not None:
        there = those_there(run.spark, run.lake, noted.tables)
        yield from (name for name in noted.tables if name not in there)


def describe_losses(run: Run) -> Sequence[str]:
    """A note for each lost log. In an object store each lookup costs: there `status --verify` reports it."""
    if run.lake.local_root is None:
        return ()
    return tuple(f"{name} was gone, and begins anew: {_LOST[name]}" for name in lost_histories(run))


def note_histories(run: Run) -> None:
    """Record which of the logs exist now, where that costs little."""
    noted = read_inventory(run.spark, run.lake, _NAME)
    if run.lake.local_root is None and noted is not None:
        return
    now = Inventory(those_there(run.spark, run.lake, _LOST))
    if now != noted:
        write_inventory(run.spark, run.lake, _NAME, now)


def verify(run: Run) -> Check:
    """Check whether the logs that runs have written exist."""
    lost = tuple(lost_histories(run))
    action = "put it back from a backup, or run: it begins anew"
    return Check(
        "histories",
        "the tables that tell what runs did are there",
        len(lost),
        ", ".join(lost) or "ops",
        action,
    )
