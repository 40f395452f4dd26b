"""The profile of few changes in this process is the one that Spark measures."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.contracts.ddl_actions import AddColumn, DropColumn, RenameColumn, TableName
from framework.contracts.table_schemas import CHANGES
from gold.changes.effects import table_rows
from gold.changes.few_changes import FewMeasurements, row_changes
from gold.changes.profile import Progress, SchemaColumn, profile_of
from gold.changes.profile_queries import profile_rows
from gold.schema.lineage import Lineage, Segment

ITEM, OLD = TableName("shop", None, "item"), TableName("shop", None, "old_item")
NUMBERS = [
    "0",
    "-0",
    "007",
    "12",
    "-9223372036854775808",
    "1.50",
    "-0.001",
    "1e5",
    "12\n",
    "",
    "٣",
    "9" * 38,
    "9" * 39,
]
TEXTS: list[str | None] = [*NUMBERS, "1." + "3" * 38, "text", None]
ENDS = ("", ".011.015", ".010.016", ".011.015.010.016", ".x.1")
SCHEMAS = {
    "declared": (SchemaColumn("id", "int", "int(11)", None), SchemaColumn("n", "bigint", "bigint", None)),
    "undeclared": (SchemaColumn("id", None, None, "number"), SchemaColumn("n", None, None, "number,null")),
    "texts": (SchemaColumn("id", "int", "int(11)", None), SchemaColumn("n", "string", "text", None)),
}
LINEAGE = Lineage(
    ITEM,
    (Segment(OLD, "", "4"), Segment(ITEM, "4", None)),
    (("3", RenameColumn("m", "n")), ("3", AddColumn("x", "int", "int")), ("6", DropColumn("n"))),
)


def _image(source: random.Random) -> dict[str, str | None] | None:
    if source.random() < 0.2:
        return None
    return {name: source.choice(TEXTS) for name in ("id", "n", "m") if source.random() < 0.9}


def _change(source: random.Random, number: int) -> dict[str, Any]:
    table = source.choice((ITEM, OLD, TableName("shop", None, "other")))
    return {
        "change_id": str(number),
        "source": source.choice(("feed", "feed", "feed", "other")),
        "format": "canal",
        "batch": source.randrange(4),
        "kind": source.choice(("row", "row", "row", "ddl")),
        "op": source.choice(("insert", "update", "update", "delete", "read")),
        "database": table.database,
        "table": table.table,
        "sequence": str(source.randrange(1, 9)) + source.choice(ENDS),
        "event_time": source.choice(
            (None, datetime(2026, 1, 1, tzinfo=UTC) + timedelta(microseconds=number))
        ),
        "keys": source.choice((["id"], ["id"], ["id", "n"], [], None)),
        "before": _image(source),
        "after": _image(source),
        "partial": source.choice((None, False, True)),
        "schema_id": source.choice((*SCHEMAS, None, "unknown")),
    }


def test_an_insert_shows_its_key_columns_and_widths(spark: SparkSession) -> None:
    change = _change(random.Random(0), 1) | {
        "source": "feed", "kind": "row", "op": "insert", "batch": 0, "table": "item", "sequence": "5",
        "keys": ["id"], "before": None,
        "after": {"id": "1", "n": "-250"}, "partial": False, "schema_id": "declared",
    }  # fmt: skip
    table = spark.createDataFrame([change], CHANGES).toArrow()
    profile = profile_of(FewMeasurements(row_changes(table, "feed", LINEAGE), Progress()), LINEAGE, SCHEMAS)
    assert (profile.rows, profile.keys, profile.ops) == (1, ("id",), {"insert": 1})
    assert (profile.evidence[2, "n"].digits, profile.evidence[2, "n"].low) == (3, -250)


@pytest.mark.parametrize("seed", range(3))
def test_few_changes_have_the_profile_that_spark_measures(spark: SparkSession, seed: int) -> None:
    source = random.Random(seed)
    rows = [_change(source, number) for number in range(300)]
    frame = spark.createDataFrame(rows, CHANGES)
    applied = Progress(1, "4")
    many = profile_rows(table_rows(frame, "feed", LINEAGE), LINEAGE, SCHEMAS, applied)
    few = row_changes(frame.toArrow(), "feed", LINEAGE)
    assert profile_of(FewMeasurements(few, applied), LINEAGE, SCHEMAS) == many
    assert len(few) == many.rows > 20
