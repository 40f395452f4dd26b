"""`silver/pending` after a committed batch: the halves of updates that wait for their other half.

The functions read the committed rows and write so that a repeat changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.config.model import Config
from framework.contracts.table_names import PENDING_TABLE
from framework.contracts.table_schemas import CHANGES, MESSAGE_ID
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.merge import Merge
from framework.spark.columns import by_source
from silver.batches.landings import SAME_MESSAGE
from silver.changes.pairing import OWN_TIME
from silver.changes.staged_rows import is_settled_half
from silver.epochs.event_clock import believable

WAITING_VALUES = {f"`{name}`": f"s.`{name}`" for name in CHANGES.names}


def has_pending(spark: SparkSession, lake: Lakehouse) -> bool:
    """Whether any half waits for its other half."""
    return not lake.is_empty(spark, PENDING_TABLE)


def merge_pending(
    lake: Lakehouse, committed: DataFrame, landed_at: datetime | None, times: Mapping[str, datetime | None]
) -> None:
    """Add the halves that wait from now on; remove those that were paired, released or refused.

    Args:
        lake: The lakehouse.
        committed: The committed rows of the batch.
        landed_at: When the newest message of the batch landed.
        times: The newest event time of each source. A half whose own time is not believable waits from then.
    """
    at = list(MESSAGE_ID)
    settled = committed.where(is_settled_half("row", "quarantined"))
    partners = settled.where("paired_with is not null").select(
        "source", F.col("paired_with.topic").alias("topic"),
        F.col("paired_with.partition").alias("partition"),
        F.col("paired_with.offset").alias("offset"), "epoch",
    )  # fmt: skip
    gone = settled.select(*at).unionByName(partners).distinct().withColumn("is_gone", F.lit(True))
    halves = pending_rows(committed, landed_at, times).join(gone.drop("is_gone"), at, "left_anti")
    blank = gone.select(
        "*", *(F.lit(None).cast(f.dataType).alias(f.name) for f in CHANGES.fields if f.name not in at)
    )
    columns = [F.col(f"`{n}`") for n in CHANGES.names]
    rows = halves.select(*columns, F.lit(False).alias("is_gone")).unionByName(
        blank.select(*columns, "is_gone")
    )
    merge = Merge(lake.location(PENDING_TABLE), rows, SAME_MESSAGE)
    merge.delete("s.is_gone").insert(WAITING_VALUES, "NOT s.is_gone").execute()


def pending_rows(
    changes: DataFrame, landed_at: datetime | None, times: Mapping[str, datetime | None]
) -> DataFrame:
    """The waiting halves among these changes, with the columns of `silver/pending`."""
    now = by_source(
        {source: F.lit(moment).cast("timestamp") for source, moment in times.items()},
        F.lit(None).cast("timestamp"),
    )
    waits = {
        "event_time": _waiting_since(F.col("event_time"), landed_at, now),
        "detail": _waiting_note(F.col("event_time"), landed_at),
    }
    return (
        changes.where("kind = 'half' AND half IS NOT NULL")
        .select(*(F.col(f"`{n}`") for n in CHANGES.names))
        .withColumns(waits)
    )


def _waiting_since(event_time: Column, landed_at: datetime | None, now: Column) -> Column:
    """When a half begins to wait: at its event time or, if that is not believable, at `now` of its source."""
    return F.coalesce(believable(event_time, landed_at), now)


def _waiting_note(event_time: Column, landed_at: datetime | None) -> Column:
    """The half's own event time, `{"event_time": …}`; null where it waits from that time anyway."""
    own = F.to_json(F.struct(F.unix_micros(event_time).alias(OWN_TIME)), {"ignoreNullFields": "false"})
    return F.when(believable(event_time, landed_at).isNull(), own)


def deadlines(newest: Mapping[str, datetime | None], config: Config) -> dict[str, datetime | None]:
    """For each source the time before which halves are released: its newest time less `pairing_timeout`."""
    found: dict[str, datetime | None] = {}
    for name, source in config.sources.items():
        top = newest.get(name)
        try:
            found[name] = None if top is None else top - source.pairing_timeout
        except OverflowError:
            found[name] = None
    return found
