"""Without Great Expectations the counts decide, and only what needs it is refused."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

from framework.config.model import load_config
from framework.config.quality import Scan
from framework.errors import MainstemError
from framework.lakehouse.lakehouse import Lakehouse
from framework.pipeline.layer import Run
from framework.pipeline.session import option_models
from framework.quality import availability


def run_with(folder: Path, quality: str) -> Run:
    file = folder / "mainstem.yml"
    sources = "sources: {feed: {format: canal, files: ./landing}}"
    file.write_text(f"pipeline: shop\nlakehouse: ./lake\n{sources}\n{quality}", encoding="utf-8")
    config = load_config(file, formats=option_models())
    return Run(cast("SparkSession", None), Lakehouse(config.root), config, "run")


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(availability, "find_spec", lambda name: None)


def test_what_is_installed_is_used(tmp_path: Path) -> None:
    assert availability.is_installed()
    run = run_with(tmp_path, "quality: {scan: full}")
    assert availability.judgeable(run) == (run, ())


@pytest.mark.usefixtures("absent")
def test_without_it_the_counts_decide_and_a_note_says_how_to_install_it(tmp_path: Path) -> None:
    run, notes = availability.judgeable(run_with(tmp_path, "quality: {rules: []}"))
    assert run.config.quality.scan is Scan.COUNTED
    assert run.config.settings("feed", "a", None, "b").keys is None  # the rest of the configuration is whole
    (note,) = notes
    assert "pip install 'great-expectations>=1.24,<2'" in note


@pytest.mark.usefixtures("absent")
def test_a_configuration_without_rules_of_its_own_needs_no_note(tmp_path: Path) -> None:
    run = run_with(tmp_path, "")
    assert availability.judgeable(run) == (run, ())


@pytest.mark.usefixtures("absent")
def test_a_full_scan_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MainstemError) as error:
        availability.judgeable(run_with(tmp_path, "quality: {scan: full}"))
    assert error.value.condition == "GREAT_EXPECTATIONS_MISSING"
