"""`mainstem report`: writes the page and the same as JSON beside it, and prints where they are.

Templates and Parquet are slow to import: `run` imports them, so that other commands do not wait for them.
"""

from __future__ import annotations

from pathlib import Path

from framework.cli.options import Options
from framework.cli.terminal import say, say_json
from framework.pipeline.session import open_tables, read_config
from framework.report import DEFAULT_PAGE


def run(options: Options) -> int:
    """Write the report; what it says does not change the exit code."""
    from framework.report.collect import collect
    from framework.report.files import write_report
    from framework.report.json_document import document
    from framework.report.summary import findings

    config = read_config(options.config)
    page = (
        Path(options.output or Path(options.config).expanduser().absolute().parent / DEFAULT_PAGE)
        .expanduser()
        .absolute()
    )
    with open_tables(config) as tables:
        report = collect(tables)
    data = write_report(report, page)
    if options.json:
        say_json({**document(report), "files": {"html": str(page), "json": str(data)}})
    else:
        say((*(f"{finding.level:<5} {finding.text}" for finding in findings(report)), f"report: {page}"))
    return 0
