"""`init --databricks`: a configuration that works on this machine becomes one of the Databricks bundle."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from framework.cli import main
from framework.config.drafting.bundle_text import SETTINGS, bundle_text
from framework.config.model import Catalog, Config, load_config
from framework.pipeline.session import option_models
from tests.architecture.bundle import loaded

ROOT = Path(__file__).parents[3]
LOCAL = """\
# yaml-language-server: $schema=./mainstem.schema.json
# our shop
pipeline: shop   # a name
lakehouse: ./lakehouse  # tables
sources:
  orders:
    format: canal
    files: ./landing/orders    # from the shop
    timezone: Asia/Shanghai
  clicks: {format: maxwell, files: "s3://bucket/clicks"}
  crm:
    format: debezium
    kafka: {bootstrap_servers: "broker:9092", topics: [crm]}
tables:
  - {match: "shop.*", history: true}
"""
BUNDLED = """\
# our shop
pipeline: "${env:MAINSTEM_PIPELINE}"   # a name
lakehouse: {catalog: "${env:MAINSTEM_CATALOG}", schema_prefix: "${env:MAINSTEM_SCHEMA_PREFIX}"}  # tables
checkpoints: "${env:MAINSTEM_FILES}/checkpoints"
sources:
  orders:
    format: canal
    files: "${env:MAINSTEM_LANDING}orders"    # from the shop
    timezone: Asia/Shanghai
  clicks: {format: maxwell, files: "s3://bucket/clicks"}
  crm:
    format: debezium
    kafka: {bootstrap_servers: "broker:9092", topics: [crm]}
tables:
  - {match: "shop.*", history: true}
"""
IN_CATALOG = """\
pipeline: shop
checkpoints: /Volumes/dev/ops/files
lakehouse:
  catalog: dev
  grants:
    gold: {"data team": [USE SCHEMA, SELECT]}
  tags: {team: finance}
# the sources
sources:
  orders: {format: canal, files: /Volumes/dev/ops/landing/orders}
"""


def bundled(folder: Path, text: str) -> tuple[str, dict[str, str]]:
    (folder / "mainstem.yml").write_text(text, encoding="utf-8")
    made = bundle_text(folder / "mainstem.yml", {})
    return made.text, dict(made.landed)


def read(folder: Path, text: str) -> Config:
    (folder / "bundled.yml").write_text(text, encoding="utf-8")
    return load_config(folder / "bundled.yml", formats=option_models(), environ=SETTINGS)


def test_places_of_this_machine_become_places_of_the_bundle_and_all_else_stays(tmp_path: Path) -> None:
    text, landed = bundled(tmp_path, LOCAL)
    assert text.endswith(BUNDLED)
    assert all(line.startswith("#") for line in text.removesuffix(BUNDLED).splitlines())
    assert landed == {"orders": "./landing/orders"}
    config = read(tmp_path, text)
    assert config.lakehouse == Catalog(catalog="main", schema_prefix="shop_")
    assert config.checkpoints == "/Volumes/main/shop_ops/files/checkpoints"
    assert config.sources["orders"].files == "/Volumes/main/shop_ops/landing/orders"
    assert config.sources["clicks"].files == "s3://bucket/clicks"
    assert config.settings("feed", "shop", None, "orders").history


def test_a_configuration_of_another_catalog_keeps_its_grants_and_its_volume(tmp_path: Path) -> None:
    text, landed = bundled(tmp_path, IN_CATALOG)
    assert "\n# the sources\nsources:\n" in text
    assert landed == {}
    config = read(tmp_path, text)
    assert isinstance(config.lakehouse, Catalog)
    assert config.lakehouse.catalog == "main"
    assert config.lakehouse.grants == {"gold": {"data team": ("USE SCHEMA", "SELECT")}}
    assert config.lakehouse.tags == {"team": "finance"}
    assert config.checkpoints == "/Volumes/main/shop_ops/files/checkpoints"
    assert config.sources["orders"].files == "/Volumes/dev/ops/landing/orders"


def test_a_configuration_on_one_line_works_too(tmp_path: Path) -> None:
    line = "{pipeline: shop, lakehouse: ./lake, sources: {a: {format: canal, files: ./a}}}"
    text, landed = bundled(tmp_path, line)
    config = read(tmp_path, text)
    assert config.checkpoints == "/Volumes/main/shop_ops/files/checkpoints"
    assert (config.sources["a"].files, landed) == ("/Volumes/main/shop_ops/landing/a", {"a": "./a"})


def test_the_names_are_those_that_the_tasks_of_the_bundle_set() -> None:
    settings = loaded(ROOT / "databricks.yml")["variables"]["settings"]["default"]
    assert [pair.strip().partition("=")[0] for pair in settings.split(",")] == list(SETTINGS)


def test_init_writes_the_configuration_of_the_bundle_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mainstem.yml").write_text(LOCAL)
    assert main(["init", "--databricks"]) == 2
    assert "error: NO_BUNDLE\n" in capsys.readouterr().err
    (tmp_path / "databricks.yml").write_text("bundle: {name: mainstem}\n")
    assert main(["init", "--databricks", "--from", "landing"]) == 2
    assert "error: WRONG_ARGUMENTS\n" in capsys.readouterr().err
    assert main(["init", "--databricks", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "config": "pipelines/shop.yml",
        "pipeline": "shop",
        "landed": {"orders": "./landing/orders"},
    }
    assert (tmp_path / "pipelines" / "shop.yml").read_text().endswith(BUNDLED)
    assert main(["init", "--databricks"]) == 2
    assert "error: CONFIG_EXISTS\n" in capsys.readouterr().err
    (tmp_path / "pipelines" / "shop.yml").unlink()
    assert main(["init", "--databricks"]) == 0
    told = capsys.readouterr().out
    assert "copy ./landing/orders there" in told
    assert '{"pipeline": "shop", "catalog": …, "warehouse_id": …}' in told
