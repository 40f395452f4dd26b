from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from framework.spark.session import is_connect
from framework.sql.guard import Refused
from framework.sql.plan import Readable, check_plan, check_plan_text

OURS = Readable({"shop.orders", "odd`name"}, {"spark_catalog.shop.items", "main.shop_silver.changes"})


def explained(*lines: str) -> str:
    """What Spark explains of a query whose analysed plan has these lines."""
    tree = "\n".join(lines)
    return (
        "== Parsed Logical Plan ==\n'Project [*]\n"
        f"\n== Analyzed Logical Plan ==\nid: bigint\n{tree}\n"
        "\n== Optimized Logical Plan ==\nRelation [id#1] parquet\n\n== Physical Plan ==\n*(1) Scan parquet\n"
    )


@pytest.mark.parametrize(
    "lines",
    [
        ["Project [id#1]", "+- SubqueryAlias answer", "   +- OneRowRelation"],
        ["SubqueryAlias `shop.orders`", "+- View (`shop.orders`, [id#1])", "   +- Relation [id#1] parquet"],
        ["View (`odd``name`, [id#1])", "+- Relation [id#1] parquet"],
        ["Join Inner", ":- Relation spark_catalog.shop.items[id#1,s#2] parquet", "+- LocalRelation [a#3]"],
        ["Project [a]", ":  +- Aggregate [max(id#1)]", ":     +- Range (0, 3)", "+- OneRowRelation"],
        ["Relation main.shop_silver.changes[id#1] delta"],
        ["Project [a text", "of two lines AS x#1]", "+- OneRowRelation"],
    ],
)
def test_a_plan_of_the_pipelines_tables_passes(lines: list[str]) -> None:
    check_plan_text(explained(*lines), OURS)


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["SubqueryAlias v", "+- View (`v`, [id#1])", "   +- LocalRelation [id#1]"], "the view v"),
        (["View (`global_temp`.`shop.orders`, [id#1])"], "the view global_temp.shop.orders"),
        (["Project [a]", ":  +- View (`v`, [id#1])", "+- OneRowRelation"], "the view v"),
        (["Relation spark_catalog.hr.people[id#1] parquet"], "the table spark_catalog.hr.people"),
        (["RelationV2[id#1] main.hr.people"], "RelationV2"),
        (["LogicalRDD [id#1], false"], "LogicalRDD"),
        (["InMemoryRelation [id#1], StorageLevel(disk, memory)"], "InMemoryRelation"),
        (["ScriptTransformation cat, [y#1]"], "runs a program"),
        (["DropTable false"], "DropTable"),
        (["!Frobnicate [a]"], "Frobnicate"),
        # values with line breaks can add lines, and hide none
        (["Project [x", "== Optimized Logical Plan ==", "y AS a#1]", "+- View (`v`, [id#1])"], "the view v"),
        (["Project [x", "+- View (`shop.orders`, [z])", "as a#1]", "   +- View (`v`, [id#1])"], "the view v"),
        (["Project [x\r+- View (`v`, [id#1])"], "the view v"),
    ],
)
def test_a_plan_of_anything_else_is_refused(lines: list[str], why: str) -> None:
    with pytest.raises(Refused) as refusal:
        check_plan_text(explained(*lines), OURS)
    assert why in str(refusal.value)


def test_an_explanation_without_the_analysed_plan_is_refused() -> None:
    for text in (
        "",
        "== Physical Plan ==\nScan parquet",
        "== Analyzed Logical Plan ==\nid: int\nOneRowRelation",
    ):
        with pytest.raises(Refused, match="cannot be checked"):
            check_plan_text(text, OURS)


def test_the_plan_of_a_query_shows_that_it_runs_a_program(spark: SparkSession) -> None:
    """Where the check of the text has missed something."""
    for query in (
        "SELECT * FROM (FROM (SELECT 1 a) t MAP 1E+5USING 'true' AS y) AS answer",
        "SELECT (SELECT max(y) FROM (FROM (SELECT 1 a) t MAP a USING 'true' AS y))",
        "SELECT 1 WHERE EXISTS (SELECT TRANSFORM (1) USING 'true' AS (y))",
    ):
        with pytest.raises(Refused, match="runs a program"):
            check_plan(spark.sql(query), Readable())
    check_plan(spark.sql("SELECT 1 AS program"), Readable())


def test_functions_that_call_other_code_are_refused(spark: SparkSession) -> None:
    """Where the check of the text has missed something; Spark Connect shows no functions."""
    if is_connect(spark):
        pytest.skip("Spark Connect does not show the functions of a plan")
    for query in (
        "SELECT reflect('java.lang.Math', 'abs', 1)",
        "SELECT 1 WHERE length(java_method('java.lang.Math', 'abs', 1)) > 0",
        "SELECT (SELECT count(*) FROM range(3) WHERE try_reflect('java.lang.Math', 'abs', id) > '')",
        "SELECT transform(array(1), x -> reflect('java.lang.Math', 'abs', 1))",
    ):
        with pytest.raises(Refused, match="not Spark's own"):
            check_plan(spark.sql(query), Readable())


def test_statements_that_are_no_query_are_refused(spark: SparkSession) -> None:
    """Where the check of the text has missed something."""
    if is_connect(spark):
        pytest.skip("Spark Connect shows the result of a statement, not its plan")
    for query in ("SHOW TABLES", "SET a = b", "DESCRIBE FUNCTION upper", "SHOW FUNCTIONS"):
        with pytest.raises(Refused):
            check_plan(spark.sql(query), Readable())
