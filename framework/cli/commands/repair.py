"""`mainstem replay` and `mainstem rebuild`: repair tables from what the lakehouse holds."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from framework.cli.options import Options
from framework.cli.output import print_run
from framework.cli.progress import show_progress
from framework.cli.terminal import say_note
from framework.errors import located
from framework.pipeline.layer import Layer, LayerReport, Run, installed_layers
from framework.pipeline.run import new_run_id
from framework.pipeline.run_history import append_run
from framework.pipeline.session import open_pipeline, read_config
from framework.spark.running_tasks import running_tasks


def replay(options: Options) -> int:
    """Decode the messages in quarantine again, after a fix or a new setting, and apply the result."""

    def process(layer: Layer, work: Run) -> LayerReport | None:
        return layer.replay(work, options.dismissed) if layer.replay else None

    return _run(options, process)


def rebuild(options: Options) -> int:
    """Rebuild one table from all its changes in silver, in one commit.

    With `--from bronze` its messages are decoded again first.
    """

    def process(layer: Layer, work: Run) -> LayerReport | None:
        if layer.redecode and options.origin == "bronze":
            return layer.redecode(work, options.table)
        return layer.rebuild(work, options.table) if layer.rebuild else None

    return _run(options, process)


def _run(options: Options, process: Callable[[Layer, Run], LayerReport | None]) -> int:
    config = read_config(options.config)
    started = time.monotonic()
    with (
        show_progress(is_shown=not options.json) as progress,
        open_pipeline(config, is_exclusive=True, notify=say_note) as (lake, spark),
    ):
        work = Run(spark, lake, config, new_run_id(), progress=progress)
        progress.watch_tasks(partial(running_tasks, spark))
        reports = []
        for layer in installed_layers():
            progress.begin(layer.name)
            with located(f"layer {layer.name}"):
                report = process(layer, work)
            progress.end()
            reports += [report] if report is not None else []
        seconds = time.monotonic() - started
        append_run(work, reports, seconds)
    return print_run(reports, seconds, is_json=options.json)
