"""`mainstem report`: writes the page and the same as JSON beside it, and says where they are."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from framework.commands import opened, print_json, read_config
from framework.errors import MainstemError
from framework.report import DEFAULT_PAGE
from framework.report.collect import collect
from framework.report.document import document, json_text
from framework.report.facts import findings
from framework.report.page import html
from framework.report.records import Report
from framework.words import one_line


def report(options: argparse.Namespace) -> int:
    """Write the report; what it has to tell does not change the exit code."""
    config = read_config(options)
    page = Path(options.output or Path(options.config).expanduser().absolute().parent / DEFAULT_PAGE).expanduser().absolute()
    with opened(config, is_exclusive=False) as (lake, spark):
        found = collect(spark, lake, config)
    data = write_report(found, page)
    if options.json:
        print_json({**document(found), "files": {"html": str(page), "json": str(data)}})
    else:
        print("\n".join((*(f"{finding.level:<5} {one_line(finding.text)}" for finding in findings(found)), f"report: {page}")))
    return 0


def write_report(report: Report, page: Path) -> Path:
    """Write the page, and the data beside it under the same name with `.json`, which is returned.

    Each file is replaced at once or not at all. Raises MainstemError where they cannot be written.
    """
    data = page.with_suffix(".json") if page.suffix != ".json" else page.with_name(f"{page.name}.json")
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        for file, text in ((page, html(report)), (data, json_text(report))):
            draft = file.with_name(f".{file.name}.{os.getpid()}.tmp")
            draft.write_text(text, encoding="utf-8", newline="\n")
            draft.replace(file)
    except OSError as error:
        raise MainstemError(
            "REPORT_NOT_WRITTEN",
            found=error.strerror or str(error),
            where=str(page),
            action="name a file that can be written: `mainstem report --output /tmp/report.html`",
        ) from None
    return data
