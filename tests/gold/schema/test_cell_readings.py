"""Cells that were sent while their column had another type."""

from __future__ import annotations

from datetime import datetime

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from gold.schema.cell_readings import Reading, read_column, read_text, with_readings
from gold.schema.columns import ColumnNaming, TableColumn
from gold.schema.type_inference import ColumnEvidence

DAYS = ColumnEvidence(types=frozenset({"date"}))
TEXTS = [
    "2024-02-29",
    "2024-02-30",
    "2024-02-29T10:00:00",
    "2024-02-29\n",
    "٢٠٢٤-02-29",
    "0000-00-00",
    "",
    None,
]


def test_dates_are_read_as_midnights_where_their_column_has_wall_times_today() -> None:
    evidence = {
        (0, "d"): DAYS,
        (1, "day"): ColumnEvidence(types=frozenset({"timestamp_ntz"})),
        (0, "e"): DAYS,
    }
    columns = [TableColumn("day", "timestamp_ntz", None), TableColumn("e", "date", None)]
    namings = [ColumnNaming({"d": "day"}, {"f": "1"}), ColumnNaming()]
    older, newer = with_readings(namings, [*columns, TableColumn("f", "boolean", None)], evidence)
    assert (older.names, older.defaults, older.readings) == ({"d": "day"}, {"f": "true"}, {"day": "midnight"})
    assert newer == ColumnNaming()
    assert newer.keeps_images
    assert not older.keeps_images


def test_the_default_of_a_date_is_a_wall_time_where_the_column_became_one() -> None:
    (naming,) = with_readings(
        [ColumnNaming(defaults={"day": "2024-02-29", "at": "2024-02-29"})],
        [TableColumn("day", "timestamp_ntz", None), TableColumn("at", "date", None)],
        {},
    )
    assert naming.defaults == {"day": "2024-02-29T00:00:00", "at": "2024-02-29"}


def test_only_a_date_is_read_as_a_midnight() -> None:
    assert read_text("2024-02-29", Reading.MIDNIGHT) == "2024-02-29T00:00:00"
    assert datetime.fromisoformat(read_text("2024-02-29", Reading.MIDNIGHT)) == datetime(2024, 2, 29)
    assert read_text("2024-02-29", None) == "2024-02-29"
    for text in ("2024-02-29T10:00:00", "2024-02-29\n", "", "٢٠٢٤-02-29"):
        assert read_text(text, Reading.MIDNIGHT) == text


@pytest.mark.parametrize("reading", [None, *Reading])
def test_spark_reads_a_cell_as_this_process_does(spark: SparkSession, reading: str | None) -> None:
    frame = spark.createDataFrame([(text,) for text in TEXTS], "t string")
    read = read_column(F.col("t"), F.lit(reading).cast("string"))
    found = [row[0] for row in frame.select(read).collect()]
    assert found == [None if text is None else read_text(text, reading) for text in TEXTS]
