"""What a replay of quarantined messages adds to the outcomes that they have."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from framework.contracts.table_schemas import MESSAGE_ID
from silver.changes.staged_rows import OF_FIRST_LANDING


def drop_already_decoded(rows: DataFrame, outcomes: DataFrame, messages: DataFrame) -> DataFrame:
    """Drop rows whose event has an outcome: some rows of a message may be decoded when others are refused.

    A released half is completed by its whole update, not by the half itself. A row that is refused is kept
    only where its event has no outcome at all: a message that was refused as a whole may turn out to have
    more rows than the one that stands for it.
    """
    at = list(MESSAGE_ID)
    own = messages.where("relanding IS NULL").select(*at).distinct()
    # a half that waited may be refused when its other half comes
    is_decoded = ~F.col("kind").isin("quarantined", "half")
    is_whole = F.col("half").isNull() | (F.col("kind") != "row")
    known = (
        outcomes.where(OF_FIRST_LANDING)
        .join(own, at, "left_semi")
        .groupBy(*at, "ordinal")
        .agg(F.max(F.when(is_decoded, is_whole)).alias("is_whole"))
        .withColumn("has_outcome", F.lit(True))
    )
    completes = F.col("half").isNull() & F.col("paired_with").isNotNull()
    # halves that waited come from other messages: they wait on where they would be refused
    joined = rows.join(known, [*at, "ordinal"], "left").join(
        own.withColumn("is_own", F.lit(True)), at, "left"
    )
    is_new_refusal = F.col("is_own") & F.col("has_outcome").isNull()
    is_new = F.col("is_whole").isNull() | (~F.col("is_whole") & completes)
    is_kept = F.when(F.col("kind") == "quarantined", is_new_refusal).otherwise(is_new)
    return joined.where(is_kept).select(*(F.col(f"`{n}`") for n in rows.columns))
