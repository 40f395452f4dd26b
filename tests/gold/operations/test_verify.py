"""`status --verify` compares every cell of a replica, a history and a table without a key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.cli import main
from framework.pipeline.layer import Run
from gold.operations.verify import verify
from tests.end_to_end.test_blob_to_replica import Shop, item
from tests.end_to_end.test_lost_state import log
from tests.end_to_end.test_repair import command, later

FIRST = (
    later("INSERT", 1, 1, after=item(1, "pen", 1.0)),
    later("INSERT", 2, 1, after=item(2, "ink", 2.0)),
    log("INSERT", 3, 1, after=item(1, "a", 0.0)),
)
SECOND = (
    later("UPDATE", 4, 2, before=item(1, "pen", 1.0), after=item(1, "pen", 1.5)),
    later("DELETE", 5, 2, before=item(2, "ink", 2.0)),
    log("INSERT", 6, 2, after=item(2, "b", 0.0)),
)


def _shop(spark: SparkSession, folder: Path, settings: str = "history: true", rounds: int = 2) -> Shop:
    """A pipeline that has applied the same changes in one round, or in two."""
    shop = Shop(spark, folder, f"tables: [{{match: shop.item, {settings}}}]\n")
    for messages in (FIRST, SECOND) if rounds == 2 else ((*FIRST, *SECOND),):
        shop.land(messages)
        assert main(["run", "-c", str(folder / "mainstem.yml")]) == 0
    return shop


def _failed(shop: Shop, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    code, verified = command(shop, capsys, "status", "--verify")
    found = {check["name"]: check for check in verified["checks"] if not check["ok"]}
    assert code == bool(found)
    return found


def test_a_wrong_cell_is_found_and_its_row_named(spark: SparkSession, tmp_path: Path) -> None:
    """By gold's own checks: the command makes those of all layers."""
    shop = _shop(spark, tmp_path, rounds=1)
    _spoil_rows(shop)
    checks = verify(Run(spark, shop.lake, shop.config, "verify"))
    found = {check.name: check for check in checks if not check.is_ok}
    assert {name: (check.wrong, len(check.examples)) for name, check in found.items()} == {
        "rows shop.item": (1, 1),
        "history shop.item": (1, 1),
        "rows shop.log": (1, 1),
    }
    assert found["rows shop.item"].examples == ("id=1",)
    assert found["history shop.item"].examples == ("id=2",)
    assert found["history shop.item"].where.endswith("gold/shop/item__history")
    assert found["rows shop.log"].examples[0].startswith("_cdc_change_id=")


@pytest.mark.slow
def test_a_rebuild_mends_wrong_cells(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop, config = _shop(spark, tmp_path), str(tmp_path / "mainstem.yml")
    assert _failed(shop, capsys) == {}
    _spoil_rows(shop)
    assert main(["status", "--verify", "-c", config]) == 1
    assert "gold/shop/item, for example [id=1]\n" in capsys.readouterr().out
    found = _failed(shop, capsys)
    assert {name: (check["wrong"], len(check["examples"])) for name, check in found.items()} == {
        "rows shop.item": (1, 1),
        "history shop.item": (1, 1),
        "rows shop.log": (1, 1),
    }
    for table in ("shop.item", "shop.log"):
        assert main(["rebuild", table, "-c", config]) == 0
    assert _failed(shop, capsys) == {}


@pytest.mark.slow
def test_a_replica_that_cannot_be_read_is_to_be_rebuilt(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its files or a column are lost: nothing is wrong with silver."""
    shop, config = _shop(spark, tmp_path), str(tmp_path / "mainstem.yml")
    history, log = (shop.lake.location(f"gold/shop/{table}") for table in ("item__history", "log"))
    for file in Path(history).glob("*.parquet"):
        file.unlink()
    rows = spark.read.format("delta").load(log).drop("name").localCheckpoint()
    rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(log)
    found = _failed(shop, capsys)
    assert {name: check["where"] for name, check in found.items()} == {
        "replica shop.item": history,
        "replica shop.log": log,
    }
    for table in ("shop.item", "shop.log"):
        assert found[f"replica {table}"]["action"].endswith(f": mainstem rebuild {table}")
        assert main(["rebuild", table, "-c", config]) == 0
    assert _failed(shop, capsys) == {}


def _spoil_rows(shop: Shop) -> None:
    """Changes one row of the replica, of its history and of the table without a key, as no command does."""
    for table, wrong in {
        "item": "UPDATE {} SET price = 9.5 WHERE id = 1",
        "item__history": "UPDATE {} SET _cdc_valid_to = NULL WHERE id = 2",
        "log": "UPDATE {} SET name = 'c' WHERE id = 2",
    }.items():
        shop.spark.sql(wrong.format(f"delta.`{shop.lake.location(f'gold/shop/{table}')}`")).collect()


@pytest.mark.slow
def test_rows_that_are_marked_as_deleted_are_compared(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = _shop(spark, tmp_path, "deletes: soft")
    assert _failed(shop, capsys) == {}
    place = shop.lake.location("gold/shop/item")
    spark.sql(f"UPDATE delta.`{place}` SET name = NULL WHERE _cdc_deleted").collect()
    assert _failed(shop, capsys)["rows shop.item"]["examples"] == ["id=2"]


@pytest.mark.slow
def test_a_column_that_only_a_forgotten_row_made_wide_is_no_difference(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = _shop(spark, tmp_path, "history: true, schema_policy: fail")
    shop.land([later("INSERT", 7, 3, after={**item(3, "cap", 3.0), "note": "red"})])
    config = str(tmp_path / "mainstem.yml")
    text = Path(config).read_text()
    Path(config).write_text(text.replace("schema_policy: fail", "schema_policy: lenient"))
    assert main(["run", "-c", config]) == 0
    Path(config).write_text(text)
    assert main(["run", "-c", config]) == 0
    assert main(["forget", "shop.item", "id=3", "-c", config]) == 0
    assert _failed(shop, capsys) == {}


@pytest.mark.slow
def test_a_table_with_other_settings_is_compared_after_the_run_that_applies_them(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = _shop(spark, tmp_path)
    config = tmp_path / "mainstem.yml"
    config.write_text(config.read_text().replace("history: true", "deletes: soft"))
    assert _failed(shop, capsys) == {}
    assert main(["run", "-c", str(config)]) == 0
    assert _failed(shop, capsys) == {}
