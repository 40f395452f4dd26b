"""A run with nothing new does not look at rules that held:
but for a new version of a table, another rule, or the clock.
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

from framework.config.model import load_config
from framework.lakehouse.lakehouse import Lakehouse
from framework.pipeline.layer import Run
from framework.quality.unchanged import is_unchanged, note_unchanged
from silver.layer import LAYER as SILVER

HEAD = "pipeline: shop\nlakehouse: ./lakehouse\nsources:\n  feed: {format: datahub_blob, files: ./landing}\n"
NO_SESSION = cast("SparkSession", None)


def configured(folder: Path, more: str = "") -> Run:
    (folder / "mainstem.yml").write_text(HEAD + more, encoding="utf-8")
    config = load_config(folder / "mainstem.yml", formats=SILVER.options())
    return Run(NO_SESSION, Lakehouse(config.root), config, "run")


def commit(folder: Path, table: str, version: int) -> str:
    log = folder / "lakehouse" / table / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    (log / f"{version:020d}.json").write_text("{}")
    return str(log.parent)


@pytest.mark.parametrize(
    "table", ["gold/shop/item", "silver/changes", "bronze/messages", "ops/tables", "ops/quality_results"]
)
def test_rules_that_passed_are_not_checked_until_a_table_has_another_version(
    tmp_path: Path, table: str
) -> None:
    run, replica = configured(tmp_path), commit(tmp_path, "gold/shop/item", 3)
    assert not is_unchanged(run)
    note_unchanged(run, [replica])
    assert is_unchanged(run)
    commit(tmp_path, table, 4)
    assert not is_unchanged(run)


@pytest.mark.parametrize(
    "more",
    [
        "quality: {}\n",
        "quality: {rules: [{match: shop.item, not_null: name}]}\n",
        "quality: {sources: {feed: 1 hour}}\n",
        "tables: [{match: shop.item, deletes: soft}]\n",
    ],
)
def test_another_configuration_is_judged_anew(tmp_path: Path, more: str) -> None:
    note_unchanged(configured(tmp_path), [commit(tmp_path, "gold/shop/item", 0)])
    assert not is_unchanged(configured(tmp_path, more))


@pytest.mark.parametrize(
    "more",
    ["quality: {sources: {feed: 1 hour}}\n", "quality: {rules: [{match: shop.item, freshness: 1 hour}]}\n"],
)
def test_what_the_clock_decides_is_always_judged(tmp_path: Path, more: str) -> None:
    run = configured(tmp_path, more)
    note_unchanged(run, [commit(tmp_path, "gold/shop/item", 0)])
    assert not is_unchanged(run)
