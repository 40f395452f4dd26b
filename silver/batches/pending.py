"""`silver/pending` after a committed batch: the halves of updates that wait for their other half.

The functions read the committed rows and write so that a repeat changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.config.model import Config
from framework.contracts.quarantine_reasons import Reason
from framework.contracts.table_names import PENDING_TABLE
from framework.contracts.table_schemas import CHANGES, MESSAGE_ID
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.merge import Merge
from framework.spark.columns import by_source
from silver.batches.landings import SAME_MESSAGE, before_halves_of
from silver.changes.pairing import OWN_TIME
from silver.changes.staged_rows import SETTLED_HALF
from silver.epochs.event_clock import believable

REASONS_OF_HALVES = (Reason.UNPAIRED_BEFORE_IMAGE, Reason.AMBIGUOUS_PAIR, Reason.RULE_BROKEN)
"""Why halves, and updates made of them, are quarantined."""
LONG_AGO = -62_135_596_800
"""The first second of the year 1, since the Unix epoch."""
WAITING_VALUES = {f"`{name}`": f"s.`{name}`" for name in CHANGES.names}
READ_AGAIN = tuple(n for n in CHANGES.names if n not in (*MESSAGE_ID, "batch", "event_time", "detail"))
"""What a half that waits has from its outcome in `silver/changes`: other cells if it is decoded again."""


def has_pending(spark: SparkSession, lake: Lakehouse) -> bool:
    """Whether any half waits for its other half."""
    return not lake.is_empty(spark, PENDING_TABLE)


def merge_pending(
    lake: Lakehouse, committed: DataFrame, landed_at: datetime | None, times: Mapping[str, datetime | None]
) -> None:
    """Add the halves that wait from now on; remove those that do not wait any more.

    Args:
        lake: The lakehouse.
        committed: The committed rows of the batch.
        landed_at: When the newest message of the batch landed.
        times: The newest event time of each source. A half whose own time is not believable waits from then.
    """
    at = list(MESSAGE_ID)
    settled = committed.where(SETTLED_HALF)
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
    changes: DataFrame, landed_at: datetime | Column | None, times: Mapping[str, datetime | None]
) -> DataFrame:
    """The waiting halves among these changes, with the columns of `silver/pending`.

    `landed_at` may be a column of the changes.
    """
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
        .withColumns(waits)
        .select(*(F.col(f"`{n}`") for n in CHANGES.names))
    )


def _waiting_since(event_time: Column, landed_at: datetime | Column | None, now: Column) -> Column:
    """When a half begins to wait: at its event time or, if that is not believable, at `now` of its source."""
    return F.coalesce(believable(event_time, landed_at), now)


def _waiting_note(event_time: Column, landed_at: datetime | Column | None) -> Column:
    """The half's own event time, `{"event_time": …}`; null where it waits from that time anyway."""
    return F.when(believable(event_time, landed_at).isNull(), own_time_note(event_time))


def own_time_note(event_time: Column) -> Column:
    """The `detail` of a half that waits from another time than its own event time, which the note holds."""
    own = F.struct(F.unix_micros(event_time).alias(OWN_TIME))
    return F.to_json(own, {"ignoreNullFields": "false"})


def with_ended_waits(staged: DataFrame, changes: DataFrame, again: DataFrame) -> DataFrame:
    """Halves that are decoded again wait no more if their waiting was over.

    Their own event times cannot tell that if they are impossible or null.

    Args:
        staged: Decoded rows.
        changes: What silver holds of the messages (CHANGES).
        again: The messages (MESSAGE_ID).
    """
    is_decided = (F.col("kind") == "row") | F.col("reason").isin(*map(str, REASONS_OF_HALVES))
    of_halves = changes.where("half IS NOT NULL OR paired_with IS NOT NULL").where(is_decided)
    ended = of_halves.select(*MESSAGE_ID).unionByName(before_halves_of(of_halves).select(*MESSAGE_ID))
    ended = ended.join(again, list(MESSAGE_ID), "left_semi").distinct()
    over = {
        "event_time": F.when(F.col("is_over"), F.timestamp_seconds(F.lit(LONG_AGO))).otherwise(
            F.col("event_time")
        ),
        "detail": F.when(F.col("is_over"), own_time_note(F.col("event_time"))).otherwise(F.col("detail")),
    }
    marked = staged.join(ended.withColumn("is_over", F.lit(True)), list(MESSAGE_ID), "left")
    marked = marked.withColumn("is_over", F.coalesce("is_over", F.lit(False)) & F.col("half").isNotNull())
    return marked.withColumns(over).select(*staged.columns)


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
