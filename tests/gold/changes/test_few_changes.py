"""The profile of few changes in this process is the one that Spark measures."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from framework.config.tables import SchemaPolicy
from framework.contracts.ddl_actions import AddColumn, DropColumn, RenameColumn, TableName
from framework.contracts.table_schemas import CHANGES
from gold.changes.effects import table_rows, with_current_names
from gold.changes.few_changes import FewChange, FewMeasurements, current_changes, row_changes
from gold.changes.profile import Profile, Progress, SchemaColumn, namings_for, profile_of
from gold.changes.profile_queries import _Queries, profile_rows, whole_numbers
from gold.schema.case_matching import match_case
from gold.schema.columns import column_namings, evidence_by_column
from gold.schema.lineage import Lineage, Segment
from gold.schema.type_inference import ColumnEvidence, infer_type

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
WHOLE: list[str | None] = ["0", "5", "12", "-250", "9223372036854775807", "-9223372036854775808", None]
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


def _image(source: random.Random, texts: list[str | None]) -> dict[str, str | None] | None:
    if source.random() < 0.2:
        return None
    return {name: source.choice(texts) for name in ("id", "n", "m") if source.random() < 0.9}


def _change(source: random.Random, number: int, texts: list[str | None] = TEXTS) -> dict[str, Any]:
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
        "before": _image(source, texts),
        "after": _image(source, texts),
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


@pytest.mark.parametrize("texts", [TEXTS, WHOLE], ids=["any texts", "whole numbers"])
@pytest.mark.parametrize("numbers", [(), ("n",), ("id", "m", "n", "z")], ids=["none", "one", "all"])
def test_few_changes_have_the_profile_that_spark_measures(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, texts: list[str | None], numbers: tuple[str, ...]
) -> None:
    jobs, measured_widths = list[set[str]](), _Queries._measured_widths

    def counted(self: _Queries, names: set[str]) -> Any:
        jobs.append(names)
        return measured_widths(self, names)

    monkeypatch.setattr(_Queries, "_measured_widths", counted)
    source = random.Random(len(numbers))
    rows = [_change(source, number, texts) for number in range(300)]
    frame = spark.createDataFrame(rows, CHANGES)
    applied = Progress(1, "4")
    earlier = Profile(evidence={(0, name): ColumnEvidence(types=frozenset({"int"})) for name in numbers})
    many = profile_rows(table_rows(frame, "feed", LINEAGE), LINEAGE, SCHEMAS, applied, earlier)
    few = row_changes(frame.toArrow(), "feed", LINEAGE)
    assert profile_of(FewMeasurements(few, applied), LINEAGE, SCHEMAS, earlier) == many
    assert len(few) == many.rows > 20
    left = {"id", "n"} - (set(numbers) if texts is WHOLE else set())
    assert jobs == ([left] if left else [])


@pytest.mark.parametrize("policy", list(SchemaPolicy))
def test_few_changes_have_the_current_names_that_spark_gives(
    spark: SparkSession, policy: SchemaPolicy
) -> None:
    source = random.Random(str(policy))
    rows = [_change(source, number) for number in range(300)]
    frame = spark.createDataFrame(rows, CHANGES)
    actions = (RenameColumn("m", "o"), AddColumn("x", "int", "int", default="7"), DropColumn("n"))
    lineage = replace(LINEAGE, column_changes=tuple(zip(("3", "3", "6"), actions, strict=True)))
    for reused in ((), ("n",)):
        namings = column_namings(lineage, policy, reused)
        many = with_current_names(table_rows(frame, "feed", lineage), lineage, namings).collect()
        few = current_changes(frame.toArrow(), "feed", lineage, namings)
        assert {row["change_id"]: row for row in few} == {row["change_id"]: _cells(row) for row in many}
        assert any("x" in (row["after"] or {}) for row in few)


def _cells(row: Row) -> dict[str, Any]:
    return {name: _cells(cell) if isinstance(cell, Row) else cell for name, cell in row.asDict().items()}


def test_columns_with_whole_numbers_alone_are_expected_to_have_them_again() -> None:
    whole, text = ColumnEvidence(tokens=frozenset({"number"}), digits=3, low=-250), ColumnEvidence(digits=2)
    evidence = {(0, "a"): whole, (1, "a"): whole, (0, "b"): text, (0, "c"): whole}
    with_scale = {(1, "c"): replace(whole, scale=2), (0, "d"): replace(whole, has_others=True)}
    assert whole_numbers(Profile(evidence={**evidence, **with_scale})) == {"a"}


@pytest.mark.parametrize("spelling", ["note", "NOTE"])
@pytest.mark.parametrize("is_renamed", [False, True], ids=["dropped", "renamed"])
def test_nulls_before_a_statement_do_not_take_the_kind_of_the_column_that_has_the_name_behind_it(
    spelling: str, is_renamed: bool
) -> None:
    """Rows that came together have one schema: it has the kinds of the values of both columns."""
    action = RenameColumn(spelling, "title") if is_renamed else DropColumn(spelling)
    lineage = Lineage(
        ITEM, (Segment(ITEM, "", None),), (("5", action), ("5", AddColumn(spelling, None, None)))
    )
    schemas = {
        "both": (SchemaColumn("id", None, None, "number"), SchemaColumn("note", None, None, "null,number"))
    }

    def change(naming: int, sequence: str, note: str | None) -> FewChange:
        image = {"id": sequence, "note": note}
        return FewChange(
            f"id{sequence}", naming, 0, "insert", sequence, None, ("id",), None, image, False, False, "both"
        )

    found = profile_of(
        FewMeasurements([change(0, "1", None), change(2, "7", "5")], Progress()), lineage, schemas
    )
    namings = namings_for(match_case(lineage, found.evidence), SchemaPolicy.LENIENT, found)
    kinds = {name: infer_type(shown) for name, shown in evidence_by_column(found.evidence, namings).items()}
    former = "title" if is_renamed else "_cdc_dropped_1_note"
    assert (kinds[former], kinds["note"]) == ("string", "bigint")
