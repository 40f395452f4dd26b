"""Rules on changes check every column that an image has, and no column that a partial image leaves out."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from framework.config.quality import Accepted, OnChange, QualityRule, Range
from silver.batches.quality_rules import breaks, breaks_by_name, quarantine_broken

ROWS = (
    "kind string, op string, database string, schema string, `table` string, partial boolean, "
    "after map<string,string>"
)
RULE = QualityRule(match="db.t", not_null=("a", "b"), on_change=OnChange.QUARANTINE)


@pytest.mark.parametrize(
    ("after", "partial", "is_broken"),
    [
        ({"id": "1", "a": None}, True, True),
        ({"id": "1", "b": None}, True, True),
        ({"id": "1", "a": "2"}, True, False),
        ({"id": "1"}, True, False),
        ({"id": "1", "a": "2"}, False, True),
        ({"id": "1", "a": "2"}, None, True),
        ({"id": "1", "a": "2", "b": "3"}, False, False),
        (None, True, False),
    ],
)
def test_a_null_that_is_there_breaks_a_rule_though_another_column_is_left_out(
    spark: SparkSession, after: dict[str, str | None] | None, partial: bool | None, is_broken: bool
) -> None:
    rows = spark.createDataFrame([("row", "update", "db", None, "t", partial, after)], ROWS)
    assert [row[0] for row in rows.select(breaks(RULE)).collect()] == [is_broken]


@pytest.mark.parametrize(
    ("low", "high", "good", "bad"),
    [
        (None, "1e6", ["5", "1000000.00"], ["1000000.01", "pen"]),
        (None, "100", ["5", "9.5", "100.0"], ["100.5"]),
        ("-5", "99.99", ["-4.5", "10"], ["-6", "99.991", "10000"]),
        (None, "99999999999999999.99", ["99999999999999999.99"], ["99999999999999999.991"]),
        (None, "2024-01-01 10:00:00", ["2024-01-01T05:00:00Z", "2024-01-01"], ["2024-01-01T10:00:01Z"]),
        (
            "2024-01-01T10:00:00+02:00",
            "2024-01-02",
            ["2024-01-01T08:00:00.000", "2024-01-02"],
            ["2024-01-01T07:59:59.9999999Z", "2024-01-02T00:00:01Z", "2024-13-01", "5"],
        ),
        ("2020", None, ["2020-01-01", "2021", "2020-06-01T00:00:00Z"], ["2019-12-31", "2019"]),
        ("pen", None, ["pencil"], ["ink"]),
    ],
)
def test_bounds_that_are_texts_are_compared_by_their_value(
    spark: SparkSession, low: str | None, high: str | None, good: list[str], bad: list[str]
) -> None:
    between = Range(column="a", min=low, max=high)
    rule = QualityRule(match="db.t", range=between, on_change=OnChange.QUARANTINE)
    images = [("row", "update", "db", None, "t", False, {"a": value}) for value in (*good, *bad)]
    rows = spark.createDataFrame(images, ROWS).coalesce(1)
    found = [row[0] for row in rows.select(breaks(rule)).collect()]
    assert found == [False] * len(good) + [True] * len(bad)


def test_names_of_columns_are_found_in_any_case_and_an_exact_one_first(spark: SparkSession) -> None:
    rule = QualityRule(match="db.t", not_null=("ID",), on_change=OnChange.QUARANTINE)
    afters = [{"id": "1"}, {"id": None}, {"id": None, "ID": "1"}, {"id": "1", "ID": None}, {"b": "1"}]
    rows = spark.createDataFrame([("row", "update", "db", None, "t", True, a) for a in afters], ROWS)
    found = [row[0] for row in rows.coalesce(1).select(breaks(rule)).collect()]
    assert found == [False, True, False, True, False]


def test_of_two_rules_with_one_name_the_later_counts_only_where_both_match(spark: SparkSession) -> None:
    def rule(match: str, *values: str) -> QualityRule:
        accepted = Accepted(column="a", values=values)
        return QualityRule(match=match, name="known", accepted=accepted, on_change=OnChange.WARN)

    rules = [rule("db.t*", "x"), rule("db.u", "x"), rule("db.t1", "y")]
    changes = [("t", "x"), ("t", "y"), ("u", "x"), ("u", "y"), ("t1", "x"), ("t1", "y"), ("v", "y")]
    images = [("row", "update", "db", None, table, False, {"a": value}) for table, value in changes]
    rows = spark.createDataFrame(images, ROWS).coalesce(1)
    broken = breaks_by_name(rules)
    assert list(broken) == ["known"]
    found = [row[0] for row in rows.select(broken["known"]).collect()]
    assert found == [False, True, False, True, True, False, False]


@pytest.mark.slow
def test_a_thousand_rules_of_one_name_do_not_overflow_the_stack(spark: SparkSession) -> None:
    def rules(on_change: OnChange) -> list[QualityRule]:
        matches = (f"db.t{number}" for number in range(1_000))
        return [QualityRule(match=match, not_null=("id",), on_change=on_change) for match in matches]

    rows = spark.createDataFrame([], ROWS)
    (broken,) = breaks_by_name(rules(OnChange.WARN)).values()
    assert rows.select(broken.alias("broken")).columns == ["broken"]
    staged = rows.selectExpr("*", "after AS before", "'' AS reason", "'' AS detail")
    assert quarantine_broken(staged, rules(OnChange.QUARANTINE)).columns == staged.columns


def test_a_quarantined_change_names_the_first_rule_that_it_breaks(spark: SparkSession) -> None:
    names = ("id", "a", "b")
    rules = [QualityRule(match="db.t", not_null=(n,), on_change=OnChange.QUARANTINE) for n in names]
    afters = [{"id": "1", "a": None, "b": None}, {"id": "1", "a": "1", "b": "1"}]
    images = [("row", "update", "db", None, "t", False, after) for after in afters]
    staged = spark.createDataFrame(images, ROWS).coalesce(1)
    staged = staged.selectExpr("*", "after AS before", "'' AS reason", "'' AS detail")
    found = quarantine_broken(staged, rules).select("kind", "detail").collect()
    assert list(map(tuple, found)) == [("quarantined", "not_null(a)"), ("row", "")]
