"""A lakehouse that earlier code wrote is read, continued and rebuilt:
its tables are those of a new lakehouse.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.cli import main
from framework.demo import feeds
from framework.lakehouse.lakehouse import Lakehouse
from tests.archives import unpack

ROOT = Path(__file__).parents[2]
ARCHIVE = ROOT / "tests/fixtures/lakehouses/before_rooms.tar.xz"
SOURCES = ("shop", "prices")
TABLES = ("shop/customer", "shop/order_line", "shop/orders", "shop/orders__history", "shop/price")
# These say when and where this lakehouse wrote the row, not what the row is.
OWN = ("_cdc_ingested_at", "_cdc_applied_at", "_cdc_batch", "_cdc_run_id", "_cdc_updated_at")


def command(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    capsys.readouterr()
    code = main([*words, "-c", str(folder / "mainstem.yml"), "--json"])
    printed = capsys.readouterr()
    assert code == 0, printed.out + printed.err
    return dict(json.loads(printed.out))


def land(folder: Path, part: str) -> None:
    for source in SOURCES:
        shutil.copytree(
            Path(feeds.__file__).parent / "parts" / part / source,
            folder / "landing" / source,
            dirs_exist_ok=True,
        )


def replicas(spark: SparkSession, folder: Path) -> dict[str, list[str]]:
    lake = Lakehouse(str(folder / "lakehouse"))
    frames = {name: lake.read(spark, f"gold/{name}").drop(*OWN) for name in TABLES}
    return {
        name: sorted(repr(sorted(row.asDict().items())) for row in frame.collect())
        for name, frame in frames.items()
    }


@pytest.mark.slow
def test_a_lakehouse_of_earlier_code_is_read_continued_and_rebuilt(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    unpack(ARCHIVE, old)
    with (old / "mainstem.yml").open("a") as config:
        config.write("quality: false\n")
    new.mkdir()
    shutil.copyfile(old / "mainstem.yml", new / "mainstem.yml")

    land(old, "2")
    counts = command(old, capsys, "run")["counts"]
    assert counts["quarantined"] == 0
    assert counts["waiting"] == 0

    for part in ("1", "2"):
        land(new, part)
    command(new, capsys, "run")
    expected = replicas(spark, new)
    assert replicas(spark, old) == expected
    assert all(len(rows) > 1 for rows in expected.values())

    command(old, capsys, "rebuild", "shop.orders", "--from", "bronze")
    assert replicas(spark, old) == expected
    after = command(old, capsys, "status", "--verify")
    assert all(check["ok"] for check in after["checks"])
