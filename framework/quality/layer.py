"""The quality step as the command line sees it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from framework.alerts import ALERTS_TABLE
from framework.contracts.quality import RESULTS_TABLE
from framework.layer import Kept, Layer, LayerReport, Run, installed_layers
from framework.quality.job import judge
from framework.runs import RUNS_TABLE


def _run(run: Run) -> LayerReport:
    if not run.config.is_judged:
        return LayerReport("quality")
    judged = judge(run, list(installed_layers()))
    failed = sum(result.success is False for result in judged.results)
    return LayerReport(
        "quality", {"rules_checked": len(judged.results), "rules_failed": failed}, failures=judged.failures, notes=judged.notes
    )


def _status(run: Run) -> dict[str, Any]:
    return {}


def _kept(run: Run) -> Iterator[Kept]:
    """The logs of whole runs, which belong to no other layer."""
    for name in (RUNS_TABLE, RESULTS_TABLE, ALERTS_TABLE) if run.table is None else ():
        if run.lake.exists(run.spark, name):
            yield Kept(name)


LAYER = Layer(name="quality", run=_run, status=_status, kept=_kept)
