"""A rebuild replaces a table, and keeps what an administrator has set on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from framework.contracts.ddl_actions import AddColumn, SetComment
from framework.lakehouse.lakehouse import read_table
from framework.lakehouse.policies import Policy, policies_of
from gold.schema.columns import TableColumn
from gold.schema.layout import SYSTEM_COLUMNS, Layout
from gold.writing import administration, merge
from gold.writing.merge import add_columns, replace_table, widen_columns
from tests.gold.silver_builder import GoldPipeline, ddl, insert

ID, NAME, NOTE = (
    TableColumn("id", "int", "INT(11)"),
    TableColumn("name", "string", "VARCHAR(20)"),
    TableColumn("note", "string", "TEXT"),
)
CELLS = "c0 int, c1 string, c2 string, _cdc_sequence string, _cdc_event_time timestamp, _cdc_change_id string"


def layout_of(*columns: TableColumn) -> Layout:
    return Layout(columns, ("id",), dict(SYSTEM_COLUMNS))


def rebuild(spark: SparkSession, path: str, *columns: TableColumn) -> None:
    rows = spark.createDataFrame([(1, "a", "b", "1", None, "x")], CELLS)
    replace_table(rows, path, layout_of(*columns))


def detail(spark: SparkSession, table: str) -> Row:
    row = spark.sql(f"DESCRIBE DETAIL {table}").first()
    assert row is not None
    return row


def comments(spark: SparkSession, path: str) -> dict[str, str]:
    return {c.name: c.metadata["comment"] for c in read_table(spark, path).schema if "comment" in c.metadata}


def test_a_new_table_says_what_it_is_and_which_types_its_source_declares(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    rebuild(spark, path, ID, NAME)
    assert detail(spark, f"delta.`{path}`")["description"] == (
        "A replica kept by Mainstem: one current row for each key (id)."
    )
    assert comments(spark, path) == {"id": "source type: INT(11)", "name": "source type: VARCHAR(20)"}

    add_columns(spark, path, layout_of(ID, NAME, NOTE), ["note"])
    wider = TableColumn("id", "bigint", "BIGINT")
    widen_columns(spark, path, layout_of(wider, NAME, NOTE), ["id"])
    assert comments(spark, path) == {
        "id": "source type: BIGINT",
        "name": "source type: VARCHAR(20)",
        "note": "source type: TEXT",
    }


def test_a_declared_type_is_only_text_in_a_statement(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    rebuild(spark, path, ID)
    odd = TableColumn("odd", "string", "ENUM('a\\','b') COMMENT 'x', injected INT")
    replaced = TableColumn("replaced", "string", "VARCHAR(${spark.app.name})")
    add_columns(spark, path, layout_of(ID, odd, replaced), ["odd", "replaced"])
    assert read_table(spark, path).columns[:3] == ["id", "odd", "replaced"]
    assert comments(spark, path) == {
        "id": "source type: INT(11)",
        "odd": "source type: ENUM('a\\','b') COMMENT 'x', injected INT",
    }


@pytest.mark.parametrize("columns", [(ID, NAME), (ID, NAME, NOTE)], ids=["same columns", "one more"])
def test_a_rebuild_keeps_comments_properties_and_clustering(
    spark: SparkSession, tmp_path: Path, columns: tuple[TableColumn, ...]
) -> None:
    path = str(tmp_path / "t")
    table = f"delta.`{path}`"
    rebuild(spark, path, ID, NAME)
    own = "'comment' = 'Orders, for finance', 'team' = 'finance'"
    own += ", 'delta.logRetentionDuration' = 'interval 90 days'"
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({own}, 'delta.dataSkippingStatsColumns' = 'id,name')")
    spark.sql(f"ALTER TABLE {table} CLUSTER BY (name)")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN name COMMENT 'as on the invoice'")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN _cdc_sequence COMMENT 'do not read'")

    rebuild(spark, path, *columns)

    found = detail(spark, table)
    assert found["description"] == "Orders, for finance"
    assert found["clusteringColumns"] == ["name"]
    assert found["properties"]["team"] == "finance"
    assert found["properties"]["delta.logRetentionDuration"] == "interval 90 days"
    assert found["properties"]["delta.dataSkippingStatsColumns"] == "`id`,`_cdc_sequence`,`name`"
    assert found["properties"]["delta.enableChangeDataFeed"] == "true"
    new = {"note": "source type: TEXT"} if NOTE in columns else {}
    assert comments(spark, path) == {
        "id": "source type: INT(11)",
        "name": "as on the invoice",
        "_cdc_sequence": "do not read",
        **new,
    }
    assert read_table(spark, path).select("id", "name").collect() == [Row(id=1, name="a")]


def test_a_column_that_is_gone_takes_its_clustering_and_comment_with_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    table = f"delta.`{path}`"
    rebuild(spark, path, ID, NAME)
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'id,name')")
    spark.sql(f"ALTER TABLE {table} CLUSTER BY (name)")
    rebuild(spark, path, ID)
    found = detail(spark, table)
    assert found["clusteringColumns"] == []
    assert found["properties"]["delta.dataSkippingStatsColumns"] == "`id`,`_cdc_sequence`"
    assert comments(spark, path) == {"id": "source type: INT(11)"}


@pytest.fixture
def information(spark: SparkSession) -> Iterator[None]:
    """What Unity Catalog says of a table with a filter, a mask and tags, under names that Spark has."""
    place = "'spark_catalog' catalog_name, 'gold' schema_name, 'or`ders' table_name"
    relations = {
        "row_filters": f"{place}, 'main' filter_catalog, 'rules' filter_schema, 'own' filter_name, "
        "'region, owner' filter_col_usage",
        "column_masks": f"{place}, 'mail' column_name, 'main' mask_catalog, 'rules' mask_schema, "
        "'hide' mask_name, '' mask_col_usage",
        "table_tags": f"{place}, 'team' tag_name, 'it\\'s ours' tag_value",
        "column_tags": f"{place}, 'mail' column_name, 'pii' tag_name, CAST(NULL AS STRING) tag_value",
    }
    spark.sql("CREATE DATABASE information_schema")
    for name, columns in relations.items():
        other = columns.replace("'gold' schema_name", "'other' schema_name")
        spark.sql(
            f"CREATE TABLE information_schema.{name} USING delta AS SELECT {columns} UNION ALL SELECT {other}"
        )
    yield
    spark.sql("DROP DATABASE information_schema CASCADE")


@pytest.mark.usefixtures("information")
def test_policies_are_statements(spark: SparkSession) -> None:
    table = "spark_catalog.Gold.`Or``ders`"  # the catalog itself has small letters
    assert list(policies_of(spark, table)) == [
        Policy(f"ALTER TABLE {table} SET ROW FILTER `main`.`rules`.`own` ON (`region`, `owner`)"),
        Policy(f"ALTER TABLE {table} ALTER COLUMN `mail` SET MASK `main`.`rules`.`hide`", "mail"),
        Policy(f"ALTER TABLE {table} SET TAGS ('team' = 'it\\'s ours')"),
        Policy(f"ALTER TABLE {table} ALTER COLUMN `mail` SET TAGS ('pii' = '')", "mail"),
    ]


def test_a_catalog_that_knows_no_policies_has_none(spark: SparkSession) -> None:
    assert list(policies_of(spark, "spark_catalog.gold.orders")) == []


def test_a_policy_that_a_rebuild_has_lost_is_set_again_and_one_that_is_there_is_not(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "18.1")
    table = "spark_catalog.default.administered"
    columns = {"lost": None, "lost_of_column": "ID", "kept": None, "of_column_that_is_gone": "old"}
    policies = [
        Policy(f"ALTER TABLE {table} SET TBLPROPERTIES ('{name}' = 'again')", column)
        for name, column in columns.items()
    ]
    answers = iter([policies, policies[2:3]])  # before the rebuild, and after it
    monkeypatch.setattr(administration, "policies_of", lambda *_: next(answers))
    try:
        spark.sql(f"CREATE TABLE {table} (id int) USING delta")
        rebuild(spark, table, ID)
        properties = detail(spark, table)["properties"]
        assert {name for name, value in properties.items() if value == "again"} == {"lost", "lost_of_column"}
    finally:
        spark.sql(f"DROP TABLE IF EXISTS {table}")


@pytest.mark.slow
def test_a_wider_type_has_its_comment_also_where_a_run_ended_between_the_two(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = GoldPipeline(spark, tmp_path / "p", '  - {match: "*.t", history: true}\n')
    place = [str(tmp_path / "p/lakehouse/gold/db" / name) for name in ("t", "t__history")]
    pipeline.add_batch(insert("t", 1, {"id": "1", "n": "1"}, types={"id": "int", "n": "int"}))
    pipeline.apply()
    pipeline.add_batch(insert("t", 2, {"id": "1", "n": "2"}, types={"id": "int", "n": "bigint"}))
    alter, calls, kills = merge._alter_columns, list[Sequence[str]](), [2, 5]

    def alter_until_killed(spark: SparkSession, path: str, changes: Sequence[str]) -> None:
        calls.append(changes)
        if len(calls) in kills:
            raise KeyboardInterrupt
        alter(spark, path, changes)

    monkeypatch.setattr(merge, "_alter_columns", alter_until_killed)
    for _ in kills:  # between those of the replica, then between those of the history
        with pytest.raises(KeyboardInterrupt):
            pipeline.apply()
    pipeline.apply()
    assert [comments(spark, path)["n"] for path in place] == ["source type: bigint, int"] * 2
    assert pipeline.rows("t") == [{"id": 1, "n": 2}]
    assert len(calls) == 7


@pytest.mark.slow
def test_comments_of_the_source_follow_the_source_and_those_of_administrators_stay(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = GoldPipeline(spark, tmp_path / "p", '  - {match: "*.t", history: true}\n')
    place = {name: str(tmp_path / "p/lakehouse/gold/db" / name) for name in ("t", "t__history")}
    note = SetComment("the buyer's words", "b")
    pipeline.add_batch(
        ddl("t", 1, SetComment("all orders"), note), insert("t", 2, {"id": "1", "a": "x", "b": "y"})
    )
    pipeline.apply()
    for name, kind in (("t", "replica"), ("t__history", "history")):
        description = detail(spark, f"delta.`{place[name]}`")["description"]
        assert description.startswith(f"all orders\nA {kind} kept by Mainstem: ")
        assert comments(spark, place[name])["b"] == "the buyer's words\nsource type: string"
        spark.sql(f"ALTER TABLE delta.`{place[name]}` ALTER COLUMN a COMMENT 'chosen'")

    changed = (SetComment("orders of a year"), SetComment("it's ${text}", "b"), SetComment("ours", "a"))
    pipeline.add_batch(ddl("t", 3, *changed, AddColumn("c", "int", "int", comment="new")))
    pipeline.add_batch(insert("t", 4, {"id": "2", "a": "x", "b": "y", "c": "1"}))
    pipeline.apply()
    for name in place:
        description = detail(spark, f"delta.`{place[name]}`")["description"]
        assert description.startswith("orders of a year\nA ")
        shown = comments(spark, place[name])
        assert (shown["a"], shown["c"]) == ("chosen", "new\nsource type: string")
        commits = spark.sql(f"DESCRIBE HISTORY delta.`{place[name]}`").count()
        pipeline.apply()
        assert spark.sql(f"DESCRIBE HISTORY delta.`{place[name]}`").count() == commits

    pipeline.add_batch(ddl("t", 5, SetComment("", "b"), SetComment("")))
    pipeline.apply()
    for name in place:
        assert detail(spark, f"delta.`{place[name]}`")["description"].startswith("A ")
        assert comments(spark, place[name])["b"] == "source type: string"
