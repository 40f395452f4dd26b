from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from framework.config.model import load_config
from framework.contracts.table_names import CHANGES_TABLE, PARTITIONS_TABLE, SCHEMAS_TABLE
from framework.contracts.table_schemas import CHANGES, SCHEMAS
from framework.lakehouse.lakehouse import Lakehouse
from silver.batches.contents import contents_of
from silver.batches.partition_progress import (
    NO_PROGRESS,
    PartitionProgress,
    complete_progress,
    restore_progress,
)
from silver.batches.run_state import RunState
from silver.changes.staged_rows import STAGED, STAGED_DDL, Row, staged_batch, staged_table
from silver.layer import LAYER


def staged(sequence: str | None, position: str | None, offset: int) -> Row:
    row: Row = dict.fromkeys(STAGED.names)
    row.update(
        source="feed", kind="row", op="insert", sequence=sequence, position=position, offset=offset, ordinal=0
    )
    return row


def test_the_lowest_position_of_a_batch_has_no_tie_breakers() -> None:
    """A second delivery stands at another offset than the first:
    it must not be looked for above its own offset only.
    """
    redelivered = staged("011.011.015.010.03105.010", "011.011.015", 105)
    newer = staged("011.011.017.010.03106.010", "011.011.017", 106)
    (found,) = contents_of([staged_batch([redelivered, newer])], None).sources
    assert found.min_sequence == "011.011.015"
    copied = staged("011.010.010.03107.010", None, 107)
    (found,) = contents_of([staged_batch([redelivered, copied])], None).sources
    assert found.min_sequence == "011"


def described(schema_id: str, columns: str | None) -> Row:
    row: Row = dict.fromkeys(STAGED.names)
    row.update(source="feed", kind="row", op="insert", ordinal=0, schema_id=schema_id, columns=columns)
    return row


ID = '[["id","bigint","LONG",null]]'


@pytest.fixture
def state(tmp_path: Path) -> RunState:
    file = tmp_path / "mainstem.yml"
    file.write_text("pipeline: shop\nlakehouse: ./lake\nsources:\n  feed: {format: canal, files: ./in}\n")
    config = load_config(file, formats=LAYER.options())
    return RunState(Lakehouse(config.root), config, {})


def test_a_batch_that_died_and_names_other_schemas_now_makes_them_known(
    spark: SparkSession, state: RunState
) -> None:
    for schema_id in ("before", "after"):
        rows = spark.createDataFrame(staged_table([described(schema_id, ID)]), STAGED_DDL)
        replace(state, schemas=set()).append_schemas(rows, {schema_id}, 1000)
    stored = state.lake.read(spark, SCHEMAS_TABLE).collect()
    assert {found["schema_id"] for found in stored} == {"before", "after"}


def test_each_new_schema_is_written_once_with_its_columns(spark: SparkSession, state: RunState) -> None:
    text = '[["id","bigint","LONG",null],["é \\"[]","string",null,"text,null"]]'
    rows = [described("two", text), described("one", ID), described("two", text), described("three", None)]
    frame = spark.createDataFrame(staged_table(rows), STAGED_DDL)
    ids = contents_of([staged_batch(rows)], None).schemas
    assert ids == {"one", "two"}
    state.append_schemas(frame, ids, 1000)
    state.append_schemas(frame, ids, 2000)
    replace(state, schemas=set()).append_schemas(frame, ids, 3000)
    stored = {row["schema_id"]: row for row in state.lake.read(spark, SCHEMAS_TABLE).collect()}
    assert state.lake.read(spark, SCHEMAS_TABLE).schema.fieldNames() == SCHEMAS.names
    assert state.lake.read(spark, SCHEMAS_TABLE).count() == 2
    assert [tuple(column) for column in stored["one"]["columns"]] == [("id", "bigint", "LONG", None)]
    assert [tuple(column) for column in stored["two"]["columns"]] == [
        ("id", "bigint", "LONG", None),
        ('é "[]', "string", None, "text,null"),
    ]
    assert {row["batch"] for row in stored.values()} == {1000}


def test_a_run_reads_only_the_schemas_of_its_batches(spark: SparkSession, state: RunState) -> None:
    many = [(f"s{n}", [], 0) for n in range(5_000)]
    state.lake.append(spark.createDataFrame(many, SCHEMAS), SCHEMAS_TABLE)
    assert state.new_schemas(spark, {"s7", "s4999", "new"}) == {"new"}
    assert state.schemas == {"s7", "s4999"}


def test_a_run_reads_only_the_progress_of_the_partitions_in_its_batches(
    spark: SparkSession, state: RunState
) -> None:
    """Each landing file is a partition: there may be many more of them than a batch has."""
    batch, epoch = F.lit(1000).cast("long"), F.lit("011")
    rows = spark.range(100_000).select(
        batch.alias("batch"),
        F.lit("feed").alias("source"),
        F.concat(F.lit("file"), F.col("id")).alias("topic"),
        F.lit(0).alias("partition"),
        epoch.alias("epoch"),
        F.col("id").alias("last_offset"),
        F.lit("011.0217").alias("top"),
    )
    state.lake.append(rows, PARTITIONS_TABLE)
    there, absent = ("feed", "file77777", 0, "011"), ("feed", "file7", 1, "011")
    found = state.partition_progress(spark, {there, absent})
    assert found == {there: PartitionProgress(77_777, "011.0217"), absent: NO_PROGRESS}
    assert state.partition_progress(spark, {("feed", "file9", 0, "011")}).keys() == {
        there,
        absent,
        ("feed", "file9", 0, "011"),
    }


def test_lost_progress_is_derived_from_the_changes_of_every_partition(
    spark: SparkSession, state: RunState
) -> None:
    def change(topic: str, offset: int, top: int) -> tuple[object, ...]:
        row: dict[str, object] = dict.fromkeys(CHANGES.names)
        position = f"011.01{offset % 10}"
        row |= {"source": "feed", "topic": topic, "partition": 0, "offset": offset, "position": position}
        return tuple((row | {"sequence": f"011.01{top}.t.010.01{offset}.010"}).values())

    assert not restore_progress(state.lake.rows(spark, CHANGES_TABLE, CHANGES), state.lake, 1000)
    rows = [change("a", 3, 7), change("a", 4, 5), change("b", 2, 2)]
    state.lake.append(spark.createDataFrame(rows, CHANGES), CHANGES_TABLE)
    a, b, c = (("feed", topic, 0, "011") for topic in "abc")
    expected = {a: PartitionProgress(4, "011.017"), b: PartitionProgress(2, "011.012")}
    assert state.partition_progress(spark, {a, b}) == expected
    assert restore_progress(state.lake.rows(spark, CHANGES_TABLE, CHANGES), state.lake, 1000)
    assert replace(state, partitions={}).partition_progress(spark, {a, b}) == expected
    more = spark.createDataFrame([change("a", 5, 6), change("b", 1, 1), change("c", 0, 4)], CHANGES)
    complete_progress(more, state.lake)
    expected = {a: PartitionProgress(5, "011.017"), b: PartitionProgress(2, "011.012")}
    expected[c] = PartitionProgress(0, "011.014")
    assert replace(state, partitions={}).partition_progress(spark, {a, b, c}) == expected
    saved = state.lake.version(spark, PARTITIONS_TABLE)
    complete_progress(more, state.lake)
    assert state.lake.version(spark, PARTITIONS_TABLE) == saved
