"""Every configuration that a page shows, whole or in part, is accepted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from framework.config.model import Config, load_config
from framework.pipeline.session import option_models
from tests.architecture.page_script import blocks

ROOT = Path(__file__).parents[3]
PAGES = ["README.md", *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))]
ELSEWHERE = {"bundle", "targets", "resources", "include", "variables", "services"}
"""Keys of files that are no configuration of a pipeline."""


def environment(text: str) -> dict[str, str]:
    """A value for each variable that a configuration names."""
    names = re.findall(r"\$\{env:(\w+)\}", text)
    return {
        name: "https://host.example/x" if "WEBHOOK" in name or "ALERTS" in name else "shop_" for name in names
    }


def whole(part: dict[str, Any]) -> dict[str, Any]:
    """A whole configuration around a part of one."""
    sources = {
        name: source if {"files", "kafka", "table"} & source.keys() else {"files": "./feed", **source}
        for name, source in part.get("sources", {"orders": {"format": "canal"}}).items()
    }
    checkpoints = {"checkpoints": "/Volumes/x"} if isinstance(part.get("lakehouse"), dict) else {}
    return {"pipeline": "shop", "lakehouse": "./lakehouse", **checkpoints, **part, "sources": sources}


def shown(page: str) -> list[dict[str, Any]]:
    """The configurations that a page shows."""
    texts = [block.text for block in blocks(ROOT / page) if block.language == "yaml"]
    found = [yaml.safe_load(text) for text in texts if "<<: *" not in text]  # a part of databricks.yml
    return [part for part in found if isinstance(part, dict) and not part.keys() & ELSEWHERE]


def test_a_part_of_a_configuration_is_completed() -> None:
    assert whole({"sources": {"crm": {"format": "ogg"}}}) == {
        "pipeline": "shop",
        "lakehouse": "./lakehouse",
        "sources": {"crm": {"format": "ogg", "files": "./feed"}},
    }


@pytest.mark.parametrize("page", [page for page in PAGES if shown(page)])
def test_the_settings_on_a_page_are_accepted(page: str, tmp_path: Path) -> None:
    for part in shown(page):
        assert part.keys() <= Config.model_fields.keys(), f"{page}: {sorted(part)}"
        text = yaml.safe_dump(whole(part))
        file = tmp_path / "mainstem.yml"
        file.write_text(text, encoding="utf-8")
        load_config(file, formats=option_models(), environ=environment(text))
