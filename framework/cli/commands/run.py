"""`mainstem run`: lands, normalizes and applies everything that waits, once or in rounds."""

from __future__ import annotations

import sys
import time
from dataclasses import replace

from framework.cli.options import Options
from framework.cli.output import print_run
from framework.cli.progress import show_progress
from framework.cli.terminal import say_note
from framework.pipeline.continuous import repeat, until_asked_to_end
from framework.pipeline.layer import Run, modules_through
from framework.pipeline.named_table import notes_on_name
from framework.pipeline.run import alert_on_failure, apply_waiting, exit_code, new_run_id, run_layers
from framework.pipeline.session import open_pipeline, read_config
from framework.pipeline.step_log import show_steps


def run(options: Options) -> int:
    """Run the layers and print a line for each table, then the totals; returns the exit code."""
    config = read_config(options.config)
    if options.without_quality and options.through == "quality":
        options.through = "gold"
    table = options.table or None  # a parameter of a job that nobody has set is an empty text
    if options.verbose:
        show_steps()
    with alert_on_failure(config, say_note):
        if options.continuous is not None:
            with (
                open_pipeline(
                    config, is_exclusive=True, notify=say_note, ahead=modules_through(options.through)
                ) as (lake, spark),
                until_asked_to_end() as ended,
            ):
                work = Run(spark, lake, config, "", table)
                say_note(notes_on_name(work.tables, config, table))
                return repeat(lambda: _round(work, options), options.continuous, ended)
        with show_progress(is_shown=not options.json) as progress:
            reports, seconds = apply_waiting(
                config, options.through, table, notify=say_note, progress=progress
            )
    return print_run(reports, seconds, is_json=options.json)


def _round(work: Run, options: Options) -> int:
    """Run the layers once for a continuous run; a round that finds nothing new prints nothing."""
    started = time.monotonic()
    with show_progress(is_shown=not options.json) as progress:
        current = replace(work, run_id=new_run_id(), memo={}, progress=progress)
        reports, seconds = run_layers(current, options.through, started, notify=say_note)
    if any(report.tables or report.errors or any(report.counts.values()) for report in reports):
        code = print_run(reports, seconds, is_json=options.json)
        sys.stdout.flush()
        return code
    return exit_code(reports)  # a rule may still be broken
