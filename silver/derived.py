"""What follows from a committed batch of `silver/changes`: quarantine, waiting halves, schema list, counts.

Each function reads the rows that the commit holds, never a second computation of them, and writes so that a repeat
changes nothing. A crash between the commit and any of these leaves them to the next run of the same batch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from datetime import datetime

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from framework.contracts.actions import TableName
from framework.contracts.reasons import Reason
from framework.contracts.tables import CHANGES, MESSAGE_AT, SCHEMAS
from framework.merge import Merge
from framework.tables import Lakehouse, Transaction
from silver.choice import by_source
from silver.clock import believable, waiting_note, waiting_since
from silver.pairing import MET

CHANGES_TABLE = "silver/changes"
PENDING_TABLE = "silver/pending"
QUARANTINE_TABLE = "silver/quarantine"
SCHEMAS_TABLE = "silver/schemas"
STATEMENTS_TABLE = "ops/statements"
COUNTS_TABLE = "ops/batches"

CHANGES_PROPERTIES = {
    "delta.dataSkippingStatsColumns": "batch,source,kind,database,schema,table,sequence,event_time,change_id,topic,partition,offset"
}
_SAME_MESSAGE = "t.source <=> s.source AND t.topic <=> s.topic AND t.`partition` <=> s.`partition` AND t.offset <=> s.offset"
COUNTS_SCHEMA = (
    "batch bigint, source string, database string, schema string, `table` string, kind string, reason string, rows bigint, merged bigint, "
    "snapshots bigint, "
    "min_sequence string, max_sequence string, min_event_time timestamp, max_event_time timestamp, server string, "
    "max_ingested_at timestamp"
)
COUNTED_BY = ("batch", "source", "database", "schema", "table", "kind", "reason")
COUNTED = (*COUNTED_BY, "rows", "merged", "snapshots", "min_sequence", "max_sequence", "min_event_time", "max_event_time", "server")
"""The columns of `ops/batches`, but for the batch's own time; `snapshots` are rows of snapshots without a position."""


def append_schemas(spark: SparkSession, lake: Lakehouse, schemas: Mapping[str, str], batch: int, have: set[str]) -> None:
    """Make every schema of the batch known, before the changes that name it are committed. `have` are those known.

    No transaction: a batch that died after this and is run again with another configuration may name other schemas.
    """
    new = schema_rows(schemas, batch, have)
    if new:
        lake.append(spark.createDataFrame(new, SCHEMAS).coalesce(1), SCHEMAS_TABLE)
        have.update(row[0] for row in new)


def schema_rows(schemas: Mapping[str, str], batch: int, have: Set[str]) -> list[tuple[str, list[tuple[str | None, ...]], int]]:
    """The schemas that are not known yet, from their texts, as `silver/schemas` has them."""
    return [(name, [tuple(column) for column in json.loads(text)], batch) for name, text in schemas.items() if name not in have]


def merge_quarantine(lake: Lakehouse, committed: DataFrame, messages: DataFrame) -> None:
    """Give each quarantined message of the batch its row, with its bytes."""
    refused = committed.where("kind = 'quarantined'").select(
        "source", "format", "topic", "partition", "offset", "ordinal", "reason", "detail", "batch"
    )
    raw = messages.select(*MESSAGE_AT, "key", "value", F.col("ingested_at").alias("seen"))
    rows = refused.join(raw, list(MESSAGE_AT), "left").select(
        "topic", "partition", "offset", "ordinal", "source", "format", "reason", "detail", "key", "value",
        F.col("seen").alias("first_seen_at"), F.col("seen").alias("last_seen_at"), F.lit(False).alias("is_resolved"), "batch",
    )  # fmt: skip
    Merge(lake.place(QUARANTINE_TABLE), rows, _SAME_MESSAGE + " AND t.ordinal <=> s.ordinal").insert_all().execute()


def resolve_unpaired(lake: Lakehouse, committed: DataFrame) -> None:
    """Mark the quarantined BEFOR halves that have met their partner after all."""
    met = committed.where("kind = 'row' AND paired_with IS NOT NULL").select("source", "paired_with.*").distinct()
    is_open = f"t.reason = '{Reason.UNPAIRED_BEFORE_IMAGE}' AND NOT t.is_resolved"
    Merge(lake.place(QUARANTINE_TABLE), met, _SAME_MESSAGE).update({"is_resolved": "true"}, is_open).execute()


def note_refused_again(lake: Lakehouse, rows: DataFrame) -> None:
    """Give replayed messages that are refused again their new reason."""
    again = rows.where("kind = 'quarantined'").select(*MESSAGE_AT, "ordinal", "reason", "detail")
    merge = Merge(lake.place(QUARANTINE_TABLE), again, _SAME_MESSAGE + " AND t.ordinal = s.ordinal")
    merge.update({"reason": "s.reason", "detail": "s.detail", "last_seen_at": "current_timestamp()"}).execute()


def without_told(lake: Lakehouse, rows: DataFrame, messages: DataFrame) -> DataFrame:
    """The rows that have no fate yet: of a message of several rows, some may have been told when others were refused."""
    at = list(MESSAGE_AT)
    told = lake.rows(rows.sparkSession, CHANGES_TABLE, CHANGES).where("kind <> 'quarantined'").select(*at, "ordinal")
    told = told.join(F.broadcast(messages.select(*at)), at, "left_semi").distinct()
    return rows.join(F.broadcast(told), [*at, "ordinal"], "left_anti").select(*(F.col(f"`{n}`") for n in rows.columns))


def resolve_replayed(lake: Lakehouse, committed: DataFrame) -> None:
    """Mark the quarantined messages whose events are in this batch."""
    done = committed.where("kind <> 'quarantined'").select(*MESSAGE_AT, "ordinal").distinct()
    merge = Merge(lake.place(QUARANTINE_TABLE), done, _SAME_MESSAGE + " AND t.ordinal = s.ordinal")
    merge.update({"is_resolved": "true", "last_seen_at": "current_timestamp()"}, "NOT t.is_resolved").execute()


def has_pending(spark: SparkSession, lake: Lakehouse) -> bool:
    """Whether a half waits for its partner."""
    return lake.exists(spark, PENDING_TABLE) and not lake.read(spark, PENDING_TABLE).isEmpty()


def merge_pending(lake: Lakehouse, committed: DataFrame, landed_at: datetime | None, times: Mapping[str, datetime | None]) -> None:
    """Add the halves that wait now, and take away those that met their partner, were released or refused.

    `times` are the newest times of the sources: a half whose own cannot be believed waits from then.
    """
    names = CHANGES.names
    at = list(MESSAGE_AT)
    settled = committed.where(F.col("kind").isin("row", "quarantined") | ((F.col("kind") == "duplicate") & (F.col("detail") == MET)))
    partners = settled.where("paired_with is not null").select(
        "source", F.col("paired_with.topic").alias("topic"), F.col("paired_with.partition").alias("partition"),
        F.col("paired_with.offset").alias("offset"),
    )  # fmt: skip
    gone = settled.select(*at).unionByName(partners).distinct().withColumn("is_gone", F.lit(True))
    halves = (
        committed.where("kind = 'half' AND half IS NOT NULL")
        .select(*(F.col(f"`{n}`") for n in names))
        .join(gone.drop("is_gone"), at, "left_anti")
    )
    blank = gone.select("*", *(F.lit(None).cast(f.dataType).alias(f.name) for f in CHANGES.fields if f.name not in at))
    rows = halves.withColumn("is_gone", F.lit(False)).unionByName(blank.select(*(F.col(f"`{n}`") for n in names), "is_gone"))
    now = by_source({source: F.lit(moment).cast("timestamp") for source, moment in times.items()}, F.lit(None).cast("timestamp"))
    waits = {"event_time": waiting_since(F.col("event_time"), landed_at, now), "detail": waiting_note(F.col("event_time"), landed_at)}
    values = {f"`{n}`": f"s.`{n}`" for n in names}
    merge = Merge(lake.place(PENDING_TABLE), rows.withColumns(waits), _SAME_MESSAGE)
    merge.delete("s.is_gone").insert(values, "NOT s.is_gone").execute()


def append_statements(lake: Lakehouse, committed: DataFrame, transaction: Transaction | None) -> None:
    """Keep the batch's DDL and truncates where gold finds them without reading all changes."""
    lake.append(statements_of(committed).coalesce(1), STATEMENTS_TABLE, transaction)


def statements_of(committed: DataFrame) -> DataFrame:
    """The DDL and truncates, as `ops/statements` has them."""
    return committed.where("kind in ('ddl', 'truncate')").drop("before", "after", "partial", "half", "paired_with")


def count_rows(committed: DataFrame, landed_at: datetime | None) -> list[Row]:
    """The batch's rows by table and kind, with their sequences, and their times as far as they can be believed."""
    return committed.groupBy(*COUNTED_BY).agg(*counting(landed_at)).collect()


def counting(landed_at: datetime | None) -> list[Column]:
    """What is counted of rows of one table and kind."""
    is_order = F.col("kind").isin("row", "ddl", "truncate")
    return [
        F.count("*").alias("rows"),
        F.sum(F.col("paired_with").isNotNull().cast("long")).alias("merged"),
        F.count_if((F.col("op") == "read") & F.col("sequence").rlike(r"^\d+\.010\.")).alias("snapshots"),
        F.min(F.when(is_order, F.col("sequence"))).alias("min_sequence"),
        F.max(F.col("sequence")).alias("max_sequence"),
        F.min("event_time").alias("min_event_time"),
        F.max(believable(F.col("event_time"), landed_at)).alias("max_event_time"),
        F.max_by("server", F.when(F.col("server").isNotNull(), F.col("sequence"))).alias("server"),
    ]


def counts_of(spark: SparkSession, lake: Lakehouse, batch: int) -> list[Row]:
    """The counts of a batch, the last that is derived of it; none where a crash came before them."""
    return lake.rows(spark, COUNTS_TABLE, COUNTS_SCHEMA).where(F.col("batch") == batch).collect()


def append_counts(lake: Lakehouse, spark: SparkSession, counts: Sequence[Row], clock: object, transaction: Transaction | None) -> None:
    """Publish the batch: what is counted here is what gold takes up."""
    rows = [(*(row[name] for name in COUNTED), clock) for row in counts]
    if not rows:
        return
    frame = spark.createDataFrame(rows, COUNTS_SCHEMA).coalesce(1)
    lake.append(frame, COUNTS_TABLE, transaction, {"mergeSchema": "true"})  # tables of earlier releases lack `snapshots`


def is_of(source: str, name: TableName) -> Column:
    """Whether a row is of a table of a source."""
    return (
        (F.col("source") == source)
        & F.col("database").eqNullSafe(F.lit(name.database))
        & F.col("schema").eqNullSafe(F.lit(name.schema))
        & F.col("table").eqNullSafe(F.lit(name.table))
    )
