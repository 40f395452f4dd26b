"""Compaction of bronze is harmless; bronze that was changed by hand is refused, and the advice repairs it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.lakehouse.lakehouse import sql_name
from tests.end_to_end.test_blob_to_replica import Shop, item
from tests.end_to_end.test_crashes import CHAOS
from tests.end_to_end.test_faults import check, failed, insert
from tests.end_to_end.test_repair import broken, command

Rewrite = Callable[[Shop, str], None]


def update(shop: Shop, table: str) -> None:
    shop.spark.sql(f"UPDATE {table} SET value = encode('no message', 'utf-8') WHERE offset = 1")


def delete(shop: Shop, table: str) -> None:
    shop.spark.sql(f"DELETE FROM {table} WHERE topic = 'part-001.jsonl'")


def overwrite(shop: Shop, table: str) -> None:
    rows = (
        shop.spark.read.format("delta").option("versionAsOf", 1).load(shop.lake.location("bronze/messages"))
    )
    rows.write.format("delta").mode("overwrite").save(shop.lake.location("bronze/messages"))


def follow(shop: Shop, table: str, errors: str, sources: Sequence[str] = ("feed",)) -> None:
    """Do what the error says; messages of `sources` have landed since."""
    version = re.search(r"TO VERSION AS OF (\d+)", errors)
    assert version is not None, errors
    shop.spark.sql(f"RESTORE TABLE {table} TO VERSION AS OF {version[1]}").collect()
    checkpoints = shop.folder / "lakehouse/_mainstem"
    for checkpoint in (checkpoints / "silver", *(checkpoints / "bronze" / name for name in sources)):
        assert str(checkpoint) in errors.replace("<source>", "feed")
        shutil.rmtree(checkpoint)
        checkpoint.with_name(f"{checkpoint.name}.reset").touch()


def rewritten(shop: Shop, capsys: pytest.CaptureFixture[str], rewrite: Rewrite) -> None:
    """One more message lands after a rewrite: the run is refused, and the advice repairs it."""
    table = sql_name(shop.lake.location("bronze/messages"))
    shop.spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.appendOnly' = 'false')")
    rewrite(shop, table)
    shop.land([insert(shop.files + 1)])
    errors = failed(shop, capsys)
    assert "BRONZE_REWRITTEN" in errors
    follow(shop, table, errors)
    check(shop, capsys, shop.files)


@pytest.mark.long
def test_compacted_bronze_is_read_on_and_an_updated_one_refused(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Shop(spark, tmp_path)
    for number in (1, 2):
        shop.land([insert(number)])
        assert command(shop, capsys, "run", "--through", "bronze")[0] == 0
    table = sql_name(shop.lake.location("bronze/messages"))
    spark.sql(f"OPTIMIZE {table}")
    assert command(shop, capsys, "run")[0] == 0
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.appendOnly' = 'false')")
    update(shop, table)
    follow(shop, table, failed(shop, capsys), sources=())  # nothing has landed since
    check(shop, capsys, 2)
    spark.sql(f"OPTIMIZE {sql_name(shop.lake.location('bronze/messages'))}")
    rewritten(shop, capsys, update)


@pytest.mark.skipif(not CHAOS, reason="the other ways to rewrite bronze are for make chaos")
@pytest.mark.parametrize("rewrite", [delete, overwrite])
@pytest.mark.parametrize("has_forgotten", [False, True])
def test_bronze_rewritten_in_any_way_is_refused(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    rewrite: Rewrite,
    has_forgotten: bool,
) -> None:
    shop = Shop(spark, tmp_path)
    shop.land([insert(1)])
    shop.land([insert(2)])
    check(shop, capsys, 2)
    if has_forgotten:
        shop.land([insert(3)])
        check(shop, capsys, 3)
        assert command(shop, capsys, "forget", "shop.item", "id=3")[0] == 0
        table = sql_name(shop.lake.location("bronze/messages"))
        shop.spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.appendOnly' = 'false')")
        rewrite(shop, table)
        shop.land([insert(4)])
        errors = failed(shop, capsys)
        assert "BRONZE_REWRITTEN" in errors
        follow(shop, table, errors)
        assert command(shop, capsys, "run")[0] == 0
        assert shop.rows("shop/item") == {n: item(n, f"item {n}", n + 0.5) for n in (1, 2, 4)}
        return
    rewritten(shop, capsys, rewrite)
    shop.land([insert(shop.files + 1)])
    check(shop, capsys, shop.files)
    code, found = command(shop, capsys, "status", "--verify")
    assert (code, broken(found)) == (0, [])
