"""Tables whose logs have lost their old commits: a lakehouse goes on, also where a stream waits for them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bronze.files.file_log import log_table
from bronze.layer import LAYER as BRONZE
from bronze.source import Feed
from bronze.sources.files import discover
from framework.contracts.table_names import MESSAGES_TABLE
from framework.errors import MainstemError
from framework.lakehouse import expired_logs
from framework.pipeline.layer import Run
from silver.layer import LAYER as SILVER
from tests.end_to_end.test_blob_to_replica import Shop, item, message
from tests.end_to_end.test_repair import command
from tests.logs import expire_log, expire_logs


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Shop:
    """A pipeline that has read one message."""
    found = Shop(spark, tmp_path)
    land(found, 1)
    found.run()
    return found


def land(shop: Shop, number: int) -> None:
    shop.land([message("INSERT", number, after=item(number, "pen", 1.5))])


def bronze(shop: Shop) -> None:
    assert BRONZE.run(Run(shop.spark, shop.lake, shop.config, f"bronze-{shop.files}")).errors == ()


def check(shop: Shop, capsys: pytest.CaptureFixture[str], rows: int) -> None:
    assert sorted(shop.rows("shop/item")) == list(range(1, rows + 1))
    code, found = command(shop, capsys, "status", "--verify", "--json")
    assert (code, [check for check in found["checks"] if not check["ok"]]) == (0, [])
    assert (found["messages"], found["changes"], found["duplicates"]) == (rows, rows, 0)


@pytest.mark.slow
def test_a_lakehouse_without_its_old_commits_goes_on(
    spark: SparkSession, shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    expire_logs(spark, Path(shop.lake.root))
    for number in range(2, 5):
        land(shop, number)
        shop.run()
        expire_logs(spark, Path(shop.lake.root))
    check(shop, capsys, 4)
    for words in (("rebuild", "shop.item", "--from", "bronze"), ("maintain",), ("replay",)):
        assert command(shop, capsys, *words)[0] == 0
        expire_logs(spark, Path(shop.lake.root))
    for name in ("ops/repairs", "ops/batches", "silver/pending"):
        shutil.rmtree(Path(shop.lake.root, name))
    land(shop, 5)
    shop.run()
    check(shop, capsys, 5)


@pytest.mark.slow
def test_messages_are_read_again_where_bronze_has_lost_the_commits_that_silver_waits_for(
    spark: SparkSession, shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    for waiting in (3, 2):  # Delta has an error of its own where one commit is missing
        for _ in range(waiting):
            land(shop, shop.files + 1)
            bronze(shop)
        expire_log(spark, Path(shop.lake.location(MESSAGES_TABLE)))
        report = SILVER.run(Run(spark, shop.lake, shop.config, "silver"))
        assert (report.errors, report.counts["changes"]) == ((), waiting)
        assert "all messages were read again: the log of bronze/messages has lost commits" in report.notes[0]
        shop.run()
        check(shop, capsys, shop.files)
    assert not list(Path(shop.lake.checkpoints).glob("silver.[er]*"))


@pytest.mark.slow
def test_a_checkpoint_out_of_reach_is_left_to_people(
    spark: SparkSession, shop: Shop, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        land(shop, shop.files + 1)
        bronze(shop)
    expire_log(spark, Path(shop.lake.location(MESSAGES_TABLE)))
    with monkeypatch.context() as patch:
        patch.setattr(expired_logs, "is_local", lambda _: False)
        with pytest.raises(MainstemError) as raised:
            SILVER.run(Run(spark, shop.lake, shop.config, "silver"))
    assert raised.value.condition == "LOG_EXPIRED"
    checkpoint = Path(raised.value.where.partition("checkpoint ")[2])
    assert f"{checkpoint}.reset" in raised.value.action
    shutil.rmtree(checkpoint)
    Path(f"{checkpoint}.reset").touch()
    shop.run()
    check(shop, capsys, 3)


@pytest.mark.slow
def test_files_are_looked_up_again_where_their_log_has_lost_the_commits_that_bronze_waits_for(
    spark: SparkSession, shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    feed = Feed("shop", shop.lake, shop.config.sources["feed"], "died")
    for _ in range(3):
        land(shop, shop.files + 1)
        discover(spark, feed, "")
    expire_log(spark, Path(shop.lake.location(log_table("feed"))))
    report = BRONZE.run(Run(spark, shop.lake, shop.config, "bronze"))
    assert (report.errors, report.counts["landed"]) == ((), 3)
    assert "source feed: all files were looked up again: the log of ops/files/feed" in report.notes[0]
    land(shop, 5)
    shop.run()
    check(shop, capsys, 5)
