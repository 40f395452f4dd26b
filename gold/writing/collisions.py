"""Inserts that met an existing row with other values: the sign of a key with too few columns.

A merge reports how many rows it inserted, a rewrite how many it wrote. Only if that is fewer than the
inserts among the changes, they are examined one by one. Rows of snapshots and seeds may exist before their
insert comes.
"""

from __future__ import annotations

import json
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.config.tables import Deletes
from framework.lakehouse.lakehouse import read_changes, table_version
from framework.naming import quoted
from framework.text.formatting import quantity
from gold.changes.effects import by_key, effects, key_names
from gold.planning.plan import Plan
from gold.writing.cells import with_cells
from gold.writing.merge import has_change_feed


def count_insert_collisions(
    rows: DataFrame, everything: DataFrame | None, plan: Plan, replica: str, *, added: int | None
) -> int:
    """How many inserts among the rows met a row with other values: of the same changes, or of the replica.

    Args:
        rows: The new changes; all changes after a rebuild.
        everything: All changes of the table; None where the replica was rewritten.
        plan: The plan.
        replica: The path of the replica.
        added: How many rows the replica gained; None where that is unknown. Nothing is examined then, nor
            where it gained one row for each insert.
    """
    if added is None or plan.batch_profile.inserts <= added:
        return 0
    all_effects = _with_marks(effects(rows, plan.layout.key_columns), plan)
    met = all_effects.where("_is_insert AND _differs").select("change_id")
    before = None if everything is None else _rows_before(rows.sparkSession, plan, replica)
    if before is not None and everything is not None:
        met = met.unionAll(_met_before(all_effects, before, everything, plan))
    return met.count()


def _with_marks(all_effects: DataFrame, plan: Plan) -> DataFrame:
    """Adds whether an effect is an insert, is the first of its key, and differs from the row before it.

    These are `_is_insert`, `_is_first` and `_differs`.
    """
    last = F.lag(F.struct("is_upsert", "op", "after", "sequence")).over(
        by_key(key_names(len(plan.layout.keys)))
    )
    exists = F.coalesce(
        last["is_upsert"] & (last["op"] != "read") & ~_is_emptied(last["sequence"], plan), F.lit(False)
    )
    return all_effects.select(
        "*",
        ((F.col("op") == "insert") & F.col("is_upsert") & F.col("is_whole_change")).alias("_is_insert"),
        last.isNull().alias("_is_first"),
        (exists & _differ(last["after"], F.col("after"))).alias("_differs"),
    )


def _differ(one: Column, other: Column) -> Column:
    """Whether a column that both images have differs between them."""
    entries = F.map_entries(other)
    return F.exists(
        entries,
        lambda e: F.map_contains_key(one, e["key"]) & ~F.try_element_at(one, e["key"]).eqNullSafe(e["value"]),
    )


def _is_emptied(since: Column, plan: Plan) -> Column:
    """Whether there is a truncate between a position and a row."""
    truncates = F.from_json(
        F.lit(json.dumps([sequence for sequence, _ in plan.task.lineage.truncates])), "array<string>"
    )
    return F.exists(truncates, lambda at: (since < at) & (at <= F.col("sequence")))


def _rows_before(spark: SparkSession, plan: Plan, replica: str) -> DataFrame | None:
    """The rows that the last merge changed, as they were before it; None where that is unknown."""
    version = table_version(spark, replica)
    if (
        version is None
        or plan.task.settings.deletes is Deletes.IGNORE
        or not has_change_feed(plan.layout.gold_names.values())
    ):
        return None
    changed = read_changes(spark, replica, version).where("_change_type IN ('update_preimage', 'delete')")
    return changed.where("NOT _cdc_deleted") if "_cdc_deleted" in changed.columns else changed


def _met_before(all_effects: DataFrame, before: DataFrame, everything: DataFrame, plan: Plan) -> DataFrame:
    """The inserts that are the first effect of their key and met one of the rows from before the merge."""
    layout, keys = plan.layout, key_names(len(plan.layout.keys))
    first = all_effects.where(
        F.col("_is_insert") & F.col("_is_first") & (F.col("sequence") > (plan.task.state.sequence or ""))
    )
    inserted = with_cells(first.select(*keys, "change_id", "sequence", "after"), layout, marked="after")
    copied = everything.where(F.col("op") == "read").select(F.col("change_id").alias("_cdc_change_id"))
    names = [layout.gold_names[column.name] for column in layout.columns]
    old = [F.col(quoted(name)).alias(f"o{i}") for i, name in enumerate(names)]
    existing = before.join(copied, "_cdc_change_id", "left_anti").select(
        *old, F.col("_cdc_sequence").alias("_since")
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
    return (
        inserted.join(existing, same).where(differs & ~_is_emptied(F.col("_since"), plan)).select("change_id")
    )


def collision_note(count: int) -> str:
    """The note on a table's line about this many inserts that met an existing row."""
    return f"{quantity(count, 'insert')} met a row that was there"
