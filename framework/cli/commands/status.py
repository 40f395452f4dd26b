"""`mainstem status`: the tables of a pipeline, the counts that account for its messages, and what waits."""

from __future__ import annotations

from dataclasses import asdict

from framework.cli.options import Options
from framework.cli.output import check_lines, print_status
from framework.cli.terminal import say
from framework.pipeline.checks import Check
from framework.pipeline.layer import Run
from framework.pipeline.session import open_pipeline, open_tables, read_config
from framework.pipeline.status import read_status, run_checks


def run(options: Options) -> int:
    """Print the status, with the checks of `--verify`; returns 1 if a check fails."""
    config = read_config(options.config)
    checks: list[Check] = []
    if options.verify:
        with open_pipeline(config, is_exclusive=False) as (lake, spark):
            work = Run(spark, lake, config, "status")
            status, checks = read_status(work), run_checks(work)
    else:
        with open_tables(config) as tables:
            status = read_status(tables)
    if options.verify and options.json:
        status["checks"] = [{**asdict(check), "ok": check.is_ok} for check in checks]
    print_status(status, is_json=options.json)
    if not options.json:
        say(line for check in checks for line in check_lines(check))
    return 0 if all(check.is_ok for check in checks) else 1
