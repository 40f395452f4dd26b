"""The quality step as the command line sees it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from framework.alerts import ALERTS_TABLE
from framework.contracts.quality import RESULTS_TABLE
from framework.errors import MainstemError, brief
from framework.layer import Kept, Layer, LayerReport, Run, installed_layers
from framework.quality.idle import is_idle, note_idle
from framework.quality.job import judge
from framework.runs import RUNS_TABLE


def _run(run: Run) -> LayerReport:
    if not run.config.is_judged or is_idle(run):
        return LayerReport("quality")
    try:
        judged = judge(run, list(installed_layers()))
        if judged.holds:
            note_idle(run, judged.replicas)
    except Exception as error:  # what the layers before have done, and what they have to tell, is not lost with it
        return LayerReport("quality", errors=(_unjudged(error),))
    failed = sum(result.success is False for result in judged.results)
    return LayerReport(
        "quality", {"rules_checked": len(judged.results), "rules_failed": failed}, failures=judged.failures, notes=judged.notes
    )


def _unjudged(error: Exception) -> MainstemError:
    if isinstance(error, MainstemError):
        return error
    return MainstemError(
        "NOT_JUDGED",
        found=brief(error),
        where="the quality step, behind bronze, silver and gold",
        action="mend what is named above, if anything is, and run again; `mainstem status --verify` checks the tables without it",
    )


def _status(run: Run) -> dict[str, Any]:
    return {}


def _kept(run: Run) -> Iterator[Kept]:
    """The logs of whole runs, which belong to no other layer."""
    for name in (RUNS_TABLE, RESULTS_TABLE, ALERTS_TABLE) if run.table is None else ():
        if run.lake.exists(run.spark, name):
            yield Kept(name)


LAYER = Layer(name="quality", run=_run, status=_status, kept=_kept)
