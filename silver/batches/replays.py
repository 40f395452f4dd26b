"""What a replay of quarantined messages adds to the outcomes that they have."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from framework.contracts.table_schemas import MESSAGE_ID
from silver.changes.staged_rows import OF_FIRST_LANDING


def drop_already_decoded(rows: DataFrame, outcomes: DataFrame, messages: DataFrame) -> DataFrame:
    """Drop rows whose event has an outcome: some rows of a message may be decoded when others are refused.

    A released half is completed by its whole update, not by the half itself.
    """
    at = list(MESSAGE_ID)
    decoded = outcomes.where("kind NOT IN ('quarantined', 'half')").where(
        OF_FIRST_LANDING
    )  # a half that waited may be refused when its other half comes
    is_whole = F.col("half").isNull() | (F.col("kind") != "row")
    decoded = (
        decoded.withColumn("is_whole", is_whole)
        .join(messages.where("relanding IS NULL").select(*at), at, "left_semi")
        .groupBy(*at, "ordinal")
        .agg(F.max("is_whole").alias("is_whole"))
    )
    completes = F.col("half").isNull() & F.col("paired_with").isNotNull()
    joined = rows.join(decoded, [*at, "ordinal"], "left")
    is_new = F.col("is_whole").isNull() | (~F.col("is_whole") & completes)
    return joined.where(is_new).select(*(F.col(f"`{n}`") for n in rows.columns))
