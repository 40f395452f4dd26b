"""A row is forgotten in every layer, and the pipeline goes on as if nothing were missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from framework.cli import main
from framework.lakehouse.lakehouse import Lakehouse, sql_name
from framework.pipeline.layer import Run, installed_layers
from tests.end_to_end.test_blob_to_replica import Shop, item, message
from tests.end_to_end.test_repair import command
from tests.jobs import jobs

SECRET = "Ada Lovelace"
MOST_JOBS = 5
"""Jobs of silver in a small batch once a row was forgotten: the log of bronze, and the forgotten changes."""


@pytest.mark.slow
def test_a_forgotten_row_is_in_no_table_and_what_follows_goes_on(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Shop(spark, tmp_path, "tables:\n  - {match: shop.item, history: true}\n")
    halves = [
        message("UPDATE_AFTER", 3, after=item(2, SECRET, 3.0)),
        message("UPDATE_BEFOR", 3, before=item(1, SECRET, 1.0)),
    ]
    shop.land(
        [
            message("INSERT", 1, after=item(1, SECRET, 1.0)),
            message("INSERT", 2, after=item(7, "pen", 2.0)),
            halves[0],
        ]
    )
    shop.run()
    shop.land(
        [
            halves[1],
            message("INSERT", 1, after=item(1, SECRET, 1.0)),
            message("UPDATE_BEFOR", 9, before=item(2, SECRET, 3.0)),
        ]
    )
    shop.run()
    file = str(shop.folder / "mainstem.yml")
    assert main(["forget", "shop.item", "id=2", "-c", file]) == 1
    assert "id=1" in capsys.readouterr().err
    assert main(["forget", "shop.item", "name=pen", "-c", file]) == 2
    before = shop.status()

    code, output = command(shop, capsys, "forget", "shop.item", "id=2", "--follow")
    assert (code, output["keys"]) == (0, [{"id": "2"}, {"id": "1"}])
    assert output["forgotten"] == {
        "bronze": {"messages": 5},
        "gold": {"replica_rows": 1, "history_rows": 2, "bad_values": 0, "reasons": 0},
        "quality": {"quality_results": 0, "runs": 0},
        "silver": {"changes": 2, "pending": 1, "quarantined": 0, "quarantined_suspects": 0, "unread": 0},
    }
    assert shop.rows("shop/item") == {7: item(7, "pen", 2.0)}
    assert not holding(shop, SECRET)
    after = shop.status()
    # two changes, and the half that waited for its partner
    assert (after["messages"], after["changes"], after["excluded"]) == (
        before["messages"],
        before["changes"] - 2,
        3,
    )

    shop.land(
        [
            message("UPDATE", 10, before=item(7, "pen", 2.0), after=item(7, "pen", 2.5)),
            message("INSERT", 1, after=item(1, SECRET, 1.0)),
        ]
    )
    shop.run()
    assert shop.rows("shop/item") == {7: item(7, "pen", 2.5)}
    assert command(shop, capsys, "rebuild", "shop.item")[0] == 0
    assert shop.rows("shop/item") == {7: item(7, "pen", 2.5)}


def holding(shop: Shop, text: str) -> list[str]:
    """The tables whose newest version holds the text somewhere."""
    found = []
    for log in sorted((shop.folder / "lakehouse").rglob("_delta_log")):
        rows = shop.spark.read.format("delta").load(str(log.parent))
        shown = [str(value) for row in rows.collect() for value in row.asDict(recursive=True).items()]
        if any(text in line for line in shown):
            found.append(str(log.parent))
    return found


@pytest.mark.slow
def test_later_batches_cost_little_more_and_a_forgotten_row_that_comes_again_stays_forgotten(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(spark, tmp_path)
    first = [message("INSERT", number, after=item(number, "pen", 1.5)) for number in (1, 2)]
    shop.land(first)
    shop.run()
    assert command(shop, capsys, "forget", "shop.item", "id=2")[0] == 0
    shop.land([message("INSERT", 3, after=item(3, "pen", 1.5))])
    shop.run()
    asked: list[int] = []
    history = Lakehouse.history

    def told(lake: Lakehouse, session: SparkSession, name: str, limit: int = 1_000) -> DataFrame:
        asked.append(limit)
        return history(lake, session, name, limit)

    monkeypatch.setattr(Lakehouse, "history", told)
    bronze, silver = list(installed_layers())[:2]
    for number in (4, 5):
        shop.land([message("INSERT", number, after=item(number, "pen", 1.5))])
        work = Run(spark, shop.lake, shop.config, f"run-{number}")
        assert not bronze.run(work).errors
        before = jobs(spark)
        assert not silver.run(work).errors
        counted = jobs(spark) - before
    assert max(asked) < 1_000  # of the commits of bronze only the new ones
    assert counted <= MOST_JOBS
    shop.land(first[1:])
    shop.run()
    assert sorted(shop.rows("shop/item")) == [1, 3, 4, 5]
    assert shop.status()["excluded"] == 2
    table = sql_name(shop.lake.location("bronze/messages"))
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.appendOnly' = 'false')")
    spark.sql(f"DELETE FROM {table} WHERE line = 1")
    assert main(["run", "-c", str(shop.folder / "mainstem.yml")]) == 1
    assert "BRONZE_REWRITTEN" in capsys.readouterr().err
