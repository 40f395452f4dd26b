"""Writes a report: the page, and the same as JSON beside it."""

from __future__ import annotations

import re
from pathlib import Path

from framework.errors import MainstemError
from framework.private_files import replace_text
from framework.report.html_page import GENERATOR, html
from framework.report.json_document import json_text
from framework.report.model import Report

_RECOGNISED_WITHIN = 4_096
_DATA = re.compile(rb'\{\s*"report": \d+,\s*"pipeline": "[^"]*",\s*"lakehouse": ')
"""How the data of every report begins, so that it differs from other JSON."""


def write_report(report: Report, page: Path) -> Path:
    """Write the page, and the data beside it under the same name with `.json`; returns the data's path.

    Each file is replaced at once or not at all. Raises MainstemError REPORT_NOT_WRITTEN where a file cannot
    be written.
    """
    data = page.with_suffix(".json") if page.suffix != ".json" else page.with_name(f"{page.name}.json")
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        for file, text in ((page, html(report)), (data, json_text(report))):
            _check_is_report(file)
            replace_text(file, text)
    except OSError as error:
        raise MainstemError(
            "REPORT_NOT_WRITTEN",
            found=error.strerror or str(error),
            where=str(page),
            action="name a file that can be written: `mainstem report --output /tmp/report.html`",
        ) from None
    return data


def _check_is_report(file: Path) -> None:
    """Refuse to overwrite anything but a report. A link is replaced, not followed, so it is allowed."""
    if file.is_symlink() or not file.exists():
        return
    with file.open("rb") as stream:
        start = stream.read(_RECOGNISED_WITHIN)
    if start.strip() and GENERATOR.encode() not in start and not _DATA.match(start):
        raise MainstemError(
            "REPORT_NOT_WRITTEN",
            found="a file that is no report of mainstem",
            where=str(file),
            action="name another file with --output, or remove this one",
        )
