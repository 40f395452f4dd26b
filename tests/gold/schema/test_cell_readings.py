"""Cells that were sent while their column had another type."""

from __future__ import annotations

from datetime import datetime

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from framework.contracts.ddl_actions import AddColumn, TableName
from gold.changes.profile import SchemaColumn
from gold.schema.casting import NO_TEXT, fault, typed
from gold.schema.cell_readings import (
    Reading,
    read_column,
    read_otherwise,
    read_text,
    with_mixed,
    with_readings,
)
from gold.schema.columns import ColumnNaming, TableColumn
from gold.schema.lineage import Lineage, Segment
from gold.schema.type_inference import ColumnEvidence

ITEM = TableName("shop", None, "item")
NO_STATEMENTS = Lineage(ITEM, (Segment(ITEM, "", None),))
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
    columns.append(TableColumn("f", "boolean", None))
    older, newer = with_readings(namings, columns, evidence, {}, NO_STATEMENTS)
    assert (older.names, older.defaults, older.readings) == ({"d": "day"}, {"f": "true"}, {"day": "midnight"})
    assert newer == ColumnNaming()
    assert newer.keeps_images
    assert not older.keeps_images


def test_the_default_of_a_date_is_a_wall_time_where_the_column_became_one() -> None:
    (naming,) = with_readings(
        [ColumnNaming(defaults={"day": "2024-02-29", "at": "2024-02-29"})],
        [TableColumn("day", "timestamp_ntz", None), TableColumn("at", "date", None)],
        {},
        {},
        NO_STATEMENTS,
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


def test_bytes_are_the_text_that_they_are_in_utf8_and_others_are_marked() -> None:
    texts = {"YWJj": "abc", "w6k=": "é", "": "", "8J+miiDmlbDph48=": "🦊 数量"}
    assert {text: read_text(text, Reading.TEXT_OF_BYTES) for text in texts} == texts
    for text in ("/w==", "7aCA", "no base64"):  # latin1, a surrogate, and a text that fits no bytes
        assert read_text(text, Reading.TEXT_OF_BYTES) == NO_TEXT + text
    assert read_text("é", Reading.BYTES_OF_TEXT) == "w6k="
    assert read_text("2024-02-29T10:00:00.500", Reading.TEXT_OF_TIME) == "2024-02-29 10:00:00.500"


def test_a_cell_of_a_mixed_column_is_read_by_the_type_of_its_own_row() -> None:
    both = ColumnEvidence(types=frozenset({"binary", "string"}))
    times = ColumnEvidence(types=frozenset({"timestamp_ntz", "string"}), declared=frozenset({"varchar(30)"}))
    evidence = {(0, "b"): both, (1, "body"): both, (1, "at"): times, (1, "raw"): both, (1, "k"): both}
    kinds = {"body": "string", "at": "string", "raw": "binary", "k": "string"}
    shown = {"body": both, "at": times, "raw": both, "k": both}
    columns = with_mixed([TableColumn(n, kind, None) for n, kind in kinds.items()], shown, ["k"])
    assert [column.read_as for column in columns] == ["utf8", "utf8", "binary", "string"]
    schemas = {
        "old": [SchemaColumn("b", "binary", None, None)],
        "new": [SchemaColumn("body", "string", None, None), SchemaColumn("raw", "string", None, None)],
        "time": [SchemaColumn("at", "timestamp_ntz", None, None), SchemaColumn("k", "binary", None, None)],
    }
    add = AddColumn("body", "binary", "blob", default="YWJj")
    lineage = Lineage(ITEM, (Segment(ITEM, "", None),), (("1", add),))
    namings = [ColumnNaming({"b": "body"}, {"body": "YWJj"}), ColumnNaming()]
    older, newer = with_readings(namings, columns, evidence, schemas, lineage)
    assert older.schema_readings == {"old": {"body": "text of bytes"}}
    assert older.defaults == {"body": "abc"}
    assert newer.schema_readings == {"new": {"raw": "bytes of text"}, "time": {"at": "text of time"}}


@pytest.mark.parametrize("declared", ["datetime2(7)", "TIMESTAMP(9)", "io.debezium.time.NanoTimestamp"])
def test_long_times_are_texts_as_wall_times_are(declared: str) -> None:
    shown = ColumnEvidence(types=frozenset({"timestamp_ntz", "string"}), declared=frozenset({declared}))
    (column,) = with_mixed([TableColumn("at", "string", None)], {"at": shown}, [])
    assert not column.is_mixed


def test_bytes_that_are_no_text_are_bad_values(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(NO_TEXT + "/w==",), ("abc",), (None,)], "t string")
    found = frame.select(typed(F.col("t"), "utf8"), fault(F.col("t"), "utf8")).collect()
    assert [tuple(one) for one in found] == [(None, "bad_value"), ("abc", None), (None, None)]


@pytest.mark.parametrize(
    ("kind", "applied", "new", "is_changed"),
    [
        ("string", {"string"}, {"binary"}, False),
        ("string", {"timestamp_ntz", "timestamp"}, {"string"}, True),
        ("string", {"binary", "string"}, {"binary", "string"}, False),
        ("binary", {"string"}, {"binary"}, True),
        ("binary", {"binary"}, {"string"}, False),
    ],
)
def test_applied_cells_that_are_read_in_another_way_are_known(
    kind: str, applied: set[str], new: set[str], is_changed: bool
) -> None:
    before = {"b": ColumnEvidence(types=frozenset(applied))}
    today = {"b": before["b"] | ColumnEvidence(types=frozenset(new))}
    columns = with_mixed([TableColumn("b", kind, None)], today, [])
    assert (read_otherwise(columns, before, []) == "b") is is_changed
