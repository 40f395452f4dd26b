"""The quality step as the command line sees it."""

from __future__ import annotations

from typing import Any

from framework.layer import Layer, LayerReport, Run, installed_layers
from framework.quality.job import judge


def _run(run: Run) -> LayerReport:
    if not run.config.is_judged:
        return LayerReport("quality")
    judged = judge(run, list(installed_layers()))
    failed = sum(result.success is False for result in judged.results)
    return LayerReport("quality", {"rules_checked": len(judged.results), "rules_failed": failed}, failures=judged.failures)


def _status(run: Run) -> dict[str, Any]:
    return {}


LAYER = Layer(name="quality", run=_run, status=_status)
