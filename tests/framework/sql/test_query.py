from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.errors import MainstemError
from framework.lakehouse.lakehouse import Lakehouse, table_version
from framework.sql.query import answer, runs_program

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lakehouse:
    made = Lakehouse(str(tmp_path / "lake"))
    for ids in ([1, 2, 3], [4]):
        made.append(spark.createDataFrame([(i,) for i in ids], "id int"), "bronze/messages")
    return made


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


def test_the_plan_of_a_query_shows_that_it_runs_a_program(spark: SparkSession) -> None:
    """The last line of defence, where the check of the text has missed something."""
    assert runs_program(spark.sql("SELECT * FROM (FROM (SELECT 1 a) t MAP 1E+5USING 'true' AS y) AS answer"))
    assert runs_program(
        spark.sql("SELECT (SELECT max(y) FROM (FROM (SELECT 1 a) t MAP a USING 'true' AS y))")
    )
    assert not runs_program(spark.sql("SELECT 1 AS program"))
