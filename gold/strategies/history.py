"""The history (SCD2): one row a version of a key, from when and until when it was valid.

`_cdc_valid_from` is the running maximum of event time in the order of the source, so intervals never run backwards; a
time that is not known is the one before it. A delete, a truncate and the leaving of a key close the version before.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from framework.names import quoted
from framework.tables import read_table
from gold.changes import effects, key_names
from gold.latest import by_key, folded_images, without_shielded
from gold.merge import Layout, merge_versions, replace_table
from gold.profile import Profile

VALIDITY = {"_cdc_valid_from": "timestamp", "_cdc_valid_to": "timestamp", "_cdc_is_current": "boolean", "_cdc_op": "string"}


def versions(
    rows: DataFrame, layout: Layout, profile: Profile, truncates: Sequence[tuple[str, object]], track: Sequence[str] | None
) -> DataFrame:
    """All versions of the keys that the rows touch. `truncates` are positions and event times."""
    keys = key_names(len(layout.keys))
    found = effects(rows, layout.key_columns)
    carried = [
        "sequence",
        "rank",
        "is_whole_change",
        "change_id",
        "event_time",
        "op",
        "is_put",
        "is_move",
        "partial",
        "transaction_id",
        "before",
        "after",
    ]
    found = found.select(*keys, *carried)
    for sequence, moment in truncates:
        gone = found.where(F.col("sequence") < sequence).select(*keys).distinct()
        gone = gone.withColumns(
            {
                "sequence": F.lit(sequence),
                "rank": F.lit(3),
                "is_whole_change": F.lit(True),
                "change_id": F.lit(""),
                "event_time": F.lit(moment).cast("timestamp"),
                "op": F.lit("truncate"),
                "is_put": F.lit(False),
                "is_move": F.lit(False),
                "partial": F.lit(False),
            }
        )
        for name, kind in (("transaction_id", "string"), ("before", "map<string,string>"), ("after", "map<string,string>")):
            gone = gone.withColumn(name, F.lit(None).cast(kind))
        found = found.unionByName(gone)
    return _valid(found, layout, keys, profile, track)


def _valid(found: DataFrame, layout: Layout, keys: Sequence[str], profile: Profile, track: Sequence[str] | None) -> DataFrame:
    once = Window.partitionBy(*keys, "sequence", "is_put").orderBy(F.desc("is_whole_change"), "change_id")
    found = found.withColumn("n", F.row_number().over(once)).where("n = 1").drop("n")
    if profile.has_moves:
        found = without_shielded(found, keys)
    if profile.has_partials:
        found = folded_images(found, keys)
    window = by_key(keys)
    if track:
        found = _tracked(found, keys, track)
    running = F.max("event_time").over(window.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    timed = found.withColumn("_cdc_valid_from", running)
    timed = timed.withColumn("_cdc_valid_to", F.lead("_cdc_valid_from").over(window))
    timed = timed.withColumn("_cdc_is_current", F.lead("rank").over(window).isNull())
    own = {"_cdc_sequence": "sequence", "_cdc_event_time": "event_time", "_cdc_change_id": "change_id", "_cdc_op": "op"}
    told = layout.with_cells(timed.where("is_put").select(*keys, "after", *{own.get(name, name): None for name in layout.own}))
    return told.select(*keys, *layout.cells, *(F.col(own.get(name, name)).alias(name) for name in layout.own))


def _tracked(found: DataFrame, keys: Sequence[str], track: Sequence[str]) -> DataFrame:
    window = by_key(keys)
    watched = F.to_json(
        F.struct(*(F.try_element_at("after", F.lit(n)).alias(f"w{i}") for i, n in enumerate(track))), {"ignoreNullFields": "false"}
    )
    marked = found.withColumn("_watched", F.when(F.col("is_put"), watched))
    was = F.lag(F.struct("_watched")).over(window)
    marked = marked.withColumn("_same", F.col("is_put") & F.coalesce(was["_watched"] == F.col("_watched"), F.lit(False)))
    return marked.where("NOT _same").drop("_watched", "_same")


def rewrite(frame: DataFrame, path: str, layout: Layout) -> None:
    """Rebuild the history from all versions, in one commit."""
    replace_table(frame, path, layout)


def merge_keys(frame: DataFrame, touched: DataFrame, path: str, layout: Layout) -> None:
    """Make the chains of the touched keys what `frame` says; versions that it lacks go."""
    spark = frame.sparkSession
    names, keys = layout.gold_names, key_names(len(layout.keys))
    stored = read_table(spark, path)
    have = stored.select(*(F.col(quoted(names[k])).alias(f"k{i}") for i, k in enumerate(layout.keys)), "_cdc_sequence")
    same = F.lit(True)
    for name in keys:
        same = same & have[name].eqNullSafe(touched[name])
    have = have.join(F.broadcast(touched), same, "left_semi")
    kept = frame.select(*keys, "_cdc_sequence").alias("f")
    match = have["_cdc_sequence"] == F.col("f._cdc_sequence")
    for name in keys:
        match = match & have[name].eqNullSafe(F.col(f"f.{name}"))
    stale = have.join(kept, match, "left_anti").withColumn("is_stale", F.lit(True))
    rows = frame.withColumn("is_stale", F.lit(False)).unionByName(stale, allowMissingColumns=True)
    merge_versions(rows, path, layout)
