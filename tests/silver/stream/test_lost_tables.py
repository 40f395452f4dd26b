"""Tables that are gone are derived again whole, also where that was cut short."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.cli import main
from framework.contracts.table_names import BATCHES_TABLE
from framework.lakehouse.lakehouse import Lakehouse
from framework.pipeline import erasure
from silver.batches.batch_counts import COUNTS_SCHEMA
from silver.stream import lost_tables
from tests.end_to_end.test_blob_to_replica import Shop, item, message
from tests.end_to_end.test_decode_again import dying_at
from tests.end_to_end.test_forget import holding
from tests.end_to_end.test_repair import broken, command
from tests.end_to_end.test_seed import PowerCut


def _die_behind_the_first_write(spark: SparkSession, lake: Lakehouse, changes: Any) -> None:
    lake.create(spark, BATCHES_TABLE, COUNTS_SCHEMA)
    raise PowerCut


@pytest.mark.slow
def test_what_was_gone_is_derived_again_also_after_a_kill(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(spark, tmp_path, "quality: false\n")
    config, lake = str(tmp_path / "mainstem.yml"), tmp_path / "lakehouse"
    half = message("UPDATE_BEFOR", 501, before=item(1, "pen", 1.0))
    shop.land([message("INSERT", 500, after=item(1, "pen", 1.0)), "no message", half])
    assert main(["run", "-c", config]) == 0
    shop.land([message("INSERT", 502, after=item(2, "ink", 2.0))])
    assert main(["run", "-c", config]) == 0
    for name in ("silver/pending", "silver/quarantine", "ops/batches"):
        shutil.rmtree(lake / name)

    with monkeypatch.context() as patched:
        patched.setattr(lost_tables, "_derive_counts", _die_behind_the_first_write)
        assert main(["run", "-c", config]) == 1
    assert main(["run", "-c", config]) == 0

    found = shop.status()
    assert (found["pending_halves"], sum(found["quarantined"].values()), found["changes"]) == (1, 1, 2)
    capsys.readouterr()
    code, checks = command(shop, capsys, "status", "--verify")
    assert (code, broken(checks)) == (0, [])
    shop.land([message("UPDATE_AFTER", 501, after=item(1, "pen", 9.0))])
    assert main(["run", "-c", config]) == 0
    assert shop.rows("shop/item") == {1: item(1, "pen", 9.0), 2: item(2, "ink", 2.0)}


def _cut_short(shop: Shop, monkeypatch: pytest.MonkeyPatch, key: str, lost: str) -> None:
    """Forget a row, but die behind the first layer; and lose a table."""
    with monkeypatch.context() as patched:
        patched.setattr(erasure, "crash_point", dying_at("forget.between_layers"))
        assert main(["forget", "shop.item", key, "-c", str(shop.folder / "mainstem.yml")]) == 1
    shutil.rmtree(shop.folder / "lakehouse" / lost)


@pytest.mark.slow
def test_a_row_is_forgotten_although_derived_tables_are_gone(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(spark, tmp_path, "quality: false\n")
    rows = [message("INSERT", 500 + number, after=item(number, "Ada", 1.0)) for number in (1, 2, 3)]
    half = message("UPDATE_BEFOR", 510, before=item(7, "pen", 1.0))
    shop.land([*rows, "no message", half, message("INSERT", 511, after=item(8, "ink", 2.0))])
    assert command(shop, capsys, "run")[0] == 0
    for key, lost in (("id=1", "silver/quarantine"), ("id=2", "silver/pending")):
        shutil.rmtree(tmp_path / "lakehouse" / lost)
        assert command(shop, capsys, "forget", "shop.item", key)[0] == 0
    _cut_short(shop, monkeypatch, "id=3", "ops/batches")
    assert command(shop, capsys, "run")[0] == 0
    code, found = command(shop, capsys, "status", "--verify")
    assert (code, broken(found)) == (0, [])
    assert (found["pending_halves"], found["quarantined"]) == (1, {"not_json": 1})
    assert not holding(shop, "Ada")


@pytest.mark.slow
def test_an_erasure_is_finished_when_lost_changes_are_there_again(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, state = Shop(spark, tmp_path, "quality: false\n"), tmp_path / "lakehouse" / "_mainstem"
    rows = [item(1, "Ada", 1.0), item(2, "ink", 2.0)]
    shop.land([message("INSERT", 500 + number, after=row) for number, row in enumerate(rows)])
    assert command(shop, capsys, "run")[0] == 0
    _cut_short(shop, monkeypatch, "id=1", "silver/changes")
    assert main(["run", "-c", str(tmp_path / "mainstem.yml")]) == 1
    assert "SILVER_REPLACED" in capsys.readouterr().err
    assert (state / "forget.unfinished").exists()
    shutil.rmtree(state / "silver")
    for _ in range(2):
        assert command(shop, capsys, "run")[0] == 0
    assert not (state / "forget.unfinished").exists()
    assert not holding(shop, "Ada")
    assert shop.rows("shop/item") == {2: rows[1]}
