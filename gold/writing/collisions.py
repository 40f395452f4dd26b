"""Inserts and loaded rows that met an existing row with other values: the sign of a key with too few columns.

A merge reports how many rows it inserted, a rewrite how many it wrote. Only if that is fewer than the
inserts and rows of full loads among the changes, they are examined one by one. A row of a snapshot or a seed
may exist before its insert comes, and before another load: a loaded row collides only within its own load.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.config.tables import Deletes
from framework.lakehouse.lakehouse import read_changes, table_version
from framework.naming import quoted
from framework.spark.tuning import tune_for_rows
from gold.changes.effects import by_key, effects, key_names
from gold.changes.full_loads import is_of_load, load_of
from gold.planning.plan import Plan
from gold.planning.table_state import Collisions
from gold.writing.cells import with_cells
from gold.writing.merge import has_change_feed, is_feed_on
from gold.writing.table_changes import ChangeFrames


def count_collisions(
    spark: SparkSession, changes: ChangeFrames, plan: Plan, replica: str, *, added: int | None
) -> Collisions:
    """How many added rows met a row with other values: of the same changes, or of the replica.

    Args:
        spark: The session.
        changes: The new changes, and all where the replica was not rewritten from all.
        plan: The plan.
        replica: The path of the replica.
        added: How many rows the replica gained; None where that is unknown. Nothing is examined then, nor
            where it gained one row for each insert and each row of a full load.
    """
    if added is None or plan.batch_profile.additions <= added:
        return Collisions()
    tune_for_rows(spark, plan.task.rows)
    is_rewritten = changes.all_changes is None
    before = None if is_rewritten else _rows_before(spark, plan, replica)
    met = met_rows(changes.new(), None if is_rewritten else changes.everything(), before, plan)
    counts = Counter({row["op"]: row["count"] for row in met.groupBy("op").count().collect()})
    return Collisions(inserts=counts["insert"], loaded=counts["read"])


def met_rows(
    rows: DataFrame, everything: DataFrame | None, before: DataFrame | None, plan: Plan
) -> DataFrame:
    """`op` of the added rows that met a row with other values.

    Args:
        rows: The new changes; all changes after a rebuild.
        everything: All changes of the table; None where the replica was rewritten.
        before: Rows of the replica from before the merge; None where they are unknown.
        plan: The plan.
    """
    all_effects = _with_marks(effects(rows, plan.layout.key_columns), plan)
    met = all_effects.where("_collides").select("op")
    if before is None or everything is None:
        return met
    return met.unionAll(_met_before(all_effects, before, everything, plan))


def _with_marks(all_effects: DataFrame, plan: Plan) -> DataFrame:
    """Adds whether an effect adds a row, is the first of its key, and collides with the row before it.

    These are `_is_added`, `_is_first` and `_collides`.
    """
    last = F.lag(F.struct("is_upsert", "op", "after", "sequence")).over(
        by_key(key_names(len(plan.layout.keys)))
    )
    low = plan.batch_profile.min_sequence or ""  # no row has a lower one
    truncates = [sequence for sequence, _ in plan.task.lineage.truncates if sequence > low]
    exists = last["is_upsert"] & ~_is_emptied(last["sequence"], truncates)
    was_loaded = last["op"] == "read"
    is_added = (F.col("op") == "insert") | is_of_load(F.col("op"), F.col("sequence"))
    is_added &= F.col("is_upsert") & F.col("is_whole_change")
    meets = is_added & exists & _can_meet(was_loaded, last["sequence"])
    return all_effects.select(
        "*",
        is_added.alias("_is_added"),
        last.isNull().alias("_is_first"),
        (F.coalesce(meets, F.lit(False)) & _differ(last["after"], F.col("after"))).alias("_collides"),
    )


def _can_meet(was_loaded: Column, since: Column) -> Column:
    """Whether an existing row counts: for an insert one of a change, for a loaded row one of its own load."""
    is_same_load = was_loaded & load_of(since).eqNullSafe(load_of(F.col("sequence")))
    return F.when(F.col("op") == "read", is_same_load).otherwise(~was_loaded)


def _differ(one: Column, other: Column) -> Column:
    """Whether a column that both images have differs between them."""
    entries = F.map_entries(other)
    return F.exists(
        entries,
        lambda e: F.map_contains_key(one, e["key"]) & ~F.try_element_at(one, e["key"]).eqNullSafe(e["value"]),
    )


def _is_emptied(since: Column, truncates: Sequence[str]) -> Column:
    """Whether one of the truncates is between a position and a row."""
    places = F.from_json(F.lit(json.dumps(list(truncates))), "array<string>")
    return F.exists(places, lambda at: (since < at) & (at <= F.col("sequence")))


def _newest_truncates(plan: Plan) -> list[str]:
    """The truncates after the applied changes, and the newest one before them.

    All rows to test come after that one: it is behind a row wherever an older one is.
    """
    applied = plan.task.state.sequence or ""
    truncates = [sequence for sequence, _ in plan.task.lineage.truncates]
    earlier = max((sequence for sequence in truncates if sequence <= applied), default=None)
    later = [sequence for sequence in truncates if sequence > applied]
    return later if earlier is None else [earlier, *later]


def _rows_before(spark: SparkSession, plan: Plan, replica: str) -> DataFrame | None:
    """The rows that the last merge changed, as they were before it; None where that is unknown."""
    version = table_version(spark, replica)
    if (
        version is None
        or plan.task.settings.deletes is Deletes.IGNORE
        or not has_change_feed(plan.layout.gold_names.values())
        or not is_feed_on(spark, replica)
    ):
        return None
    changed = read_changes(spark, replica, version).where("_change_type IN ('update_preimage', 'delete')")
    changed = changed.where("_cdc_sequence IS NOT NULL")  # no row of the source
    return changed.where("NOT _cdc_deleted") if "_cdc_deleted" in changed.columns else changed


def _met_before(all_effects: DataFrame, before: DataFrame, everything: DataFrame, plan: Plan) -> DataFrame:
    """`op` of the added rows that are the first effect of their key and met a row from before the merge."""
    layout, keys = plan.layout, key_names(len(plan.layout.keys))
    first = all_effects.where(
        F.col("_is_added") & F.col("_is_first") & (F.col("sequence") > (plan.task.state.sequence or ""))
    )
    added = with_cells(first.select(*keys, "op", "sequence", "after"), layout, marked="after")
    loaded = everything.where(F.col("op") == "read").select(
        F.col("change_id").alias("_cdc_change_id"), F.lit(True).alias("_loaded")
    )
    names = [layout.gold_names[column.name] for column in layout.columns]
    old = [F.col(quoted(name)).alias(f"o{i}") for i, name in enumerate(names)]
    existing = before.join(loaded, "_cdc_change_id", "left").select(
        *old, F.col("_cdc_sequence").alias("_since"), F.coalesce("_loaded", F.lit(False)).alias("_was_loaded")
    )
    positions = [names.index(layout.gold_names[key]) for key in layout.keys]
    same = reduce(
        lambda a, b: a & b,
        (F.col(key).eqNullSafe(F.col(f"o{at}")) for key, at in zip(keys, positions, strict=True)),
    )
    differs = reduce(
        lambda a, b: a | b,
        (F.col(f"h{i}") & ~F.col(f"c{i}").eqNullSafe(F.col(f"o{i}")) for i in range(len(names))),
    )
    is_emptied = _is_emptied(F.col("_since"), _newest_truncates(plan))
    can_meet = _can_meet(F.col("_was_loaded"), F.col("_since")) & ~is_emptied
    return added.join(existing, same).where(differs & can_meet).select("op")
