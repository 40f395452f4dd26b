"""The report in a notebook: `report("mainstem.yml")` shows the page; `.html` and `.data` hold the files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from framework.config.model import Config
from framework.pipeline.session import open_tables, read_config
from framework.report.collect import collect
from framework.report.html_page import html
from framework.report.json_document import document


@dataclass(frozen=True, slots=True)
class Page:
    """A report to show, and the same as values of JSON. On Databricks: `displayHTML(page.html)`."""

    html: str
    data: Mapping[str, Any]

    def _repr_html_(self) -> str:
        """The page in a frame, so that its styles and its script do not reach the notebook."""
        attributes = 'sandbox="allow-scripts" width="100%" height="900" frameborder="0"'
        return f'<iframe srcdoc="{escape(self.html)}" {attributes}></iframe>'


def report(config: str | Path = "mainstem.yml") -> Page:
    """The report on the pipeline of a configuration; see `report_on`."""
    return report_on(read_config(str(config)))


def report_on(config: Config) -> Page:
    """The report on a pipeline.

    A local lakehouse is read without Spark. Else an active session is used, and stays open.
    """
    with open_tables(config) as tables:
        collected = collect(tables)
    return Page(html(collected), document(collected))
