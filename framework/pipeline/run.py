"""Runs the layers, writes the run history and sends the alerts."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from framework.config.model import Config
from framework.errors import located
from framework.observability.observers import observers_of
from framework.observability.steps import RunFacts, Step, StepEnd
from framework.pipeline.alerts import send_alerts, send_failure_alerts
from framework.pipeline.idle_run import run_idle
from framework.pipeline.layer import LayerReport, Run, layers_through, modules_through
from framework.pipeline.named_table import notes_on_name, notes_without_session
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

    `notify` receives a note for each receiver that could not be reached.
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
    run = RunFacts(config.pipeline, new_run_id(), through, table, config.sources)
    progress = progress or Progress()
    with _observed(run, progress, started, notify) as outcome:
        told = list(notes_without_session(config, table))
        idle = run_idle(config, run.run_id, through, table)
        if idle is not None:
            _tell_layers(progress, idle)
            reports, seconds = list(idle), time.monotonic() - started
        else:
            ahead = modules_through(through)
            with open_pipeline(config, is_exclusive=True, notify=notify, ahead=ahead) as (lake, spark):
                work = Run(spark, lake, config, run.run_id, table, progress=progress)
                notify(told or notes_on_name(work.tables, config, table))
                reports, seconds = _run_layers(work, through, started, notify)
        outcome.end = _end_of(reports)
    return reports, seconds


def _tell_layers(progress: Progress, reports: Sequence[LayerReport]) -> None:
    """Report the layers of a run that needed no session."""
    for report in reports:
        progress.begin(report.layer)
        progress.end(StepEnd(report.counts))


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
    run = RunFacts(work.config.pipeline, work.run_id, through, work.table, work.config.sources)
    with _observed(run, work.progress, started, notify) as outcome:
        reports, seconds = _run_layers(work, through, started, notify)
        outcome.end = _end_of(reports)
    return reports, seconds


def _run_layers(work: Run, through: str, started: float, notify: Notify) -> tuple[list[LayerReport], float]:
    from framework.spark.heap import release_heap
    from framework.spark.running_tasks import running_tasks
    from framework.spark.session import release_streams

    reports = []
    work.progress.watch_tasks(partial(running_tasks, work.spark))
    for layer in layers_through(through):
        log_step(layer.name, run=work.run_id)
        work.progress.begin(layer.name)
        began = time.monotonic()
        release_heap(work.spark)
        try:
            with located(f"layer {layer.name}"):
                report = layer.run(work)
        except BaseException as error:
            work.progress.end(StepEnd(error=error))
            raise
        work.progress.end(StepEnd(report.counts, next(iter(report.errors), None)))
        reports.append(replace(report, seconds=time.monotonic() - began))
    release_streams(work.spark)
    seconds = time.monotonic() - started
    append_run(work, reports, seconds)
    notify(send_alerts(work, reports, exit_code(reports)))
    return reports, seconds


@dataclass(slots=True)
class _Outcome:
    end: StepEnd = field(default_factory=StepEnd)


@contextmanager
def _observed(run: RunFacts, progress: Progress, started: float, notify: Notify) -> Iterator[_Outcome]:
    """Tell the configured observers of a run, and how it ends; notes say which of them could not be told."""
    observers = observers_of(run)
    step = Step("run", run.pipeline, seconds_ago=time.monotonic() - started)
    progress.observe(observers, step)
    outcome = _Outcome()
    observers.begin(step)
    try:
        yield outcome
    except BaseException as error:
        outcome.end = StepEnd(error=error)
        raise
    finally:
        observers.end(step, outcome.end)
        notify(observers.send())


def _end_of(reports: Sequence[LayerReport]) -> StepEnd:
    counts = {name: count for report in reports for name, count in report.counts.items()}
    errors = (error for report in reports for error in report.errors)
    return StepEnd({**counts, "exit_code": exit_code(reports)}, next(errors, None))


def exit_code(reports: Sequence[LayerReport]) -> int:
    """The exit code after a run: 1 after an error, 3 for a parked table or a failed rule, else 0."""
    if any(report.errors for report in reports):
        return 1
    is_broken = any(result.is_error for report in reports for result in report.failures)
    return (
        3 if is_broken or any(line.state == "PARKED" for report in reports for line in report.tables) else 0
    )
