"""A row found in this process is the one that Spark finds by the values of its cells."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from struct import pack, unpack
from typing import Any

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
    "tiny": ("decimal(20,10)", ("0.0000000001", "1", "0")),
    "a`b`.c": ("int", ("1", "2", "3")),
    "number": ("double", ("1.5", "double('NaN')", "-0.0D")),
    "single": ("float", ("float('0.1')", "float('Infinity')", "float('NaN')")),
    "moment": ("timestamp", tuple(f"TIMESTAMP'{at}Z'" for at in ("2024-01-01 00:00:00", "0099-01-02 03:04:05",
        "9999-12-31 23:59:59.999999"))),
    "local": ("timestamp_ntz", tuple(f"TIMESTAMP_NTZ'{at}'" for at in ("2024-01-01 00:00:00.000001",
        "1582-10-10 00:00:00", "1970-01-01 00:00:00"))),
    "bytes": ("binary", ("X'01'", "X''", "X'FF00'")),
}  # fmt: skip
VALUES: dict[str, tuple[Any, ...]] = {
    "whole": (5, -(2**63), 0, 7, 2**63),
    "small": (-128, 7, 0, 128),
    "text": ("5", "", "Zoë O'Fennel", "zoë o'fennel", "NaN"),
    "truth": (True, False),
    "day": (date(2024, 2, 29), date(99, 1, 2), date(1970, 1, 1), date(2024, 2, 28)),
    "price": (Decimal("1.5"), Decimal("-0.010"), Decimal("-0"), Decimal("1.51")),
    "count": (Decimal("9" * 38), Decimal("0.00"), Decimal(-7)),
    "tiny": (Decimal("1E-10"), Decimal(1), Decimal("0E-10")),
    "a`b`.c": (1, 2, 3, 4),
    "number": (1.5, math.nan, 0.0, -0.0, 1.0),
    "single": (unpack("f", pack("f", 0.1))[0], math.inf, math.nan, 0.5, -math.inf),
    "moment": tuple(map(datetime.fromisoformat, ("2024-01-01 00:00:00", "0099-01-02 03:04:05",
        "9999-12-31 23:59:59.999999", "2024-01-01 00:00:00.000001"))),
    "local": tuple(map(datetime.fromisoformat, ("2024-01-01 00:00:00.000001", "1582-10-10 00:00:00",
        "1970-01-01 00:00:00", "1970-01-01 01:00:00"))),
    "bytes": (b"\x01", b"", b"\xff\x00", b"\xff"),
}  # fmt: skip


def table(spark: SparkSession, folder: Path, rows: int) -> str:
    columns = [
        f"CASE n {' '.join(f'WHEN {i} THEN {cell}' for i, cell in enumerate(cells))} END :: {kind} AS "
        f"`{name.replace('`', '``')}`"
        for name, (kind, cells) in CELLS.items()
    ]
    location = str(folder / "table")
    frame = spark.range(rows).withColumnRenamed("id", "n").selectExpr("n", *columns)
    frame.coalesce(1).write.format("delta").option("delta.columnMapping.mode", "none").save(location)
    return location


@pytest.fixture(scope="module")
def location(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The fourth row has nulls."""
    return table(spark, tmp_path_factory.mktemp("rows"), 4)


@pytest.mark.slow
@pytest.mark.parametrize("name", CELLS)
def test_cells_are_compared_as_spark_does(spark: SparkSession, location: str, name: str) -> None:
    rows = spark.read.format("delta").load(location)
    kind, cells = CELLS[name]
    cell, found = F.col("`" + name.replace("`", "``") + "`"), set()
    for value in VALUES[name]:
        text = f"{value}Z" if kind == "timestamp" else str(value)
        own = F.lit(text if isinstance(value, int | date) else value).try_cast(kind)
        row = rows.where(own.isNotNull() & (cell == own)).orderBy("n").first()
        mine = local_row(location, {name: value})
        assert (None if mine is None else mine["n"]) == (None if row is None else row["n"]), value
        assert row is None or _plain(mine) == _plain(row.asDict())
        found.add(None if row is None else row["n"])
    assert found >= set(range(2 if name == "truth" else len(cells)))
    assert (local_row(location, {name: None}) or {})["n"] == 3


def _plain(row: dict[str, Any] | None) -> dict[str, Any]:
    """A row with its cells as they can be compared: NaN is one."""
    return {name: "NaN" if cell != cell else cell for name, cell in (row or {}).items()}


def test_all_values_must_be_those_of_one_row(location: str) -> None:
    assert local_row(location, {"whole": 5, "small": 7}) is None
    found = local_row(location, {"whole": 5, "small": -128})
    assert found is not None
    assert found["text"] == "5"


def test_a_table_may_have_no_row(spark: SparkSession, tmp_path: Path) -> None:
    location = table(spark, tmp_path, 3)
    spark.sql(f"ALTER TABLE delta.`{location}` ADD COLUMN more int")
    found = local_row(location, {"n": 2})
    assert found is not None
    assert found["more"] is None
    spark.sql(f"DELETE FROM delta.`{location}`")
    assert local_row(location, {"n": 2}) is None


def test_a_table_with_marked_rows_is_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    location = table(spark, tmp_path, 3)
    spark.sql(f"ALTER TABLE delta.`{location}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    spark.sql(f"DELETE FROM delta.`{location}` WHERE n = 1")
    with pytest.raises(Unreadable):
        local_row(location, {"n": 2})
    with pytest.raises(Unreadable):
        local_row(str(tmp_path / "none"), {"n": 2})
