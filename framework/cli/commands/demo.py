"""`mainstem demo`: runs the sample feeds through all layers and writes a report."""

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
from framework.pipeline.run import apply_waiting, exit_code
from framework.pipeline.session import open_tables, read_config
from framework.pipeline.status import read_status
from framework.pipeline.step_log import show_steps
from framework.spark.session import shared_session


def run(options: Options) -> int:
    """Run the sample feeds through all layers, in the given folder or a new one, and print the outcome."""
    # the feeds are too small for more compilation to pay off
    os.environ.setdefault("MAINSTEM_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    if options.verbose:
        show_steps()
    folder = feeds.prepare(options.folder)
    config = read_config(str(folder / "mainstem.yml"))
    with shared_session(config):
        return _run_parts(folder, config, is_json=options.json)


def _run_parts(folder: Path, config: Config, *, is_json: bool) -> int:
    """Land and apply one part after the other, then print the status; returns the exit code."""
    runs: list[dict[str, Any]] = []
    code = 0
    parts = feeds.parts(folder)
    for part in parts:
        if not is_json:
            say_line(f"-- landing part {part}")
        feeds.land(folder, part)
        through = "quality" if part == parts[-1] else "gold"
        with show_progress(is_shown=not is_json) as progress:
            reports, seconds = apply_waiting(config, through, notify=say_note, progress=progress)
        runs.append(run_document(reports, seconds))
        code = exit_code(reports) if is_json else print_run(reports, seconds, is_json=False)
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


def _write_report(config: Config, page: Path) -> dict[str, Any]:
    """Write the report; returns the status."""
    from framework.report.collect import collect  # slow to import, as the templates are
    from framework.report.files import write_report

    with open_tables(config) as tables:
        status = read_status(tables)
        report = collect(tables)
    write_report(report, page)
    return status
