"""`silver/quarantine` after a committed batch: messages that cannot be decoded, with their bytes.

Each function reads the committed rows and writes so that a repeat changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.contracts import dismissals
from framework.contracts.table_names import QUARANTINE_TABLE
from framework.contracts.table_schemas import MESSAGE_ID, QUARANTINE
from framework.lakehouse.file_commits import Commit, commit_files
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.merge import Merge
from framework.lakehouse.recent_rows import has_none_between
from silver.batches.landings import HOLDS_COORDINATES, SAME_MESSAGE, before_halves_of
from silver.batches.staged_files import read_refused
from silver.changes.staged_rows import OF_FIRST_LANDING

FEW_REFUSED = 50_000
"""The coordinates of so many messages fit into the memory of every task."""
REOPENED = {
    **{name: f"s.{name}" for name in ("reason", "detail", "batch", "is_resolved", "key", "value")},
    **dict.fromkeys(dismissals.COLUMNS, "null"),
}
"""What a message gets that is refused again after it was decoded; its former dismissal is over."""


def not_dismissed() -> list[Column]:
    """The columns of a dismissal, for a row that is not dismissed."""
    return [F.lit(None).cast(kind).alias(name) for name, kind in dismissals.COLUMNS.items()]


def merge_quarantine(
    lake: Lakehouse, committed: DataFrame, messages: DataFrame, count: int, files: Sequence[str] = ()
) -> None:
    """Write each quarantined message of the batch, with its bytes, to `silver/quarantine`.

    Args:
        lake: The lakehouse.
        committed: The committed rows of the batch.
        messages: The messages of the batch, from `landings.identify`.
        count: How many rows of the batch are quarantined.
        files: Files that tasks have written (`staged_files`). If they have so many messages, they have all.
    """
    spark = committed.sparkSession
    if files and count == sum(parquet.read_metadata(file).num_rows for file in files):
        if _append_files(spark, lake, files):
            return
        rows = read_refused(spark, files)
    else:
        rows = _refused(committed, messages, count).select(
            "topic", "partition", "offset", "ordinal", "source", "format", "reason", "detail", "key", "value",
            F.col("seen").alias("first_seen_at"), F.col("seen").alias("last_seen_at"),
            F.lit(False).alias("is_resolved"), "batch", "epoch",
            *not_dismissed(),
        )  # fmt: skip
    one_each = rows.dropDuplicates([*MESSAGE_ID, "ordinal"])  # messages may lack the same coordinate
    merge = Merge(lake.location(QUARANTINE_TABLE), one_each, SAME_MESSAGE + " AND t.ordinal <=> s.ordinal")
    # a replay may take a half out of quarantine; it may be refused again when its other half comes
    merge.update(REOPENED, "t.is_resolved AND t.batch < s.batch").insert_all().execute()


def _append_files(spark: SparkSession, lake: Lakehouse, files: Sequence[str]) -> bool:
    """Makes these files part of the table; returns whether it surely has none of their messages.

    A batch is given its files only by the process that has just committed it, so nothing appends them again.
    """
    found = pa.concat_tables([parquet.read_table(file, columns=["topic", "offset"]) for file in files])
    if any(column.null_count for column in found.columns):
        return False
    extremes: dict[str, Any] = {name: pc.min_max(found.column(name)).as_py() for name in found.column_names}
    ends = {name: (end["min"], end["max"]) for name, end in extremes.items()}
    if not has_none_between(lake, QUARANTINE_TABLE, ends):
        near = reduce(and_, (F.col(name).between(*between) for name, between in ends.items()))
        if not lake.rows(spark, QUARANTINE_TABLE, QUARANTINE).where(near).isEmpty():
            return False
    return commit_files(spark, lake.location(QUARANTINE_TABLE), QUARANTINE, files, Commit())


def _refused(committed: DataFrame, messages: DataFrame, count: int) -> DataFrame:
    """The quarantined messages of a batch, with their bytes, from its committed rows and its messages.

    Of messages that lack the same coordinate, as earlier releases have taken them from tables, each has the
    bytes of one.
    """
    refused = committed.where("kind = 'quarantined'").select(
        "source", "format", "topic", "partition", "offset", "ordinal", "reason", "detail", "batch", "epoch"
    )
    raw = messages.where(HOLDS_COORDINATES).select(
        *MESSAGE_ID, "key", "value", F.col("ingested_at").alias("seen")
    )
    if count <= FEW_REFUSED:  # else the bytes of every message of the batch are sent from task to task
        few = F.broadcast(refused.select(*MESSAGE_ID))
        raw = raw.join(few, _is_same(raw, few), "left_semi")
    raw = raw.dropDuplicates(list(MESSAGE_ID))
    own = [raw[name] for name in ("key", "value", "seen")]
    return refused.join(raw, _is_same(refused, raw), "left").select(
        *(refused[n] for n in refused.columns), *own
    )


def _is_same(rows: DataFrame, others: DataFrame) -> Column:
    return reduce(and_, (rows[name].eqNullSafe(others[name]) for name in MESSAGE_ID))


def resolve_met(lake: Lakehouse, committed: DataFrame) -> None:
    """Resolve the quarantined BEFORE halves that an outcome of this batch has been paired with."""
    met = before_halves_of(committed).distinct()
    merge = Merge(lake.location(QUARANTINE_TABLE), met, SAME_MESSAGE)
    merge.update({"is_resolved": "true"}, "NOT t.is_resolved").execute()


def update_reasons(lake: Lakehouse, rows: DataFrame) -> None:
    """Store the new reason of messages that were refused again; a dismissal stays."""
    refused = rows.where("kind = 'quarantined'").select(*MESSAGE_ID, "ordinal", "reason", "detail")
    merge = Merge(lake.location(QUARANTINE_TABLE), refused, SAME_MESSAGE + " AND t.ordinal = s.ordinal")
    merge.update(
        {"reason": "s.reason", "detail": "s.detail", "last_seen_at": "current_timestamp()"}
    ).execute()


def resolve_replayed(lake: Lakehouse, committed: DataFrame) -> None:
    """Resolve the quarantined messages that this batch has decoded."""
    done = (
        committed.where("kind <> 'quarantined'")
        .where(OF_FIRST_LANDING)
        .select(*MESSAGE_ID, "ordinal")
        .distinct()
    )
    merge = Merge(lake.location(QUARANTINE_TABLE), done, SAME_MESSAGE + " AND t.ordinal = s.ordinal")
    merge.update(
        {"is_resolved": "true", "last_seen_at": "current_timestamp()"}, "NOT t.is_resolved"
    ).execute()
