"""The status of a pipeline, and the checks of everything that must hold in its tables."""

from __future__ import annotations

from typing import Any

from framework.pipeline import lost_logs
from framework.pipeline.checks import Check
from framework.pipeline.layer import Run, View, installed_layers


def read_status(view: View) -> dict[str, Any]:
    """The status of a pipeline: what each layer adds to it."""
    status: dict[str, Any] = {"pipeline": view.config.pipeline}
    for layer in installed_layers():
        status.update(layer.status(view))
    return status


def run_checks(run: Run) -> list[Check]:
    """The results of all checks: that of the logs of runs, then those of each layer."""
    from framework.lakehouse.session_size import tune_for_lakehouse

    tune_for_lakehouse(run.spark, run.lake)
    checks = [lost_logs.verify(run)]
    for layer in installed_layers():
        if layer.verify is not None:
            checks += layer.verify(run)
    return checks
