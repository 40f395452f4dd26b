"""Nothing is left of a table once its last row is forgotten: other tables go on, and it stays known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from framework.cli import main
from framework.lakehouse.kept_rows import forget_kept_rows
from framework.pipeline.layer import Run
from gold.operations.maintain import tables_to_maintain
from gold.planning.discovery import all_tasks
from gold.planning.rebuild import lineage_digest
from gold.planning.table_state import read_states
from tests.end_to_end.test_blob_to_replica import Shop, item, message
from tests.end_to_end.test_forget import SECRET, holding
from tests.end_to_end.test_repair import command


def insert(sequence: int, table: str, number: int, name: str = SECRET) -> dict[str, Any]:
    return message("INSERT", sequence, after=item(number, name, 1.0), tableName=table)


def statement(sequence: int, text: str) -> dict[str, Any]:
    return message("ALTER", sequence, payload={"ddl": {"text": text}}, tableName=text.split()[-1])


FEEDS = {
    "renamed": [
        insert(1, "former", 7),
        statement(2, "RENAME TABLE former TO renamed"),
        insert(3, "renamed", 8, "map"),
    ],
    "dropped": [insert(1, "dropped", 7), statement(2, "DROP TABLE dropped")],
    "again": [
        statement(1, "DROP TABLE IF EXISTS again"),
        message(
            "ALTER",
            2,
            tableName="again",
            payload={"ddl": {"text": "CREATE TABLE again (id BIGINT PRIMARY KEY)"}},
        ),
        insert(3, "again", 7),
    ],
    "back": [insert(1, "back", 6, "ink"), statement(2, "DROP TABLE back"), insert(3, "back", 7)],
}
"""Feeds of tables whose last row under a name, or since a DROP, has the key 7."""


@pytest.mark.slow
def test_all_tables_go_on_once_the_last_row_under_a_name_is_forgotten(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Shop(spark, tmp_path, "tables:\n  - {match: shop.*, history: true}\n")
    file = str(shop.folder / "mainstem.yml")
    shop.land([each for feed in FEEDS.values() for each in feed] + [insert(5, "other", 1, "pen")])
    assert main(["run", "-c", file]) == 0
    work = Run(spark, shop.lake, shop.config, "forget")
    visited, lineages = _visited(work), _lineages(work)
    assert {"gold/shop/renamed", "gold/shop/dropped", "gold/shop/again__history"} <= set(visited)

    for table in FEEDS:
        assert command(shop, capsys, "forget", f"shop.{table}", "id=7")[0] == 0
        assert _visited(work) == visited
        assert _lineages(work) == lineages  # so that no table is rebuilt
    assert not holding(shop, SECRET)
    shop.land([insert(6, "other", 2, "cap")])
    code, output = command(shop, capsys, "run")
    assert code == 0
    assert [(line["name"], list(line["notes"])) for line in output["tables"]] == [("shop.other", [])]
    assert sorted(shop.rows("shop/other")) == [1, 2]
    assert main(["plan", "-c", file]) == 0
    assert main(["trace", "shop.dropped", "id=7", "-c", file]) == 1
    assert command(shop, capsys, "status", "--verify")[0] == 0
    assert main(["maintain", "-c", file]) == 0


def _visited(work: Run) -> list[str]:
    return [table.name for table in tables_to_maintain(work) if work.lake.exists(work.spark, table.name)]


def _lineages(work: Run) -> dict[str, str]:
    return {task.name.dotted: lineage_digest(task.lineage) for task in all_tasks(work)}


@pytest.mark.slow
def test_a_table_stays_known_while_and_after_the_counts_of_its_last_row_are_corrected(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its ends are corrected before what is forgotten is counted, and the counts may be made anew."""
    shop = Shop(spark, tmp_path)
    shop.land([insert(1, "item", 7), statement(2, "DROP TABLE item")])
    shop.run()
    work = Run(spark, shop.lake, shop.config, "forget")
    visited = _visited(work)
    assert command(shop, capsys, "forget", "shop.item", "id=7")[0] == 0

    counts = DeltaTable(shop.lake.location("ops/batches"))
    counts.delete("kind = 'excluded'")
    forget_kept_rows(shop.lake)
    assert _visited(work) == visited
    assert main(["run", "-c", str(shop.folder / "mainstem.yml")]) == 0
    counts.update_incremental()
    counts.delete("kind = 'row'")
    forget_kept_rows(shop.lake)
    assert len(read_states(spark, shop.lake)) == 1
    assert _visited(work) == visited
