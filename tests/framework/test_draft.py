"""`init`: from a folder of messages to a configuration that can be read, and runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from framework import demonstration
from framework.cli import main
from framework.config import load_config
from framework.layer import installed_layers

FORMATS = [row["name"] for layer in installed_layers() for row in layer.formats()]
OPTIONS = {name: model for layer in installed_layers() for name, model in layer.options().items()}


def land(folder: Path, name: str) -> None:
    folder.mkdir(parents=True)
    (folder / "feed.jsonl").write_text(demonstration.sample(name) or "")


def test_a_folder_of_each_format_becomes_a_source_that_the_configuration_accepts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in FORMATS:
        land(Path("landing") / name, name)
    assert main(["init", "--from", "landing"]) == 0
    config = load_config("mainstem.yml", formats=OPTIONS)
    assert {name: source.format for name, source in config.sources.items()} == {name: name for name in FORMATS}
    assert {name: source.files for name, source in config.sources.items()} == {n: str(tmp_path / "landing" / n) for n in FORMATS}
    assert config.sources["arcion"].layout == "kcat"
    assert config.sources["oms_default"].layout == "lines"


def test_a_table_without_a_key_is_named_with_what_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    land(Path("prices"), "datahub_tuple")
    assert main(["init", "--from", "prices/feed.jsonl", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["append_only"] == ["prices.price"]
    text = Path("mainstem.yml").read_text()
    commented = text[text.index("# tables:") :].replace("\n# ", "\n").removeprefix("# ")
    Path("mainstem.yml").write_text(text[: text.index("# tables:")] + commented)
    config = load_config("mainstem.yml", formats=OPTIONS)
    assert config.settings("prices", None, "price").keys == ("sku",)
    assert [rule.kind for rule in config.quality.rules] == ["not_null"]


def test_formats_mixed_in_one_folder_are_refused_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    land(tmp_path / "mixed", "datahub_blob")
    (tmp_path / "mixed" / "other.jsonl").write_text(demonstration.sample("maxwell") or "")
    file = tmp_path / "mainstem.yml"
    assert main(["init", "--from", str(tmp_path / "mixed"), "-c", str(file)]) == 1
    assert "FORMATS_MIXED" in capsys.readouterr().err
    assert not file.exists()


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mainstem.yml"
    file.write_text("mine")
    assert main(["init", "-c", str(file)]) == 2
    assert "CONFIG_EXISTS" in capsys.readouterr().err
    assert file.read_text() == "mine"


def test_without_messages_a_configuration_to_be_filled_in_is_valid(tmp_path: Path) -> None:
    file = tmp_path / "2 shops!" / "mainstem.yml"
    file.parent.mkdir()
    assert main(["init", "-c", str(file)]) == 0
    assert load_config(str(file), formats=OPTIONS).pipeline == "pipeline"


def test_names_of_folders_become_names_of_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for place in ("in: a #1/数量", "in: a #1/Orders.v2", "in: a #1/orders-v2"):
        land(Path(place), "maxwell" if "数" in place else "datahub_blob")
    assert main(["init", "--from", "."]) == 0
    sources = load_config("mainstem.yml", formats=OPTIONS).sources
    assert sorted(sources) == ["feed", "orders_v2", "orders_v2_2"]
    assert sources["feed"].files == str(tmp_path / "in: a #1" / "数量")
