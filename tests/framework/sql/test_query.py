from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.errors import ConfigurationError, MainstemError
from framework.lakehouse.lakehouse import Lakehouse, table_version
from framework.sql.query import answer

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lakehouse:
    made = Lakehouse(str(tmp_path / "lake"))
    for ids in ([1, 2, 3], [4]):
        made.append(spark.createDataFrame([(i,) for i in ids], "id int"), "bronze/messages")
    return made


@pytest.mark.slow
def test_a_query_reads_tables_by_every_name_and_writes_nothing(spark: SparkSession, lake: Lakehouse) -> None:
    before = {file: file.stat().st_mtime_ns for file in Path(lake.root).rglob("*")}
    query = (
        "SELECT m.id FROM bronze.messages AS m JOIN `bronze.messages` USING (id) /* each once */ ORDER "
        "BY id DESC -- newest"
    )
    assert answer(spark, lake, query, 3).rows == ((4,), (3,), (2,))
    assert answer(spark, lake, "SELECT count(bronze.messages.id) FROM bronze.messages;", 3).rows == ((4,),)
    assert {file: file.stat().st_mtime_ns for file in Path(lake.root).rglob("*")} == before
    assert not spark.catalog.databaseExists("bronze")


def test_a_query_never_reads_a_table_whose_name_differs_by_case(spark: SparkSession, lake: Lakehouse) -> None:
    """Spark finds names in any case: the count of one table would be that of the other, without a word."""
    tables, ids = [("Shop", "t"), ("shop", "T"), ("shop", "t")], {("Shop", "t"): 1, ("shop", "T"): 3}
    for (database, table), count in ids.items():
        lake.append(spark.range(count).toDF("id"), f"gold/{database}/{table}_{count}")
    rows = [
        ("my", *name, lake.location(f"gold/{name[0]}/{name[1]}_{ids[name]}") if name in ids else None)
        for name in tables
    ]
    schema = "source string, database string, table string, replica string"
    columns = ("*", "null AS schema", "null AS history", "1L AS revision")
    lake.append(spark.createDataFrame(rows, schema).selectExpr(*columns), "ops/tables")
    assert answer(spark, lake, "SELECT count(*) FROM Shop.t", 3).rows == ((1,),)
    assert answer(spark, lake, "SELECT count(*) FROM shop.T", 3).rows == ((3,),)
    both = (
        "SELECT (SELECT count(*) FROM Shop.t), (SELECT count(*) FROM shop.T)",
        "SELECT 1 FROM Shop.t, shop . `T`",
    )
    for query in both:
        with pytest.raises(ConfigurationError, match="TABLE_AMBIGUOUS"):
            answer(spark, lake, query, 3)
    with pytest.raises(MainstemError, match="SQL_TABLE_EMPTY") as refused:
        answer(spark, lake, "SELECT count(*) FROM shop.t", 3)
    assert "mainstem status" in str(refused.value)


def test_a_table_that_others_have_in_another_case_only_is_never_read_for_them(
    spark: SparkSession, lake: Lakehouse
) -> None:
    """`shop.t` is parked, `shop.u` has no history, and two sources have `shop.v`."""
    for place in ("Shop/t", "Shop/u", "Shop/u__history", "Shop/v", "shop/u", "shop/v_1", "shop/v_2"):
        lake.append(spark.range(1).toDF("id"), f"gold/{place}")
    at = {place: lake.location(f"gold/{place}") for place in ("Shop/t", "Shop/u", "shop/u", "Shop/v")}
    rows = [
        ("a", "Shop", "t", at["Shop/t"], None),
        ("a", "shop", "t", None, None),
        ("a", "Shop", "u", at["Shop/u"], lake.location("gold/Shop/u__history")),
        ("a", "shop", "u", at["shop/u"], None),
        ("a", "Shop", "v", at["Shop/v"], None),
        ("a", "shop", "v", lake.location("gold/shop/v_1"), None),
        ("b", "shop", "v", lake.location("gold/shop/v_2"), None),
    ]
    schema = "source string, database string, table string, replica string, history string"
    frame = spark.createDataFrame(rows, schema).selectExpr("*", "null AS schema", "1L AS revision")
    lake.append(frame, "ops/tables")
    for table in ("t", "u__history", "v"):
        query = f"SELECT (SELECT count(*) FROM Shop.{table})"
        assert answer(spark, lake, query, 3).rows == ((1,),)
        with pytest.raises(ConfigurationError, match="TABLE_AMBIGUOUS"):
            answer(spark, lake, f"{query}, (SELECT count(*) FROM shop.{table})", 3)
    for table in ("shop.t", "shop.u__history", "`gold.shop.t`"):
        with pytest.raises(MainstemError, match="SQL_TABLE_EMPTY"):
            answer(spark, lake, f"SELECT count(*) FROM {table}", 3)


def test_no_query_writes_or_reads_what_is_not_the_pipelines(
    spark: SparkSession, lake: Lakehouse, tmp_path: Path
) -> None:
    place, secret, link = lake.location("bronze/messages"), tmp_path / "secret.txt", tmp_path / "link"
    secret.write_text("canary")
    spark.createDataFrame([(7,)], "id int").write.format("delta").save(str(tmp_path / "other"))
    for query in (
        f"/* /* */ RESTORE TABLE delta.`{place}` TO VERSION AS OF 0 -- */ SELECT 1",
        f"/* /* */ VACUUM delta.`{place}` RETAIN 200 HOURS -- */ SELECT 1",
        f"/* /* */ OPTIMIZE delta.`{place}` -- */ SELECT 1",
        f"SELECT 1) AS x; RESTORE TABLE delta.`{place}` TO VERSION AS OF 0; SELECT * FROM (SELECT 1",
        f"ALTER TABLE delta.`{place}` SET TBLPROPERTIES ('a' = 'b')",
        f"INSERT INTO delta.`{place}` VALUES (9)",
        f"FROM (SELECT 9) INSERT INTO delta.`{place}` SELECT *",
        f"SELECT * FROM text.`{secret}`",
        f"SELECT * FROM binaryFile.`{secret}`",
        f"SELECT (SELECT max(value) FROM text.`{secret}`)",
        f"SELECT * FROM delta.`{tmp_path / 'other'}`",
        f"SELECT * FROM delta.`{place}`",
        f"SELECT reflect('java.nio.file.Files', 'createSymbolicLink', '{link}', '{secret}')",
        f"SELECT TRANSFORM (1) USING 'touch {link}' AS (a)",
        f"FROM (SELECT 1 a) t MAP 1E+5USING 'touch {link}' AS y",
        "SELECT a.* FROM (SELECT 1 AS b) LATERAL VIEW explode(array(java_method('java.lang.System', "
        "'exit', 1))) a AS c",
    ):
        with pytest.raises(MainstemError) as refusal:
            answer(spark, lake, query, 10)
        assert refusal.value.condition in ("SQL_NOT_A_QUERY", "SQL_FAILED"), query
        assert "canary" not in str(refusal.value)
    assert table_version(spark, place) == 1
    assert not link.exists()
    assert spark.sql(f"SELECT * FROM text.`{secret}`").first() == ("canary",)  # the session's setting is back


@pytest.fixture
def hosts_own(spark: SparkSession, tmp_path: Path) -> Iterator[None]:
    """What somebody else has in the session: views, a table and a function under a name of Spark's."""
    secret = spark.createDataFrame([("canary",)], "word string")
    secret.createOrReplaceTempView("host_view")
    secret.createOrReplaceTempView("`silver.changes`")
    secret.createOrReplaceGlobalTempView("host_global")
    spark.sql("CREATE TEMPORARY VIEW host_text AS SELECT 'canary' AS word")
    spark.sql("CREATE DATABASE hr")
    secret.write.format("delta").save(str(tmp_path / "people"))
    secret.write.parquet(str(tmp_path / "old"))
    spark.sql(f"CREATE TABLE hr.people USING delta LOCATION '{tmp_path / 'people'}'")
    spark.sql(f"CREATE TABLE hr.old USING parquet LOCATION '{tmp_path / 'old'}'")
    spark.sql("CREATE VIEW hr.names AS SELECT * FROM hr.people")
    yield
    for name in ("host_view", "host_text", "`silver.changes`", "global_temp.host_global"):
        spark.sql(f"DROP VIEW IF EXISTS {name}")
    spark.sql("DROP DATABASE hr CASCADE")


@pytest.mark.parametrize("name", ["host_view", "host_text", "`silver.changes`", "global_temp.host_global"])
@pytest.mark.usefixtures("hosts_own")
def test_views_of_the_session_are_no_tables_of_the_pipeline(
    spark: SparkSession, lake: Lakehouse, name: str
) -> None:
    for query in (
        f"SELECT * FROM {name}",
        f"TABLE {name}",
        f"WITH x AS (SELECT * FROM {name}) SELECT * FROM x",
        f"SELECT (SELECT max(word) FROM {name})",
        f"SELECT * FROM bronze.messages WHERE EXISTS (SELECT 1 FROM {name} WHERE word = 'canary')",
        f"SELECT * FROM bronze.messages WHERE 'canary' IN (SELECT word FROM {name})",
        f"SELECT * FROM bronze.messages AS m, LATERAL (SELECT word FROM {name} WHERE m.id > 0)",
        f"SELECT count(*) OVER (ORDER BY (SELECT max(word) FROM {name})) FROM bronze.messages",
    ):
        _is_refused(spark, lake, query)


@pytest.mark.usefixtures("hosts_own")
def test_tables_of_the_session_are_no_tables_of_the_pipeline(spark: SparkSession, lake: Lakehouse) -> None:
    for name in ("hr.people", "spark_catalog.hr.people", "hr.old", "hr.names"):
        _is_refused(spark, lake, f"SELECT * FROM {name}")
        _is_refused(spark, lake, f"SELECT m.id FROM bronze.messages AS m JOIN {name} AS p ON p.word > ''")


@pytest.mark.skipif(
    "SPARK_REMOTE" in os.environ, reason="the plan of Spark Connect does not show whose a function is"
)
def test_a_function_of_the_session_under_a_name_of_sparks_is_refused(
    spark: SparkSession, lake: Lakehouse
) -> None:
    other = spark.newSession()
    assert answer(other, lake, "SELECT upper('a') AS a", 1).rows == (("A",),)
    other.udf.register("upper", lambda text: text)
    _is_refused(other, lake, "SELECT upper('a')")
    _is_refused(other, lake, "SELECT id FROM bronze.messages GROUP BY id HAVING max(upper(id)) > ''")


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("SELECT id FORM bronze.messages WHERE", "(line 1, pos "),
        ("SELECT id,\n  1 +* 2\nFROM bronze.messages", "(line 2, pos "),
        ("SELECT 1 +", "at the end of the query"),
        ("SELECT idd FROM bronze.messages", "line 1 pos 7"),
    ],
)
def test_wrong_syntax_is_told_with_the_line_of_the_query(
    spark: SparkSession, lake: Lakehouse, query: str, found: str
) -> None:
    with pytest.raises(MainstemError) as refusal:
        answer(spark, lake, query, 10)
    assert (refusal.value.condition, refusal.value.exit_code) == ("SQL_FAILED", 1)
    assert found in refusal.value.found


def _is_refused(spark: SparkSession, lake: Lakehouse, query: str) -> None:
    with pytest.raises(MainstemError) as refusal:
        answer(spark, lake, query, 10)
    assert refusal.value.condition == "SQL_NOT_A_QUERY", query
    assert "canary" not in str(refusal.value).replace(query, "")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM `Bronze.Messages`",
        "SELECT * FROM BRONZE.messages AS m",
        "WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT * FROM r",
        "SELECT id % 2 AS odd, count(*) FROM bronze.messages GROUP BY ROLLUP (1)",
        "SELECT *, row_number() OVER (w) AS n FROM bronze.messages WINDOW w AS (ORDER BY id)",
        "SELECT * FROM bronze.messages TABLESAMPLE (10 PERCENT)",
        "SELECT * FROM bronze.messages PIVOT (count(*) FOR id IN (1, 2))",
        "SELECT * FROM (SELECT id AS a, id AS b FROM bronze.messages) UNPIVOT (v FOR n IN (a, b))",
        "SELECT DISTINCT id FROM bronze.messages ORDER BY 1 LIMIT 3 OFFSET 1",
        "SELECT 1 EXCEPT SELECT 2 INTERSECT SELECT 3 UNION SELECT 4",
        "SELECT * FROM bronze.messages AS m, LATERAL (SELECT m.id + 1 AS next)",
        "SELECT m.id, x FROM bronze.messages AS m LATERAL VIEW explode(array(m.id)) AS x",
        "SELECT * FROM range(5)",
        "SELECT /*+ BROADCAST(m), REPARTITION(3) */ * FROM bronze.messages AS m"
        " JOIN bronze.messages USING (id)",
        "SELECT * FROM bronze.messages WHERE id IN (SELECT max(id) FROM bronze.messages)",
        "SELECT window(current_timestamp(), '5 minutes') AS w, count(*) FROM bronze.messages GROUP BY 1",
        "SELECT url_encode('a'), aes_encrypt('a', 'abcdefghijklmnop'), luhn_check('1'),"
        " to_json(parse_json('[1]'))",
        "SELECT transform(array(1), x -> x + 1) AS t, from_json('{}', 'a int') AS j, percentile(id, 0.5) AS p"
        " FROM bronze.messages GROUP BY ALL",
        "SELECT * FROM variant_explode(parse_json('[1]'))",
        "VALUES (1)",
    ],
)
def test_what_a_query_may_do(spark: SparkSession, lake: Lakehouse, query: str) -> None:
    assert answer(spark, lake, query, 5) is not None
