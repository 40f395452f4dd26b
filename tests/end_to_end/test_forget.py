"""A row is forgotten in every layer, and the pipeline goes on as if nothing were missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.cli import main
from tests.end_to_end.test_blob_to_replica import Shop, item, message
from tests.end_to_end.test_repair import command

SECRET = "Ada Lovelace"


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
        "silver": {"changes": 2, "pending": 1, "quarantined": 0, "quarantined_suspects": 0},
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
