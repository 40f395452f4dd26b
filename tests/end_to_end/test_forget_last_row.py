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
from gold.planning.table_state import read_states
from tests.end_to_end.test_blob_to_replica import Shop, item, message
from tests.end_to_end.test_forget import SECRET
from tests.end_to_end.test_repair import command


def insert(sequence: int, table: str, number: int, name: str = SECRET) -> dict[str, Any]:
    return message("INSERT", sequence, after=item(number, name, 1.0), tableName=table)


def statement(sequence: int, text: str) -> dict[str, Any]:
    return message("ALTER", sequence, payload={"ddl": {"text": text}}, tableName=text.split()[-1])


def _visited(work: Run) -> list[str]:
    return [table.name for table in tables_to_maintain(work)]


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
