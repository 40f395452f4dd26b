"""Merges into large tables mark rows instead of writing their files again; merges of many rows look at them
once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.cli.commands.maintain import maintain_table
from framework.contracts.erasure import Erasure
from framework.lakehouse import deletion_vectors
from framework.lakehouse.lakehouse import sql_name, table_properties
from framework.lakehouse.merge import Merged
from framework.pipeline.layer import MaintainedTable, Run
from gold.operations.forget import erase
from gold.writing import bad_values, history, merge
from tests.gold.silver_builder import ChangeSpec, GoldPipeline, copied, delete, insert, row, update
from tests.jobs import jobs

PROPERTY = "delta.enableDeletionVectors"
NOTE = "large: its changed rows are now marked by deletion vectors, which readers must know"


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every table is large."""
    monkeypatch.setattr(merge, "_MANY_CHANGES", 0)
    monkeypatch.setattr(deletion_vectors, "LARGE_BYTES", 0)


def marked_files(path: str) -> int:
    """How many files of a table have marked rows."""
    marks: dict[str, bool] = {}
    for log in sorted(Path(path, "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        for action in actions:
            if "remove" in action:
                marks.pop(action["remove"]["path"], None)
        for action in actions:
            if "add" in action:
                marks[action["add"]["path"]] = "deletionVector" in action["add"]
    return sum(marks.values())


@pytest.mark.slow
@pytest.mark.usefixtures("large")
def test_a_large_table_is_merged_without_writing_its_files_again(spark: SparkSession, tmp_path: Path) -> None:
    gold = GoldPipeline(spark, tmp_path, "  - {match: db.kept, history: true}\n")
    first = [insert("t", n, row(n, name=f"row {n}")) for n in range(1, 9)]
    gold.add_batch(*first, *copied(first, "kept"))
    assert all(applied.notes == () for applied in gold.apply().values())
    second = [
        update("t", 10, row(1, name="row 1"), row(1, name="changed")),
        delete("t", 11, row(2, name="row 2")),
        insert("t", 12, row(20, name="new")),
    ]
    gold.add_batch(*second, *copied(second, "kept"))
    applied = gold.apply()
    assert {name: one.notes for name, one in applied.items()} == {"t": (NOTE,), "kept": (NOTE,)}
    gold.add_batch(update("t", 13, row(20, name="new"), row(20, name="newer")))
    assert gold.apply()["t"].notes == ()  # said once

    wanted = [
        row(1, name="changed"),
        *(row(n, name=f"row {n}") for n in range(3, 9)),
        row(20, name="newer"),
    ]
    assert gold.rows("t") == [{**one, "id": int(one["id"] or 0)} for one in wanted]
    assert len(gold.history("kept")) == 10
    for name in ("t", "kept"):
        for path in (gold.state(name).replica, gold.state(name).history):
            if path is not None:
                assert table_properties(spark, path)[PROPERTY] == "true"
                assert marked_files(path) > 0

    gold.rebuild("t")
    assert gold.rows("t") == [{**one, "id": int(one["id"] or 0)} for one in wanted]


@pytest.mark.slow
@pytest.mark.usefixtures("large")
def test_what_is_forgotten_or_maintained_is_in_no_file(spark: SparkSession, tmp_path: Path) -> None:
    """A marked row is still in its file: `forget` and `maintain` write such files again."""
    gold = GoldPipeline(spark, tmp_path)
    gold.add_batch(*(insert("t", n, row(n, name=f"secret {n}")) for n in range(1, 5)))
    gold.apply()
    gold.add_batch(update("t", 10, row(1, name="secret 1"), row(1, name="changed")))
    gold.apply()
    path = gold.state("t").replica
    assert path is not None
    assert marked_files(path) == 1

    table = MaintainedTable(path.removeprefix(f"{gold.lake.root}/"))
    assert not maintain_table(spark, gold.lake, table, 7).has_failed
    assert marked_files(path) == 0

    gold.add_batch(update("t", 11, row(2, name="secret 2"), row(2, name="changed")))
    gold.apply()
    assert marked_files(path) == 1
    changes = ("t-2-insert", "t-11-update")
    erase(
        Run(spark, gold.lake, gold.config, "forget"),
        Erasure("feed", "db", None, "t", ({"id": "2"},), changes, ()),
    )
    assert marked_files(path) == 0
    files = spark.read.format("delta").load(path).inputFiles()
    assert {one["name"] for one in spark.read.parquet(*files).collect()} == {
        "changed",
        "secret 3",
        "secret 4",
    }
    assert [one["id"] for one in gold.rows("t")] == [1, 3, 4]


@pytest.mark.slow
@pytest.mark.usefixtures("large")
@pytest.mark.parametrize(
    ("properties", "is_marked"),
    [
        (f"'{PROPERTY}' = 'false'", "false"),
        ("'delta.columnMapping.mode' = 'name', 'delta.enableIcebergCompatV2' = 'true'", None),
    ],
    ids=["an administrator has said no", "also an Iceberg table, which cannot have marks"],
)
def test_a_table_without_marks_is_merged_as_it_is(
    spark: SparkSession, tmp_path: Path, properties: str, is_marked: str | None
) -> None:
    gold = GoldPipeline(spark, tmp_path)
    gold.add_batch(insert("t", 1, row(1, name="a")))
    gold.apply()
    path = gold.state("t").replica
    assert path is not None
    spark.sql(f"ALTER TABLE {sql_name(path)} SET TBLPROPERTIES ({properties})")
    gold.add_batch(update("t", 2, row(1, name="a"), row(1, name="b")))
    assert gold.apply()["t"].notes == ()
    assert table_properties(spark, path).get(PROPERTY) == is_marked
    assert gold.rows("t") == [{"id": 1, "name": "b"}]


@pytest.mark.slow
def test_a_small_table_needs_no_new_reader(spark: SparkSession, tmp_path: Path) -> None:
    gold = GoldPipeline(spark, tmp_path)
    for number in (1, 2):
        gold.add_batch(insert("t", number, row(number, name="a")))
        gold.apply()
    detail = spark.sql(f"DESCRIBE DETAIL {sql_name(gold.state('t').replica or '')}").first()
    assert detail is not None
    assert detail["minReaderVersion"] == 1


PRICED = {"types": {"id": "bigint", "price": "decimal(12,2)"}}


def priced(number: int, at: int, price: str, **more: Any) -> ChangeSpec:
    return insert("t", at, row(number, price=price), **PRICED, **more)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "is_known"),
    [
        ([priced(2, 2, "2.50"), priced(2, 3, "2.75")], True),
        ([priced(2, 2, "free"), priced(2, 3, "2.75")], False),
        ([priced(2, 2, "2.50"), insert("t", 3, {"id": "x", "price": "1"}, **PRICED)], False),
        ([priced(2, 2, "2.50"), insert("t", 3, {"price": "1"}, **PRICED)], False),
    ],
    ids=["fits", "older value", "key of another type", "no key"],
)
def test_faults_are_looked_for_once_in_the_rows_of_a_merge(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changes: list[ChangeSpec],
    is_known: bool,
) -> None:
    """The bad value of an older change of the key is one, too, and so is a change without a usable key."""
    asked: list[str] = []

    def recorded(*given: Any, **named: Any) -> Any:
        asked.append("")
        return list_faults_of(*given, **named)

    list_faults_of = bad_values.list_faults
    gold = GoldPipeline(spark, tmp_path, "  - {match: db.t, keys: [id], columns: {id: {type: bigint}}}\n")
    gold.add_batch(priced(1, 1, "1.00"))
    gold.apply()
    monkeypatch.setattr(bad_values, "list_faults", recorded)
    gold.add_batch(*changes)
    applied = gold.apply()["t"]
    assert (applied.faults.count == 0, asked == []) == (is_known, is_known)
    assert gold.rows("t")[-1]["id"] == 2


@pytest.mark.slow
def test_versions_that_an_executor_has_lost_are_computed_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gold = GoldPipeline(spark, tmp_path, "  - {match: db.t, history: true}\n")
    gold.add_batch(insert("t", 1, row(1, name="a")), update("t", 5, row(1), row(1, name="c")))
    gold.apply()
    tried: list[str] = []
    merge_versions = merge.merge_versions

    def merge_without_kept_rows(*given: Any) -> None:
        tried.append("")
        if len(tried) == 1:
            for kept in spark.sparkContext._jsc.getPersistentRDDs().values():
                kept.unpersist(True)
        merge_versions(*given)

    monkeypatch.setattr(history, "merge_versions", merge_without_kept_rows)
    gold.add_batch(update("t", 3, row(1), row(1, name="b")), insert("t", 6, row(9, name="d")))
    assert gold.apply()["t"].late == 1
    assert len(tried) > 1
    assert [(one["id"], one["name"]) for one in gold.history("t")] == [(1, "a"), (1, "b"), (1, "c"), (9, "d")]


@pytest.mark.slow
def test_late_versions_are_computed_once(spark: SparkSession, tmp_path: Path) -> None:
    gold = GoldPipeline(spark, tmp_path, "  - {match: db.t, history: true}\n")
    gold.add_batch(insert("t", 1, row(1, name="a")), update("t", 5, row(1), row(1, name="c"), partial=True))
    gold.apply()
    gold.add_batch(update("t", 3, row(1), row(2, name="b"), partial=True))
    before = jobs(spark)
    assert gold.apply()["t"].late == 1
    assert jobs(spark) - before <= 50


@pytest.mark.slow
def test_rows_that_an_executor_has_lost_are_computed_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gold = GoldPipeline(spark, tmp_path)
    gold.add_batch(*(insert("t", n, row(n, name="a")) for n in range(1, 4)))
    gold.apply()
    tried: list[Mapping[str, tuple[str, str]] | None] = []
    merge_latest = merge.merge_latest

    def merge_without_kept_rows(*given: Any) -> Merged:
        tried.append(given[-1])
        if len(tried) == 1:
            for kept in spark.sparkContext._jsc.getPersistentRDDs().values():
                kept.unpersist(True)
        return merge_latest(*given)

    monkeypatch.setattr(merge, "merge_latest", merge_without_kept_rows)
    gold.add_batch(update("t", 5, row(1, name="a"), row(1, name="b")), insert("t", 6, row(9, name="c")))
    assert gold.apply()["t"].notes == ()
    assert tried == [{"id": ("1", "9")}] * 2
    assert [one["name"] for one in gold.rows("t")] == ["b", "a", "a", "c"]
