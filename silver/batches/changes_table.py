"""`silver/changes`, with `silver/schemas` (written before a commit) and `ops/statements` (after it)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from framework.contracts.ddl_actions import TableName
from framework.contracts.table_names import CHANGES_TABLE, SCHEMAS_TABLE, STATEMENTS_TABLE
from framework.contracts.table_schemas import CHANGES
from framework.lakehouse.file_commits import Commit, commit_files
from framework.lakehouse.lakehouse import Lakehouse, Transaction
from framework.lakehouse.recent_rows import rows_above
from framework.spark.columns import with_one_of
from framework.spark.local_frame import arrow_frame

CHANGES_PROPERTIES = {
    "delta.dataSkippingStatsColumns": "batch,source,kind,database,schema,table,sequence,event_time,change_id,"
    "topic,partition,offset"
}

_FEW_ROWS, _FEW_BYTES = 20_000, 16 * 1024 * 1024
"""Up to this number of rows and bytes, the newest changes are read in this process."""


def append_files(spark: SparkSession, lake: Lakehouse, files: Sequence[str], commit: Commit) -> bool:
    """Commit the changes in files (`staged_files`), without a copy; returns whether that was possible."""
    lake.create(spark, CHANGES_TABLE, CHANGES, CHANGES_PROPERTIES)
    return commit_files(spark, lake.location(CHANGES_TABLE), CHANGES, files, commit)


def append_schemas(lake: Lakehouse, staged: DataFrame, new: Collection[str], batch: int) -> None:
    """Add the new schemas of a batch to `silver/schemas`, before its changes are committed.

    The write has no transaction: a batch that failed after it and is run again with another configuration may
    have other schemas.
    """
    if new:
        lake.append(schemas_of(staged, new, batch).coalesce(1), SCHEMAS_TABLE)


def schemas_of(staged: DataFrame, ids: Collection[str], batch: int) -> DataFrame:
    """The schemas with these ids that decoded rows (STAGED) have, as rows of `silver/schemas`."""
    described = with_one_of(
        staged.where("columns IS NOT NULL").select("schema_id", "columns"), "schema_id", ids
    )
    fields = ("name", "type", "declared", "token")
    columns = F.transform(
        F.from_json("columns", "array<array<string>>"),
        lambda column: F.struct(*(column[place].alias(name) for place, name in enumerate(fields))),
    )
    return (
        described.groupBy("schema_id")
        .agg(F.first("columns").alias("columns"))
        .select("schema_id", columns.alias("columns"), F.lit(batch).cast("long").alias("batch"))
    )


def changes_since(spark: SparkSession, lake: Lakehouse, batch: int) -> DataFrame:
    """The rows of a batch and of those after it. Few are read now, not by each query of the frame."""
    few = rows_above(lake, CHANGES_TABLE, ("batch", batch - 1), CHANGES, (_FEW_ROWS, _FEW_BYTES))
    if few is not None and few.nbytes <= _FEW_BYTES:
        return arrow_frame(spark, few, CHANGES)
    return lake.rows(spark, CHANGES_TABLE, CHANGES).where(F.col("batch") >= batch)


_OF_ROWS = ("before", "after", "partial", "half", "paired_with")
STATEMENTS = StructType([column for column in CHANGES if column.name not in _OF_ROWS])
"""The columns of `ops/statements`."""


def append_statements(lake: Lakehouse, committed: DataFrame, transaction: Transaction | None) -> None:
    """Copy the DDL and truncates of the batch to `ops/statements`, so that gold need not read all changes."""
    lake.append(statements_of(committed).coalesce(1), STATEMENTS_TABLE, transaction, {"mergeSchema": "true"})


def statements_of(committed: DataFrame) -> DataFrame:
    """The DDL and truncates among committed changes, with the columns of `ops/statements`."""
    return committed.where("kind in ('ddl', 'truncate')").drop(*_OF_ROWS)


def is_committed(spark: SparkSession, lake: Lakehouse, batch: int) -> bool:
    """Whether `silver/changes` has the outcomes of the batch, even if what follows from them is missing."""
    if not lake.exists(spark, CHANGES_TABLE):
        return False
    return not lake.read(spark, CHANGES_TABLE).where(F.col("batch") == batch).isEmpty()


def is_of(source: str, name: TableName) -> Column:
    """Whether a row belongs to this table of this source."""
    return (
        (F.col("source") == source)
        & F.col("database").eqNullSafe(F.lit(name.database))
        & F.col("schema").eqNullSafe(F.lit(name.schema))
        & F.col("table").eqNullSafe(F.lit(name.table))
    )


def changes_of(rows: DataFrame) -> DataFrame:
    """Decoded rows (STAGED and `batch`) with the columns of `silver/changes`."""
    own = {"position": F.when(F.col("block").isNotNull(), F.col("position")).alias("position")}
    return rows.select(*(own[name] if name in own else F.col(f"`{name}`") for name in CHANGES.names))
