"""`mainstem demo`: runs the sample feeds through all layers, repairs a parked table and writes a report."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from framework.cli.options import Options
from framework.cli.output import print_run, print_status, run_document
from framework.cli.progress import show_progress
from framework.cli.terminal import say, say_json, say_line, say_note
from framework.config.model import Config
from framework.demo import feeds
from framework.pipeline.layer import modules_through
from framework.pipeline.run import apply_waiting, exit_code
from framework.pipeline.session import open_tables, read_config
from framework.pipeline.status import read_status
from framework.pipeline.step_log import show_steps
from framework.spark.session import shared_session

_PARKED = (
    "-- hr.employee is parked: its source has a new column, and `schema_policy: fail` asks first.",
    "   Its readers keep the last good version, its changes wait, and the other tables have gone on.",
    "-- repairing it: mainstem.yml says `schema_policy: lenient` now, and the next run catches up",
)
LATER = ("framework.quality.job", "framework.report.collect", "framework.report.files")
"""What the last run and the report import beside the layers: loaded while the session starts."""


def run(options: Options) -> int:
    """Run the sample feeds through all layers, in the given folder or a new one, and print the outcome."""
    # the feeds are too small for more compilation to pay off
    os.environ.setdefault("MAINSTEM_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmn512m")
    if options.verbose:
        show_steps()
    folder = feeds.prepare(options.folder)
    config = read_config(str(folder / feeds.CONFIGURATION))
    with shared_session(config, [*modules_through("quality"), *LATER]):
        return _run_parts(folder, config, is_json=options.json)


def _run_parts(folder: Path, config: Config, *, is_json: bool) -> int:
    """Land and apply one part after the other, repair the parked table, print the status.

    Returns the exit code of the last run.
    """
    runs: list[dict[str, Any]] = []
    for part in feeds.parts(folder):
        if not is_json:
            say_line(f"-- landing part {part}")
        feeds.land(folder, part)
        code = _run(config, "gold", runs, is_json=is_json)
        if code not in (0, 3):
            return code
    if not is_json:
        say(_PARKED)
    feeds.repair(folder)
    config = read_config(str(folder / feeds.CONFIGURATION))
    code = _run(config, "quality", runs, is_json=is_json)
    if code not in (0, 3):
        return code
    page = folder / feeds.REPORT
    status = _write_report(config, page)
    if is_json:
        say_json({"folder": str(folder), "report": str(page), "runs": runs, "status": status})
    else:
        say_line("")
        print_status(status, is_json=False)
        say(feeds.farewell(folder).splitlines())
    return code


def _run(config: Config, through: str, runs: list[dict[str, Any]], *, is_json: bool) -> int:
    """Apply what waits, print it and add it to `runs`; returns the exit code."""
    with show_progress(is_shown=not is_json) as progress:
        reports, seconds = apply_waiting(config, through, notify=say_note, progress=progress)
    runs.append(run_document(reports, seconds))
    return exit_code(reports) if is_json else print_run(reports, seconds, is_json=False)


def _write_report(config: Config, page: Path) -> dict[str, Any]:
    """Write the report; returns the status."""
    from framework.report.collect import collect  # slow to import, as the templates are
    from framework.report.files import write_report

    with open_tables(config) as tables:
        status = read_status(tables)
        report = collect(tables)
    write_report(report, page)
    return status
