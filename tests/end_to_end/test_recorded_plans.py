"""Gold plans large batches with what silver recorded, and reads them where that may not be so any more."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.cli import main
from framework.contracts.table_names import BATCHES_TABLE, QUARANTINE_TABLE
from gold.changes import profile_queries
from gold.planning import plan
from tests.end_to_end.test_blob_to_replica import Shop, item, message
from tests.large_batches import take_for_large


class PlannedShop(Shop):
    """A pipeline whose layers take each batch for a large one. `scans` counts measurements by Spark."""

    scans = 0

    def command(self, *words: str) -> None:
        assert main([*words, "-c", str(self.folder / "mainstem.yml")]) == 0


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlannedShop:
    shop, profile_rows = PlannedShop(spark, tmp_path), profile_queries.profile_rows

    def counted(*arguments: object) -> object:
        shop.scans += 1
        return profile_rows(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(plan, "profile_rows", counted)
    take_for_large(monkeypatch)
    return shop


@pytest.mark.slow
def test_large_batches_are_planned_without_a_look_at_their_changes(shop: PlannedShop) -> None:
    shop.land([message("INSERT", n, after=item(n, "pen", n / 4)) for n in range(1, 5)])
    shop.run()
    shop.land(
        [
            message("UPDATE_BEFOR", 10, before=item(1, "pen", 0.25)),
            message("UPDATE_AFTER", 10, after=item(1, "ink", 12345.75)),
            message("UPDATE_BEFOR", 11, before=item(2, "pen", 0.5)),
            message("UPDATE_AFTER", 11, after=item(22, "pen", 0.5)),
            message("DELETE", 12, before=item(3, "pen", 0.75)),
        ]
    )
    shop.run()
    assert shop.scans == 0
    assert shop.rows("shop/item") == {
        1: item(1, "ink", 12345.75),
        4: item(4, "pen", 1.0),
        22: item(22, "pen", 0.5),
    }


@pytest.mark.slow
def test_late_changes_are_measured(shop: PlannedShop) -> None:
    shop.land([message("INSERT", 10, after=item(1, "pen", 1.5))])
    shop.run()
    shop.land([message("INSERT", 5, after=item(2, "ink", 1.5))])
    shop.run()
    assert shop.scans == 1
    assert sorted(shop.rows("shop/item")) == [1, 2]


@pytest.mark.slow
def test_changes_that_silver_gave_up_before_gold_saw_them_are_measured(shop: PlannedShop) -> None:
    shop.land(
        [message("INSERT", 1, after=item(1, "pen", 1.5)), message("INSERT", 2, after=item(2, "ink", 1.5))]
    )
    shop.run()
    shop.land(
        [message("INSERT", 3, after=item(3, "cup", 10.5)), message("INSERT", 4, after=item(4, "mug", 1.5))]
    )
    shop.command("run", "--through", "silver")
    shop.command("forget", "shop.item", "id=3")
    scans = shop.scans
    shop.run()
    assert shop.scans >= scans
    assert sorted(shop.rows("shop/item")) == [1, 2, 4]
    assert shop.status()["tables"][0]["changes_applied"] == 3


@pytest.mark.slow
def test_counts_that_are_gone_and_derived_again_record_nothing(shop: PlannedShop) -> None:
    shop.land([message("INSERT", 1, after=item(1, "pen", 1.5))])
    shop.command("run", "--through", "silver")
    shop.land([message("INSERT", 2, after=item(2, "ink", 100.25))])
    recorded = shop.lake.read(shop.spark, BATCHES_TABLE).where("measures IS NOT NULL").count()
    assert recorded == 1
    shop.spark.sql(f"UPDATE delta.`{shop.lake.location(BATCHES_TABLE)}` SET measures = NULL")
    shop.run()
    assert shop.scans == 1
    assert sorted(shop.rows("shop/item")) == [1, 2]


@pytest.mark.slow
def test_messages_that_are_refused_by_tasks_are_in_quarantine_with_their_bytes(shop: PlannedShop) -> None:
    broken = ["no message", "{}", '{"schema": 1}']
    shop.land([broken[0], message("INSERT", 1, after=item(1, "pen", 1.5)), *broken[1:]])
    shop.run()
    found = shop.lake.read(shop.spark, QUARANTINE_TABLE).orderBy("offset").collect()
    assert [(row["offset"], bytes(row["value"]).decode(), row["epoch"], row["batch"]) for row in found] == [
        (1, broken[0], 1, 0),
        (3, broken[1], 1, 0),
        (4, broken[2], 1, 0),
    ]
    assert all(row["first_seen_at"] is not None and not row["is_resolved"] for row in found)
    assert not list(shop.folder.rglob("staging/silver/*"))
