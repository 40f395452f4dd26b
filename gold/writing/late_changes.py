"""Late changes and changes of keys: the keys whose rows must be folded again from all their changes."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from gold.changes import key_changes
from gold.changes.effects import effects, key_names
from gold.planning.plan import Plan
from gold.schema.layout import Layout
from gold.writing.table_changes import ChangeFrames


def is_late(plan: Plan) -> bool:
    """Whether a change of the batch does not come after all applied changes."""
    top, low = plan.task.state.sequence, plan.batch_profile.min_sequence
    return top is not None and low is not None and low <= top


def late_keys(changes: ChangeFrames, plan: Plan) -> DataFrame | None:
    """The keys that must be folded again from silver: those of late changes, and old keys of key changes.

    What a late change says of a row is also part of the rows that later partial key changes made of it.
    """
    comes_late = is_late(plan)
    if not comes_late and not plan.batch_profile.has_key_changes:
        return None
    columns, keys = plan.layout.key_columns, key_names(len(plan.layout.keys))
    test = F.col("is_key_change") & ~F.col("is_upsert")
    if comes_late:
        test = test | (F.col("sequence") <= F.lit(plan.task.state.sequence))
    found = effects(changes.new(), columns).where(test).select(*keys)
    if comes_late and plan.profile.has_partial_key_changes:
        found = found.union(
            key_changes.keys_reached(changes.everything(), columns, plan.batch_profile.min_sequence or "")
        )
    return found.distinct()


def with_keys(frame: DataFrame, wanted: DataFrame, keys: Sequence[str], without: bool = False) -> DataFrame:
    """The rows that have one of the wanted keys (k0…); with `without`, those that have none of them."""
    renamed = wanted.select(*(F.col(k).alias(f"_{k}") for k in keys))
    same = F.lit(True)
    for key in keys:
        same = same & F.col(key).eqNullSafe(F.col(f"_{key}"))
    return frame.join(renamed, same, "left_anti" if without else "left_semi")


def changes_of_keys(rows: DataFrame, layout: Layout, wanted: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The changes that have an effect on one of the wanted keys (k0…)."""
    ids = with_keys(effects(rows, layout.key_columns), wanted, keys).select("change_id").distinct()
    return rows.join(ids, "change_id", "left_semi")
