from __future__ import annotations

from pathlib import Path

import pytest

from framework.errors import MainstemError
from framework.report.files import write_report
from tests.framework.report.reports import busy, nothing


def test_a_report_replaces_a_report_and_nothing_else(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    write_report(nothing(), page)
    data = write_report(busy(), page)
    assert (page.exists(), data) == (True, tmp_path / "report.json")
    for name in ("mainstem.yml", "notes.html"):
        (tmp_path / name).write_text("pipeline: shop")
        with pytest.raises(MainstemError) as raised:
            write_report(busy(), tmp_path / name)
        assert raised.value.condition == "REPORT_NOT_WRITTEN"
        assert (tmp_path / name).read_text() == "pipeline: shop"


@pytest.mark.parametrize(
    "text", ['{"name": "x", "scripts": {"report": "jest"}}', '{"report": 1, "pipeline": 2}']
)
def test_json_that_only_names_a_report_stays(tmp_path: Path, text: str) -> None:
    for name, page in (("package.json", "package.json"), ("coverage.json", "coverage.html")):
        (tmp_path / name).write_text(text)
        with pytest.raises(MainstemError) as raised:
            write_report(busy(), tmp_path / page)
        assert (raised.value.condition, (tmp_path / name).read_text()) == ("REPORT_NOT_WRITTEN", text)


def test_a_planted_link_is_replaced_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    victim, page = tmp_path / "victim", tmp_path / "report.html"
    victim.write_text("mine")
    page.symlink_to(victim)
    write_report(busy(), page)
    assert (victim.read_text(), page.is_symlink()) == ("mine", False)
