"""A log of repairs that is gone without any note: the commits of the changes tell whether there was one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.contracts.table_names import CHANGES_TABLE, REPAIRS_TABLE
from framework.contracts.table_schemas import CHANGES
from framework.lakehouse.file_commits import replace_files
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.log_rows import file_of
from framework.lakehouse.recent_rows import few_rows
from framework.spark.session import is_connect
from silver.stream.lost_logs import restore_repairs


def test_changes_that_were_replaced_as_a_whole_were_repaired(spark: SparkSession, tmp_path: Path) -> None:
    if is_connect(spark):
        pytest.skip("a client of Spark Connect has no JVM")
    lake = Lakehouse(str(tmp_path))
    change: dict[str, Any] = {
        "source": "feed",
        "batch": 0,
        "kind": "row",
        "database": "shop",
        "table": "item",
    }
    row = tuple((dict.fromkeys(CHANGES.names) | change).values())
    for _ in range(2):
        lake.append(spark.createDataFrame([row], CHANGES), CHANGES_TABLE)
    assert restore_repairs(spark, lake, None) == ()
    rows = few_rows(lake, CHANGES_TABLE, CHANGES)
    assert rows is not None
    with file_of(lake, rows) as file:
        assert replace_files(spark, lake.location(CHANGES_TABLE), CHANGES, file)
    (note,) = restore_repairs(spark, lake, None)
    assert "every table is rebuilt" in note
    assert [tuple(one) for one in lake.read(spark, REPAIRS_TABLE).select("source", "table").collect()] == [
        ("feed", "item")
    ]
