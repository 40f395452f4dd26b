"""The replica: one current row a key."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from framework.config_rules import Deletes
from framework.names import quoted
from gold.changes import effects, key_names, laid_over
from gold.latest import latest
from gold.merge import Layout, Rules, merge_latest, replace_table
from gold.plan import Task
from gold.profile import Profile

_PAYLOAD = ("sequence", "event_time", "change_id", "is_deleted")


def rules_of(task: Task, profile: Profile) -> Rules:
    """How the table's replica takes deletes and truncates, its changes being of this profile.

    A truncate belongs to the merge that brings it: a clause for rows that no change names reads the whole replica.
    """
    deletes, times = task.settings.deletes, task.truncate_times
    floor = None if deletes is Deletes.IGNORE else task.lineage.truncated_at
    is_emptied = floor is not None and floor in times and times[floor][1] <= task.state.batch
    return Rules(deletes, floor, profile.has_partials or deletes is Deletes.SOFT, is_emptied)


def live_rows(stored: DataFrame) -> DataFrame:
    """A replica's rows without those that a delete has only marked."""
    return stored.where("NOT coalesce(_cdc_deleted, false)") if "_cdc_deleted" in stored.columns else stored


def live_keys(stored: DataFrame, layout: Layout) -> DataFrame:
    """The keys (k0…) and `_cdc_sequence` of a replica's rows without those that a delete has only marked."""
    names = layout.gold_names
    keys = [F.col(quoted(names[key])).alias(f"k{i}") for i, key in enumerate(layout.keys)]
    return live_rows(stored).select(*keys, "_cdc_sequence")


def newest(found: DataFrame, layout: Layout, profile: Profile, rules: Rules) -> DataFrame:
    """The newest state of each key that the effects touch, after the newest truncate.

    Where deletes only mark rows, a truncate marks those from before it.
    """
    keys, floor = key_names(len(layout.keys)), rules.truncated_at
    if floor is not None and rules.deletes is Deletes.HARD:
        found = found.where(F.col("sequence") >= floor)
    states = latest(found, keys, rules, has_moves=profile.has_moves)
    if floor is not None and rules.deletes is Deletes.SOFT:
        states = states.withColumn("is_deleted", F.col("is_deleted") | (F.col("sequence") < floor))
    return states


def typed_rows(found: DataFrame, layout: Layout, *flags: str) -> DataFrame:
    """Newest states as rows for a merge or a rewrite: keys, cells, flags and our own columns."""
    is_partial = "is_forced" in flags
    keys = key_names(len(layout.keys))
    kept = found.withColumn("_known", _known()).select(*keys, "is_put", "is_whole", *flags, *_PAYLOAD, "_known", "after")
    told = layout.with_cells(kept, "_known", marked="after" if is_partial else None)
    present = [(F.col(f"h{i}") | F.col("is_whole")).alias(f"p{i}") for i in range(len(layout.columns)) if is_partial]
    own = {
        "_cdc_sequence": F.col("sequence"),
        "_cdc_event_time": F.col("event_time"),
        "_cdc_change_id": F.col("change_id"),
        "_cdc_deleted": F.col("is_deleted"),
    }
    return told.select(*keys, "is_put", *flags, *layout.cells, *present, *(own[name].alias(name) for name in layout.own))


def _known() -> Column:
    """The image as far as it is known: of a row marked as deleted that no change has told, what its delete told."""
    is_untold = F.col("is_deleted") & ~F.col("is_whole") & F.col("before").isNotNull()
    return F.when(is_untold, laid_over(F.col("before"), F.col("after"))).otherwise(F.col("after"))


def merge_rows(mine: DataFrame, path: str, layout: Layout, rules: Rules) -> None:
    """Merge newest states (with `is_forced`) into the replica."""
    merge_latest(typed_rows(mine, layout, "is_forced"), path, layout, rules)


def rewrite(rows: DataFrame, path: str, layout: Layout, profile: Profile, rules: Rules) -> None:
    """Rebuild the replica from all its changes, in one commit."""
    states = newest(effects(rows, layout.key_columns), layout, profile, rules)
    replace_table(typed_rows(states.where("is_put"), layout).drop("is_put"), path, layout)
