"""The report in a notebook: `report("mainstem.yml")` shows the page; `.html` and `.data` hold the files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from framework.pipeline.session import open_pipeline, read_config
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
    """The report on the pipeline of a configuration. An active Spark session is used, and stays open."""
    checked = read_config(str(config))
    with open_pipeline(checked, is_exclusive=False) as (lake, spark):
        collected = collect(spark, lake, checked)
    return Page(html(collected), document(collected))
