"""`mainstem demo`: the sample feeds through all layers, and a report of what came of it."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from framework import demonstration
from framework.commands import (
    apply_waiting,
    exit_code,
    opened,
    print_json,
    print_status,
    read_config,
    read_status,
    report_run,
    run_document,
)
from framework.config import Config
from framework.layer import Run
from framework.report.collect import collect
from framework.report.command import write_report
from framework.run_log import show_steps
from framework.session import shared_session


def demo(options: argparse.Namespace) -> int:
    """Run the sample feeds through all layers, in a new folder or in the one named, and say what came of it."""
    os.environ.setdefault("MAINSTEM_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")  # the feeds are too small for more to pay
    if options.verbose:
        show_steps()
    folder = demonstration.prepare(options.folder)
    config = read_config(argparse.Namespace(config=str(folder / "mainstem.yml")))
    with shared_session(config):
        return _tell(folder, config, is_json=options.json)


def _tell(folder: Path, config: Config, *, is_json: bool) -> int:
    """Land and apply part after part, then show how it stands; returns the exit code."""
    runs: list[dict[str, Any]] = []
    code = 0
    parts = demonstration.parts(folder)
    for part in parts:
        if not is_json:
            print(f"-- landing part {part}", flush=True)
        demonstration.land(folder, part)
        reports, seconds = apply_waiting(config, "quality" if part == parts[-1] else "gold")
        runs.append(run_document(reports, seconds))
        code = exit_code(reports) if is_json else report_run(reports, seconds, is_json=False)
        if code not in (0, 3):
            return code
    page = folder / demonstration.REPORT
    found = _look(config, page)
    if is_json:
        print_json({"folder": str(folder), "report": str(page), "runs": runs, "status": found})
    else:
        print()
        print_status(found, is_json=False)
        print(demonstration.farewell(folder))
    return code


def _look(config: Config, page: Path) -> dict[str, Any]:
    """The status; writes the report, from the same session."""
    with opened(config, is_exclusive=False) as (lake, spark):
        found = read_status(Run(spark, lake, config, "status"))
        report = collect(spark, lake, config)
    write_report(report, page)
    return found
