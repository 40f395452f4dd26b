"""The runs of earlier changes: `silver/changes` does not keep what `silver/changes/record_runs.py` notes."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

_RECORD = ["source", "position"]
_PLACE = [*_RECORD, "topic", "partition", "offset"]


def with_known_runs(known: DataFrame, earlier: DataFrame, members: DataFrame) -> DataFrame:
    """The `known` rows, with `run` and `run_end` where they have no key: earlier messages of one record.

    Args:
        known: Those of the earlier changes that may be repeated.
        earlier: Earlier row changes of all tables (STAGED).
        members: New rows (STAGED); what is known of their records has runs.
    """
    records = members.where("run IS NOT NULL").select(*_RECORD).distinct()
    places = earlier.select(*_PLACE).join(F.broadcast(records), _RECORD, "left_semi").distinct()
    in_order = Window.partitionBy(*_RECORD, "topic", "partition").orderBy("offset")
    begins = F.coalesce(F.col("offset") > F.lag("offset").over(in_order) + 1, F.lit(True))
    of_run = Window.partitionBy(*_RECORD, "topic", "partition", "_run")
    runs = places.withColumn("_run", F.sum(begins.cast("int")).over(in_order))
    first, last = F.min("offset").over(of_run), F.max("offset").over(of_run)
    runs = runs.select(*_PLACE, first.alias("_first"), last.alias("_last"))
    has_key = F.coalesce(F.size("keys") > 0, F.lit(False))
    return known.join(runs, _PLACE, "left").withColumns(
        {"run": F.when(~has_key, F.col("_first")), "run_end": F.when(~has_key, F.col("_last"))}
    )
