"""The documentation site: links to files outside docs/, and a build that refuses dead links."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from documentation.mkdocs_hooks import repository_links

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("text", "url", "expected"),
    [
        ("see [README](../README.md)", None, "see README"),
        ("see [README](../README.md#limits)", "https://a.example/x/", "see [README](https://a.example/x/blob/main/README.md#limits)"),
        ("see [SQL](sql.md)", None, "see [SQL](sql.md)"),
        ("see [gone](../gone.md)", None, "see [gone](../gone.md)"),
        ("![picture](../images/a.svg)", None, "![picture](../images/a.svg)"),
    ],
)  # fmt: skip
def test_a_link_to_a_file_of_the_repository_leads_there(text: str, url: str | None, expected: str) -> None:
    page = ROOT / "docs/page.md"
    assert repository_links(text, page=page, docs=ROOT / "docs", url=url) == expected


def test_a_link_between_pages_of_different_folders_stays() -> None:
    page, text = ROOT / "docs/reference/page.md", "see [SQL](../sql.md)"
    assert repository_links(text, page=page, docs=ROOT / "docs", url=None) == text


def test_the_build_fails_on_dead_links() -> None:
    recipe = re.search(r"^docs:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert recipe is not None
    (build,) = re.findall(r"mkdocs .*", recipe[1])
    assert build.split() == ["mkdocs", "build", "--strict"], "--quiet silences what --strict counts"


def test_the_site_has_every_page_once() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    nav = yaml.safe_load(text.partition("\nnav:\n")[2])
    pages = sorted(re.findall(r"[\w/-]+\.md", str(nav)))
    assert pages == sorted(
        path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")
    )
