"""The newest changes, whoever reads them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.contracts.table_names import CHANGES_TABLE
from framework.contracts.table_schemas import CHANGES
from framework.lakehouse.lakehouse import Lakehouse
from silver.batches import changes_table
from silver.batches.changes_table import changes_since
from tests.framework.lakehouse.test_recent_rows import changes


@pytest.mark.parametrize("limits", [(100, 10_000_000), (2, 10_000_000), (100, 3_000)])
def test_few_and_many_changes_since_a_batch_are_the_same(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int]
) -> None:
    monkeypatch.setattr(changes_table, "_FEW_ROWS", limits[0])
    monkeypatch.setattr(changes_table, "_FEW_BYTES", limits[1])
    lake = Lakehouse(str(tmp_path))
    assert changes_since(spark, lake, 0).count() == 0
    for batch, ids in enumerate([(1, 2, 3), (4, 5, 6), (7,)]):
        lake.append(changes(spark, batch, *ids).coalesce(1), CHANGES_TABLE)
    for batch in range(4):
        found, expected = changes_since(spark, lake, batch), lake.read(spark, CHANGES_TABLE)
        assert [(c.name, c.dataType) for c in found.schema] == [(c.name, c.dataType) for c in CHANGES]
        rows, all_rows = (frame.toArrow().to_pylist() for frame in (found, expected))
        assert sorted(rows, key=str) == sorted((r for r in all_rows if r["batch"] >= batch), key=str)
