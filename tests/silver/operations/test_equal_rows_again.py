"""Equal rows of a table without a key stay as many when only their messages are decoded again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.contracts.table_names import CHANGES_TABLE
from silver.job import rebuild_silver, replay_silver, run_silver
from tests.silver.operations.test_redecode import Bronze

RULE = """quality:
  rules:
    - {match: shop.log, name: few, range: {column: v, max: 1}, on_change: quarantine}
"""


def maxwell(table: str, **row: object) -> str:
    """A row of one transaction, whose messages do not tell their place in it."""
    keys = {"primary_key_columns": ["id"]} if "id" in row else {}
    named = {"database": "shop", "table": table, "type": "insert", "ts": 1709200800, "xid": 7, "data": row}
    return json.dumps({**named, **keys})


class Maxwell(Bronze):
    """The messages of one topic of Maxwell."""

    def begin(self, epoch: int, more: str = "") -> None:
        super().begin(epoch, more)
        self.file.write_text(self.file.read_text().replace("canal", "maxwell"))

    def kinds(self) -> list[tuple[Any, ...]]:
        rows = self.lake.read(self.spark, CHANGES_TABLE).where("kind <> 'quarantined'").collect()
        return sorted((row["offset"], row["kind"]) for row in rows)


@pytest.mark.slow
def test_equal_rows_that_are_decoded_again_or_replayed_stay_as_many(
    spark: SparkSession, tmp_path: Path
) -> None:
    shop = Maxwell(spark, tmp_path)
    shop.begin(1, RULE)
    shop.land([maxwell("log", v=5), maxwell("orders", id=1), maxwell("log", v=5)])
    run_silver(spark, shop.lake, shop.config)
    assert shop.kinds() == [(1, "row")]
    shop.begin(1)
    replay_silver(spark, shop.lake, shop.config)
    assert shop.kinds() == [(0, "row"), (1, "row"), (2, "row")]
    before = sorted(row["change_id"] for row in shop.lake.read(spark, CHANGES_TABLE).collect())
    rebuild_silver(spark, shop.lake, shop.config, "shop.log")
    assert shop.kinds() == [(0, "row"), (1, "row"), (2, "row")]
    after = sorted(row["change_id"] for row in shop.lake.read(spark, CHANGES_TABLE).collect())
    assert set(after) == set(before)
