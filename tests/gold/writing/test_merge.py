from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from framework.config.tables import Deletes
from framework.lakehouse.lakehouse import read_commits, read_table, table_version
from framework.lakehouse.older_copies import has_rows_since, newest_mark
from gold.changes.merge_policy import MergePolicy
from gold.schema.columns import TableColumn
from gold.schema.layout import SYSTEM_COLUMNS, Layout
from gold.writing.merge import (
    add_columns,
    insert_changes,
    merge_latest,
    replace_table,
    set_comments,
    widen_columns,
)


def test_keys_of_every_type_are_written_and_merged(spark: SparkSession, tmp_path: Path) -> None:
    """Delta keeps no lowest and highest values of bytes and booleans, and refuses to be asked for them."""
    columns = (
        TableColumn("ROW", "binary", None),
        TableColumn("is_on", "boolean", None),
        TableColumn("v", "int", None),
    )
    layout = Layout(columns, ("ROW", "is_on"), dict(SYSTEM_COLUMNS))
    path = str(tmp_path / "t")
    cells = (
        "c0 binary, c1 boolean, c2 int, _cdc_sequence string, _cdc_event_time timestamp, "
        "_cdc_change_id string"
    )
    replace_table(
        spark.createDataFrame(
            [(b"\x00", True, 1, "1", None, "a"), (b"\xff", False, 2, "1", None, "b")], cells
        ),
        path,
        layout,
    )
    flags = f"k0 binary, k1 boolean, {cells}, is_upsert boolean, is_forced boolean"
    newer = [
        (b"\xff", False, b"\xff", False, 3, "2", None, "c", True, False),
        (b"\x00", True, None, None, None, "2", None, "d", False, False),
    ]
    merge_latest(
        spark.createDataFrame(newer, flags), path, layout, MergePolicy(Deletes.HARD, None, has_partials=False)
    )
    rows = spark.read.format("delta").load(path).select("ROW", "is_on", "v").collect()
    assert [(bytes(row[0]), row[1], row[2]) for row in rows] == [(b"\xff", False, 3)]


def test_a_rebuild_may_make_a_column_a_time_without_a_zone(spark: SparkSession, tmp_path: Path) -> None:
    """A table that has never had one says in its protocol that no reader needs to know them."""
    path, kinds = str(tmp_path / "t"), ("string", "timestamp_ntz", "timestamp_ntz")
    for name, kind in zip(("at", "at", "since"), kinds, strict=True):
        columns = (TableColumn("id", "int", None), TableColumn(name, kind, None))
        rows = spark.sql(
            f"SELECT 1 AS c0, CAST('2024-03-01 09:00:00' AS {kind}) AS c1, '1' AS _cdc_sequence,"
            " CAST(null AS timestamp) AS _cdc_event_time, 'a' AS _cdc_change_id"
        )
        replace_table(rows, path, Layout(columns, ("id",), dict(SYSTEM_COLUMNS)))
    found = spark.read.format("delta").load(path)
    assert [row["since"].isoformat() for row in found.collect()] == ["2024-03-01T09:00:00"]


def test_a_type_that_is_more_than_a_type_is_no_part_of_a_statement(
    spark: SparkSession, tmp_path: Path
) -> None:
    path, injected = str(tmp_path / "t"), TableColumn("n", "string COMMENT 'x', injected INT", None)
    layout = Layout((TableColumn("id", "int", None), injected), ("id",), dict(SYSTEM_COLUMNS))
    spark.sql(f"CREATE TABLE delta.`{path}` (id int, n int) USING delta")
    for change in (add_columns, widen_columns):
        with pytest.raises(ValueError, match="no canonical type"):
            change(spark, path, layout, ["n"])
    assert spark.read.format("delta").load(path).columns == ["id", "n"]


def test_new_columns_are_added_at_their_places_in_one_commit(spark: SparkSession, tmp_path: Path) -> None:
    """One commit for each made a row with hundreds of new columns take minutes, in the replica and in the
    history.
    """
    path, old = str(tmp_path / "t"), ("id", "a", "b")
    spark.sql(f"CREATE TABLE delta.`{path}` (id int, a int, b int, _cdc_sequence string) USING delta")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, 2, 3, 'x')")
    order = ("first", "second", "id", "odd, name", "a", "at", "c", "b", "la`st")
    kinds = {"at": "timestamp_ntz", "c": "decimal(38,4)"}
    columns = tuple(TableColumn(name, kinds.get(name, "int"), "TEXT") for name in order)
    layout, before = Layout(columns, ("id",), dict(SYSTEM_COLUMNS)), table_version(spark, path)
    add_columns(spark, path, layout, [name for name in order if name not in old])
    assert spark.read.format("delta").load(path).columns == [*order, "_cdc_sequence"]
    done = [row["operation"] for row in read_commits(spark, path, 100).collect()]
    assert before == 1
    assert done.count("ADD COLUMNS") == 1


def test_any_number_of_columns_is_widened_and_commented_in_few_commits(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A commit for each column made a batch take minutes, in the replica and in the history."""
    path, names = str(tmp_path / "t"), [f"a `{i}`" for i in range(12)]
    columns = [TableColumn(name, "int", "INT") for name in names]
    rows = spark.sql(
        f"SELECT {', '.join(f'{i} AS c{i}' for i in range(12))}, '1' AS _cdc_sequence,"
        " CAST(null AS timestamp) AS _cdc_event_time, 'a' AS _cdc_change_id"
    )
    replace_table(rows, path, Layout(tuple(columns), (names[0],), dict(SYSTEM_COLUMNS)))
    wider = [TableColumn(c.name, "bigint", "BIGINT", comment=f"it's {c.name}") for c in columns]
    layout, mark = Layout(tuple(wider), (names[0],), dict(SYSTEM_COLUMNS)), newest_mark(spark, path)
    assert mark is not None
    widen_columns(spark, path, layout, names)
    set_comments(spark, path, layout, wider)
    stored = read_table(spark, path).schema.fields[:12]
    assert [(c.name, c.dataType.simpleString(), c.metadata["comment"]) for c in stored] == [
        (c.name, "bigint", f"it's {c.name}\nsource type: BIGINT") for c in wider
    ]
    commits = read_commits(spark, path, 100).where(f"version > {mark['version']}").collect()
    done = Counter(row["operation"] for row in commits)
    assert done.pop("CHANGE COLUMNS") == 3
    assert set(done) == {"SET TBLPROPERTIES"}
    assert not has_rows_since(spark, path, mark)


def test_changes_are_added_without_a_look_at_files_that_have_none_of_their_positions(
    spark: SparkSession, tmp_path: Path
) -> None:
    path, layout = tmp_path / "t", Layout((TableColumn("id", "int", None),), (), dict(SYSTEM_COLUMNS))
    cells = "c0 int, _cdc_sequence string, _cdc_event_time timestamp, _cdc_change_id string"

    def changes(*places: int) -> DataFrame:
        rows = [(place, f"'{place}'", None, f"c{place}") for place in places]
        return spark.createDataFrame(rows, cells).coalesce(1)

    replace_table(changes(1, 2), str(path), layout)
    for file in path.glob("*.parquet"):
        file.unlink()
    for places in ((3, 4), (4, 5), (3, 5)):
        insert_changes(changes(*places), str(path), layout, (f"'{places[0]}'", f"'{places[1]}'"))
    found = spark.read.format("delta").load(str(path)).where("_cdc_sequence > \"'2'\"")
    assert sorted(row["id"] for row in found.collect()) == [3, 4, 5]
