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
from silver.batches.batch_counts import COUNTS_SCHEMA
from silver.stream import lost_tables
from tests.end_to_end.test_blob_to_replica import Shop, item, message
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
