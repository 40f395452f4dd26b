"""Runs the layers, writes the run history and sends the alerts."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from framework.config.model import Config
from framework.errors import located
from framework.pipeline.alerts import send_alerts, send_failure_alerts
from framework.pipeline.layer import ORDER, LayerReport, Run, installed_layers
from framework.pipeline.progress import Progress
from framework.pipeline.run_history import append_run
from framework.pipeline.session import Notify, ignore_notes, open_pipeline
from framework.pipeline.step_log import log_step


def new_run_id() -> str:
    """The identifier of a new run, as in `ops/runs`."""
    return uuid.uuid4().hex[:12]


@contextmanager
def alert_on_failure(config: Config, notify: Notify = ignore_notes) -> Iterator[None]:
    """Send an alert where the run in this context fails before its end; the error goes on.

    `notify` receives a note for each webhook that could not be reached.
    """
    try:
        yield
    except Exception as error:
        notify(send_failure_alerts(config, error))
        raise


def apply_waiting(
    config: Config,
    through: str,
    table: str | None = None,
    *,
    notify: Notify = ignore_notes,
    progress: Progress | None = None,
) -> tuple[list[LayerReport], float]:
    """Open the pipeline and run its layers.

    Args:
        config: The pipeline.
        through: The last layer to run.
        table: The dotted name of the one table to process, None for all.
        notify: Receives notes for people.
        progress: Receives what the layers have done and what is left.

    Returns:
        The report of each layer, and the seconds that the run took, with the start of the session.
    """
    started = time.monotonic()
    with open_pipeline(config, is_exclusive=True, notify=notify) as (lake, spark):
        work = Run(spark, lake, config, new_run_id(), table, progress=progress or Progress())
        return run_layers(work, through, started, notify=notify)


def run_layers(
    work: Run,
    through: str,
    started: float,
    *,
    notify: Notify = ignore_notes,
) -> tuple[list[LayerReport], float]:
    """Run the layers up to `through`; returns the report of each, and the seconds since `started`.

    `started` is a time of `time.monotonic()`. The run history and the alerts are written, too.
    """
    from framework.spark.running_tasks import running_tasks
    from framework.spark.session import release_streams

    reports = []
    work.progress.watch_tasks(partial(running_tasks, work.spark))
    for layer in installed_layers():
        if ORDER.index(layer.name) > ORDER.index(through):
            break
        log_step(layer.name, run=work.run_id)
        work.progress.begin(layer.name)
        began = time.monotonic()
        try:
            with located(f"layer {layer.name}"):
                report = layer.run(work)
            reports.append(replace(report, seconds=time.monotonic() - began))
        finally:
            work.progress.end()
    release_streams(work.spark)
    seconds = time.monotonic() - started
    append_run(work.spark, work.lake, work.run_id, reports, seconds)
    notify(send_alerts(work, reports, exit_code(reports)))
    return reports, seconds


def exit_code(reports: Sequence[LayerReport]) -> int:
    """The exit code after a run: 1 after an error, 3 for a parked table or a failed rule, else 0."""
    if any(report.errors for report in reports):
        return 1
    is_broken = any(result.is_error for report in reports for result in report.failures)
    return (
        3 if is_broken or any(line.state == "PARKED" for report in reports for line in report.tables) else 0
    )
