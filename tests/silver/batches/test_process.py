from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from framework.contracts.table_names import SCHEMAS_TABLE
from framework.lakehouse.lakehouse import Lakehouse
from silver.batches.changes_table import append_schemas
from silver.batches.contents import contents_of
from silver.changes.staged_rows import STAGED, STAGED_DDL, Row


def staged(sequence: str | None, position: str | None, offset: int) -> tuple[object, ...]:
    row: Row = dict.fromkeys(STAGED.names)
    row.update(
        source="feed", kind="row", op="insert", sequence=sequence, position=position, offset=offset, ordinal=0
    )
    return tuple(row[name] for name in STAGED.names)


def test_the_lowest_position_of_a_batch_has_no_tie_breakers(spark: SparkSession) -> None:
    """A second delivery stands at another offset than the first:
    it must not be looked for above its own offset only.
    """
    redelivered = staged("011.011.015.010.03105.010", "011.011.015", 105)
    newer = staged("011.011.017.010.03106.010", "011.011.017", 106)
    (found,) = contents_of(spark.createDataFrame([redelivered, newer], STAGED_DDL), None).sources
    assert found.min_sequence == "011.011.015"
    copied = staged("011.010.010.03107.010", None, 107)
    (found,) = contents_of(spark.createDataFrame([redelivered, copied], STAGED_DDL), None).sources
    assert found.min_sequence == "011"


def test_a_batch_that_died_and_names_other_schemas_now_makes_them_known(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lakehouse(str(tmp_path))
    for schema_id in ("before", "after"):
        append_schemas(spark, lake, {schema_id: '[["id", "bigint", "LONG", null]]'}, 1000, have=set())
    assert {found["schema_id"] for found in lake.read(spark, SCHEMAS_TABLE).collect()} == {"before", "after"}
