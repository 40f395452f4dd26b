"""A half that comes when its other half has been refused or released completes the update, in any batch."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bronze.layer import LAYER as BRONZE
from framework.cli import main
from framework.config.model import load_config
from framework.contracts.table_names import CHANGES_TABLE, PENDING_TABLE, QUARANTINE_TABLE
from framework.lakehouse.lakehouse import sql_name
from framework.pipeline.layer import Run
from silver.batches import decoding
from silver.layer import LAYER as SILVER
from silver.operations.verify import verify
from tests.end_to_end.test_blob_to_replica import Shop, item, message
from tests.end_to_end.test_repair import command

OLD, NEW = item(1, "pen", 1.5), item(2, "pen", 1.5)
SHARED = [
    message("UPDATE_BEFOR", 100, before=item(7, "ink", 1.0)),
    message("UPDATE_BEFOR", 100, before=item(8, "ink", 1.0)),
    message("UPDATE_AFTER", 100, after=item(7, "ink", 2.0)),
    message("UPDATE_AFTER", 100, after=item(8, "ink", 2.0)),
]
"""Two updates of one position: halves with different keys then wait, because others may share theirs."""
MINUTES = 60
YEAR_2999 = 32_472_144_000_000


class Silver(Shop):
    """A pipeline of which only bronze and silver run."""

    def take(self, *messages: str | dict[str, Any]) -> None:
        self.land(messages)
        work = Run(self.spark, self.lake, self.config, f"run-{self.files}")
        assert not BRONZE.run(work).errors + SILVER.run(work).errors

    def open_rows(self) -> dict[str, int]:
        """How many halves wait, and how many rows are open in quarantine, by reason; the checks hold."""
        checks = verify(Run(self.spark, self.lake, self.config, "verify"))
        assert [check.name for check in checks if check.wrong] == []
        refused = self.lake.read(self.spark, QUARANTINE_TABLE).where("NOT is_resolved").collect()
        waiting = {"waiting": count} if (count := self.lake.read(self.spark, PENDING_TABLE).count()) else {}
        return waiting | Counter(row["reason"] for row in refused)

    def configure(self, old: str, new: str) -> None:
        file = self.folder / "mainstem.yml"
        file.write_text(file.read_text().replace(old, new))
        self.config = load_config(file, formats=SILVER.options())


@pytest.mark.slow
@pytest.mark.parametrize("few", [5_000, 0], ids=["in this process", "by Spark"])
@pytest.mark.parametrize("is_before_first", [True, False], ids=["before first", "after first"])
def test_a_key_change_is_one_update_when_its_second_half_is_overdue_too(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int, *, is_before_first: bool
) -> None:
    monkeypatch.setattr(decoding, "FEW_MESSAGES", few)
    shop = Silver(spark, tmp_path)
    halves = [message("UPDATE_BEFOR", 101, before=OLD), message("UPDATE_AFTER", 101, after=NEW)]
    first, second = halves if is_before_first else reversed(halves)
    shop.take(*SHARED, first)
    shop.take(message("INSERT", 101 + 11 * MINUTES, after=item(20, "cap", 3.0)))
    shop.configure("10 minutes", "1 hour")
    shop.take(second)
    assert shop.lake.read(spark, PENDING_TABLE).count() == 1
    shop.take(message("INSERT", 101 + 120 * MINUTES, after=item(21, "cap", 3.0)))

    changes = shop.lake.read(spark, CHANGES_TABLE)
    (update,) = changes.where("before['id'] = '1' AND after['id'] = '2'").collect()
    assert (update["kind"], update["half"]) == ("row", None)
    assert update["paired_with"]["offset"] == (5 if is_before_first else 1)
    assert shop.lake.read(spark, PENDING_TABLE).isEmpty()
    assert shop.lake.read(spark, QUARANTINE_TABLE).where("NOT is_resolved").isEmpty()


@pytest.mark.slow
def test_halves_of_a_forgotten_update_that_come_again_one_by_one_wait_no_longer_than_others(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Silver(spark, tmp_path)
    first = [message("UPDATE_BEFOR", 2, before=OLD), message("UPDATE_AFTER", 2, after=item(1, "pen", 2.0))]
    second = [message("UPDATE_BEFOR", 3, before=item(1, "pen", 2.0)), message("UPDATE_AFTER", 3, after=OLD)]
    shop.take(message("INSERT", 1, after=OLD), *first, *second)
    assert command(shop, capsys, "forget", "shop.item", "id=1")[0] == 0

    shop.take(first[1], second[0])
    assert shop.open_rows() == {"waiting": 2}
    shop.take(message("INSERT", 4 + 11 * MINUTES, after=item(20, "cap", 3.0)))
    assert shop.open_rows() == {"unpaired_before_image": 1}
    shop.take(second[1], message("INSERT", 4 + 22 * MINUTES, after=item(21, "cap", 3.0)))
    assert shop.open_rows() == {}
    excluded = shop.lake.read(spark, CHANGES_TABLE).where("kind = 'excluded'").collect()
    assert Counter(row["topic"] for row in excluded) == {
        "part-001.jsonl": 3,
        "part-002.jsonl": 1,
        "part-004.jsonl": 1,
    }


@pytest.mark.long
def test_a_half_without_a_possible_time_stays_released_when_it_is_decoded_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    shop = Shop(spark, tmp_path)
    impossible = {"payload": {"timestamp": {"eventTime": YEAR_2999}}}
    shop.land(
        [
            message("INSERT", 1, after=item(3, "cap", 3.0)),
            message("UPDATE_AFTER", 2, after=item(1, "pen", 1.5), **impossible),
            message("UPDATE_AFTER", 3, after=item(2, "ink", 2.0), payload={"timestamp": {}}),
        ]
    )
    shop.run()
    assert list(shop.rows("shop/item")) == [3]
    shop.land(
        [
            message("INSERT", 4 + 11 * MINUTES, after=item(4, "cap", 4.0)),
            message("UPDATE_AFTER", 5 + 11 * MINUTES, after=item(5, "tie", 5.0), **impossible),
        ]
    )
    shop.run()
    kept = shop.rows("shop/item")
    assert sorted(kept) == [1, 2, 3, 4]
    place = sql_name(shop.lake.location(PENDING_TABLE))
    spark.sql(f"UPDATE {place} SET event_time = timestamp_millis({YEAR_2999}), detail = NULL")

    words = ["rebuild", "shop.item", "--from", "bronze", "-c", str(shop.folder / "mainstem.yml")]
    assert main(words) == 0
    assert shop.rows("shop/item") == kept
    (waiting,) = shop.lake.read(spark, PENDING_TABLE).collect()
    assert (waiting["after"]["id"], waiting["event_time"].year) == ("5", 2023)
