"""What reads tables in a run."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.local_reader import LocalFirst
from framework.lakehouse.newest_tables import newest_tables
from framework.lakehouse.spark_reader import SparkReader
from framework.lakehouse.table_reader import Query

IDS = Query("ops/numbers", "SELECT `id` FROM {rows} WHERE `id` IN ({ids}) ORDER BY `id`")


def test_each_reader_reads_the_newest_version(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lakehouse(str(tmp_path))
    assert newest_tables(spark, lake).rows(IDS, ids=("a",)) == []
    for text in ("a", "b", "c"):
        lake.append(spark.createDataFrame([(text,)], "id string"), "ops/numbers")
        found = newest_tables(spark, lake).rows(IDS, ids=("c", "b", "none"))
        expected = SparkReader(spark, lake).rows(IDS, ids=("c", "b", "none"))
        assert found == expected == [{"id": one} for one in "bc" if one <= text]
    with pytest.raises(ValueError, match="empty list"):
        newest_tables(spark, lake).rows(IDS, ids=())


def test_tables_that_this_process_does_not_see_are_read_by_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = Lakehouse(str(tmp_path))
    assert isinstance(newest_tables(spark, local), LocalFirst)
    added = Lakehouse(local.root, added={"ops/numbers": spark.range(1)})
    for lake in (Lakehouse(local.root, "main"), Lakehouse("s3://bucket/lake"), added):
        assert isinstance(newest_tables(spark, lake), SparkReader)
    monkeypatch.setenv("SPARK_REMOTE", "sc://elsewhere")
    assert isinstance(newest_tables(spark, local), SparkReader)
