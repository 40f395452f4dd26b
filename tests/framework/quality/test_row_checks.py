"""Many tables are counted by one job, and a rule that cannot be counted hides no other."""

from __future__ import annotations

from pyspark.sql import SparkSession

from framework.contracts.expectations import MeasurementContext, Rule
from framework.quality.great_expectations import has_expectation
from framework.quality.measurement import measure_together, unjudged
from framework.quality.row_checks import row_measurement
from framework.quality.rules import default_rules

NOT_NULL = Rule("not_null(id)", "not_null", ("id",))
UNIQUE = Rule("unique(id)", "unique", ("id",))


def test_tables_are_counted_together_and_a_rule_that_cannot_be_counted_hides_no_other(
    spark: SparkSession,
) -> None:
    items = spark.sql("SELECT * FROM VALUES (1L, 'pen'), (null, 'ink') AS t(id, name)")
    lines = spark.sql("SELECT * FROM VALUES (7, 1L), (7, 2L), (8, 2L) AS t(id, item_id)")
    look = MeasurementContext(spark, is_small=True)
    unknown = Rule("price is known", "sql", text="price > 0")
    absent = Rule("not_null(price)", "not_null", ("price",))

    first, second = measure_together(
        [
            row_measurement(lambda: items, [NOT_NULL, absent], ["id"], look),
            row_measurement(lambda: lines, [UNIQUE], ["id"], look),
        ]
    )
    assert [(f.failed, f.checked, f.keys, f.observed) for f in (*first, *second)] == [
        (1, 2, ("id=null",), "1 of 2 rows"),
        (1, 2, (), "no column price"),
        (1, 3, ("id=7",), "1 of 3 rows"),
    ]

    first, second = measure_together(
        [
            row_measurement(lambda: items, [NOT_NULL, unknown], ["id"], look),
            row_measurement(lambda: lines, [UNIQUE], ["id"], look),
        ]
    )
    assert [(f.failed, f.keys, f.observed) for f in (*first, *second)] == [
        (1, ("id=null",), "1 of 2 rows"),
        (1, (), "could not be judged: UNRESOLVED_COLUMN.WITH_SUGGESTION"),
        (1, ("id=7",), "1 of 3 rows"),
    ]


def test_an_error_of_the_jvm_is_told_by_its_cause() -> None:
    error = Exception(
        "An error occurred while calling o123.collectToPython.\n"
        ": java.util.concurrent.ExecutionException: wrapped\n\tat a.b.c(D.java:1)\n"
        "Caused by: java.io.IOException: 403 no storage key\n\t... 3 more\n"
    )
    finding = unjudged(NOT_NULL, error)
    assert (finding.observed, finding.detail) == (
        "could not be judged",
        "Exception: java.io.IOException: 403 no storage key",
    )


def test_rows_with_a_null_are_equal_to_no_other_row(spark: SparkSession) -> None:
    rows = spark.sql(
        "SELECT * FROM VALUES (1, null, null), (2, null, null), (3, 'a', null), (4, 'a', null), "
        "(5, 'b', 1), (6, 'b', 1), (7, 'b', 2) AS t(id, code, part)"
    )
    rules = [Rule("unique(code)", "unique", ("code",)), Rule("both", "unique", ("code", "part"))]
    look = MeasurementContext(spark, is_small=True)
    (found,) = measure_together([row_measurement(lambda: rows, rules, ["id"], look)])
    assert [(f.failed, f.checked, f.keys) for f in found] == [
        (3, 7, ("code=a", "code=b")),
        (1, 7, ("code=b, part=1",)),
    ]


def test_two_rows_of_one_key_are_found_though_a_column_of_it_is_null(spark: SparkSession) -> None:
    rows = spark.sql("SELECT * FROM VALUES (1, 'a'), (1, null), (1, null), (2, null) AS t(id, part)")
    (_, unique) = default_rules(["id", "part"])
    look = MeasurementContext(spark, is_small=True)
    (found,) = measure_together([row_measurement(lambda: rows, [unique], ["id"], look)])
    assert [(f.failed, f.checked, f.keys) for f in found] == [(1, 4, ("id=1, part=null",))]
    assert not has_expectation(unique)


def test_a_condition_with_a_word_too_many_is_none(spark: SparkSession) -> None:
    items = spark.sql("SELECT * FROM VALUES (1L, 'pen'), (-2L, 'ink') AS t(id, name)")
    look = MeasurementContext(spark, is_small=True)
    texts = ["id > 0", "id > 0 -- positive", "id > 0 ANDD", "id > 0 AND", "DROP TABLE x"]
    rules = [Rule(text, "sql", text=text) for text in texts]
    (found,) = measure_together([row_measurement(lambda: items, rules, ["id"], look)])
    assert [(f.failed, f.is_measured) for f in found] == [(1, True)] * 2 + [(1, False)] * 3
    assert [f.observed for f in found[2:]] == ["could not be judged: PARSE_SYNTAX_ERROR"] * 3
    assert all("PARSE_SYNTAX_ERROR" in (f.detail or "") for f in found[2:])


def test_names_of_any_characters_and_values_of_another_type_are_judged(spark: SparkSession) -> None:
    names = ("order.id", "größe `x`", "名 前")
    rows = spark.createDataFrame(
        [(1, "12", "pen"), (2, "x", "Tinte7"), (2, None, "名")], "a int, b string, c string"
    ).toDF(*names)
    rules = [
        Rule("unique", "unique", ("order.id",)),
        Rule("range", "range", ("größe `x`",), low=1, high=50),
        Rule("regex", "regex", ("名 前",), pattern=r"\p{L}+"),
        Rule("length", "length", ("order.id",), low=1, high=1),
        Rule("accepted", "accepted", ("order.id",), values=("1", 2.0)),
    ]
    (found,) = measure_together(
        [row_measurement(lambda: rows, rules, ["order.id"], MeasurementContext(spark, is_small=True))]
    )
    assert [(f.rule.name, f.failed, f.keys) for f in found] == [
        ("unique", 1, ("order.id=2",)),
        ("range", 1, ("order.id=2",)),
        ("regex", 1, ("order.id=2",)),
        ("length", 0, ()),
        ("accepted", 0, ()),
    ]


def test_bounds_and_accepted_values_are_compared_with_every_digit(spark: SparkSession) -> None:
    rows = spark.sql(
        "SELECT * FROM VALUES (1, -0.000000000000000001BD, '1.0000000000004', 0.1D, 2.50BD), "
        "(2, 0.000000000000000000BD, '1.0', double('NaN'), 2.00BD), "
        "(3, null, null, 1e-13D, null) AS t(id, small, text, rough, price)"
    )
    rules = [
        Rule("min 0", "range", ("small",), low=0),
        Rule("max 1", "range", ("text",), high=1),
        Rule("tiny", "range", ("rough",), low=1e-13, high=0.1),
        Rule("huge", "range", ("small",), low=-(10**26), high=1e26),
        Rule("endless", "range", ("rough",), low=float("-inf"), high=float("inf")),
        Rule("one", "accepted", ("text",), values=(1,)),
        Rule("rough", "accepted", ("rough",), values=(0.1, 1e-13, float("nan"))),
        Rule("price", "accepted", ("price",), values=(2, "2.50")),
        Rule("length", "length", ("text",), low=3, high=3),
    ]
    (found,) = measure_together(
        [row_measurement(lambda: rows, rules, ["id"], MeasurementContext(spark, is_small=True))]
    )
    assert [(f.rule.name, f.keys) for f in found if f.is_measured] == [
        ("min 0", ("id=1",)),
        ("max 1", ("id=1",)),
        ("tiny", ("id=2",)),
        ("huge", ()),
        ("endless", ("id=2",)),
        ("one", ("id=1",)),
        ("rough", ()),
        ("price", ()),
        ("length", ("id=1",)),
    ]


def test_bounds_that_are_texts_are_compared_as_those_of_changes_are(spark: SparkSession) -> None:
    rows = spark.sql(
        "SELECT 1 AS id, 100000000000000000.00BD AS price, 7 AS n, timestamp'2024-01-01 10:00:01' AS at, "
        "date'2024-01-02' AS day, timestamp_ntz'2024-01-01 10:00:01' AS wall, 'pencil' AS name"
    )
    rules = [
        Rule("price", "range", ("price",), high="99999999999999999.99"),
        Rule("many", "range", ("n",), high="1e6"),
        Rule("late", "range", ("at",), high="2024-01-01 12:00:00+02:00"),
        Rule("early", "range", ("at",), low="2024-01-01T10:00:01.0Z", high="2024-01-02"),
        Rule("day", "range", ("day",), low="2024-01-02 00:00:01"),
        Rule("year", "range", ("day",), low="2024", high="2025"),
        Rule("wall", "range", ("wall",), high="2024-01-01 10:00:00"),
        Rule("name", "range", ("name",), low="pen", high="pfennig"),
    ]
    (found,) = measure_together(
        [row_measurement(lambda: rows, rules, ["id"], MeasurementContext(spark, is_small=True))]
    )
    assert all(f.is_measured for f in found)
    assert [f.rule.name for f in found if f.failed] == ["price", "late", "day", "wall"]
