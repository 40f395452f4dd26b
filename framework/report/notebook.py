"""The report in a notebook: `report("mainstem.yml")` shows the page; `.html` and `.data` hold what the command writes."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from framework.commands import opened, read_config
from framework.report.collect import collect
from framework.report.document import document
from framework.report.page import html


@dataclass(frozen=True, slots=True)
class Page:
    """A report to look at, and the same as values of JSON. On Databricks: `displayHTML(page.html)`."""

    html: str
    data: Mapping[str, Any]

    def _repr_html_(self) -> str:
        """The page in a frame of its own, where its styles and its script reach nothing else of the notebook."""
        return f'<iframe srcdoc="{escape(self.html)}" sandbox="allow-scripts" width="100%" height="900" frameborder="0"></iframe>'


def report(config: str | Path = "mainstem.yml") -> Page:
    """The report of the pipeline that a configuration describes. A Spark session that is active is used, and stays."""
    checked = read_config(argparse.Namespace(config=str(config)))
    with opened(checked, is_exclusive=False) as (lake, spark):
        found = collect(spark, lake, checked)
    return Page(html(found), document(found))
