"""A row found in this process is the one that Spark finds by the text of its cells."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from framework.lakehouse.local_reader import Unreadable
from framework.lakehouse.local_rows import local_row

CELLS = {
    "whole": ("bigint", ("5", "-9223372036854775808", "0")),
    "small": ("tinyint", ("-128", "7", "0")),
    "text": ("string", ("'5'", "''", "'Zoë O\\'Fennel'")),
    "truth": ("boolean", ("true", "false", "true")),
    "day": ("date", ("DATE'2024-02-29'", "DATE'0099-01-02'", "DATE'1970-01-01'")),
    "price": ("decimal(12,2)", ("1.50", "-0.01", "0.00")),
    "count": ("decimal(38,0)", ("99999999999999999999999999999999999999", "0", "-7")),
    "a`b`.c": ("int", ("1", "2", "3")),
}
TEXTS = (
    *("5", "05", "+5", "-0", "0", "7", "-7", "-128", "128", "1", "", " 5", "٥", "NaN", "null", "1E2"),
    *("1.5", "1.50", "01.50", "-0.01", "0.00", "-0.00", "9" * 38, "9" * 39),
    *("true", "TRUE", "false", "Zoë O'Fennel", "zoë o'fennel"),
    *("2024-02-29", "20240229", "2024-2-29", "0099-01-02", "1970-01-01"),
    *("-9223372036854775808", "9223372036854775808"),
)
ONLY_SPARK = {
    "number": ("double", "1.5"),
    "moment": ("timestamp", "TIMESTAMP'2024-01-01 00:00:00Z'"),
    "local": ("timestamp_ntz", "TIMESTAMP_NTZ'2024-01-01 00:00:00.000001'"),
    "bytes": ("binary", "X'01'"),
    "tiny": ("decimal(20,10)", "0.0000000001"),
}


def table(spark: SparkSession, folder: Path, rows: int) -> str:
    columns = [
        f"CASE n {' '.join(f'WHEN {i} THEN {cell}' for i, cell in enumerate(cells))} END :: {kind} AS "
        f"`{name.replace('`', '``')}`"
        for name, (kind, cells) in CELLS.items()
    ]
    others = [
        f"CASE WHEN n < 3 THEN {cell} END :: {kind} AS {name}" for name, (kind, cell) in ONLY_SPARK.items()
    ]
    location = str(folder / "table")
    frame = spark.range(rows).withColumnRenamed("id", "n").selectExpr("n", *columns, *others)
    frame.coalesce(1).write.format("delta").option("delta.columnMapping.mode", "none").save(location)
    return location


@pytest.fixture(scope="module")
def location(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The fourth row has nulls."""
    return table(spark, tmp_path_factory.mktemp("rows"), 4)


@pytest.mark.slow
@pytest.mark.parametrize("name", CELLS)
def test_cells_are_compared_as_texts(spark: SparkSession, location: str, name: str) -> None:
    rows = spark.read.format("delta").load(location)
    found = 0
    for text in TEXTS:
        cell = F.col("`" + name.replace("`", "``") + "`")
        row = rows.where(cell.cast("string") == F.lit(text)).orderBy("n").first()
        mine = local_row(location, {name: text})
        assert (None if mine is None else mine["n"]) == (None if row is None else row["n"]), text
        assert row is None or name == "truth" or mine == row.asDict()
        found += row is not None
    assert found
    assert (local_row(location, {name: None}) or {})["n"] == 3


@pytest.mark.parametrize("name", ONLY_SPARK)
def test_what_spark_writes_in_its_own_way_is_left_to_spark(location: str, name: str) -> None:
    with pytest.raises(Unreadable):
        local_row(location, {name: "1.5"})


def test_all_texts_must_be_those_of_one_row(location: str) -> None:
    assert local_row(location, {"whole": "5", "small": "7"}) is None
    found = local_row(location, {"whole": "5", "small": "-128"})
    assert found is not None
    assert found["text"] == "5"


def test_a_table_may_have_no_row(spark: SparkSession, tmp_path: Path) -> None:
    location = table(spark, tmp_path, 3)
    spark.sql(f"ALTER TABLE delta.`{location}` ADD COLUMN more int")
    found = local_row(location, {"n": "2"})
    assert found is not None
    assert found["more"] is None
    spark.sql(f"DELETE FROM delta.`{location}`")
    assert local_row(location, {"n": "2"}) is None


def test_a_table_with_marked_rows_is_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    location = table(spark, tmp_path, 3)
    spark.sql(f"ALTER TABLE delta.`{location}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    spark.sql(f"DELETE FROM delta.`{location}` WHERE n = 1")
    with pytest.raises(Unreadable):
        local_row(location, {"n": "2"})
    with pytest.raises(Unreadable):
        local_row(str(tmp_path / "none"), {"n": "2"})
