"""The replica: one current row for each key."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from framework.config.tables import Deletes
from framework.naming import quoted
from gold.changes.effects import effects, key_names
from gold.changes.latest import latest
from gold.changes.merge_policy import MergePolicy
from gold.changes.profile import Profile
from gold.planning.plan import Plan, policy_of
from gold.schema.layout import Layout
from gold.writing.cells import with_cells
from gold.writing.merge import replace_table
from gold.writing.plain_changes import Facts, are_plain, watched_rows

_PAYLOAD = ("sequence", "event_time", "change_id", "is_deleted")


def live_rows(stored: DataFrame) -> DataFrame:
    """The rows of a replica without those that are only marked as deleted."""
    return stored.where("NOT coalesce(_cdc_deleted, false)") if "_cdc_deleted" in stored.columns else stored


def live_keys(stored: DataFrame, layout: Layout) -> DataFrame:
    """The keys (k0…) and `_cdc_sequence` of a replica's rows, without those marked as deleted."""
    names = layout.gold_names
    keys = [F.col(quoted(names[key])).alias(f"k{i}") for i, key in enumerate(layout.keys)]
    return live_rows(stored).select(*keys, "_cdc_sequence")


def newest_states(all_effects: DataFrame, layout: Layout, profile: Profile, policy: MergePolicy) -> DataFrame:
    """The newest state of each key that the effects touch, after the newest truncate.

    Where deletes mark rows, a truncate marks the rows from before it.

    Args:
        all_effects: Effects, as `effects` returns them.
        layout: The replica's columns.
        profile: The table's profile.
        policy: How deletes, truncates and partial images are treated.

    Returns:
        One row for each key, as `latest` returns them.
    """
    keys, floor = key_names(len(layout.keys)), policy.truncated_at
    if floor is not None and policy.deletes is Deletes.HARD:
        all_effects = all_effects.where(F.col("sequence") >= floor)
    states = latest(all_effects, keys, policy, has_key_changes=profile.has_key_changes)
    if floor is not None and policy.deletes is Deletes.SOFT:
        states = states.withColumn("is_deleted", F.col("is_deleted") | (F.col("sequence") < floor))
    return states


def typed_rows(states: DataFrame, layout: Layout, *flags: str, are_marked: bool = False) -> DataFrame:
    """Newest states as rows for a merge or a rewrite.

    Args:
        states: Rows of `newest_states`, and the flags.
        layout: The replica's columns.
        flags: Columns to keep.
        are_marked: Whether to add p0…: whether the image has the column.

    Returns:
        k0…, `is_upsert`, the flags, c0…, p0… where asked for, and the system columns. A cell of a column
        that the image lacks is for a row without a value there.
    """
    keys = key_names(len(layout.keys))
    known = states.select(*keys, "is_upsert", "is_whole", *flags, *_PAYLOAD, "known", "after")
    with_values = with_cells(known, layout, "known", marked="after" if are_marked else None)
    present = [
        (F.col(f"h{i}") | F.col("is_whole")).alias(f"p{i}") for i in range(len(layout.columns)) if are_marked
    ]
    own = {
        "_cdc_sequence": F.col("sequence"),
        "_cdc_event_time": F.col("event_time"),
        "_cdc_change_id": F.col("change_id"),
        "_cdc_deleted": F.col("is_deleted"),
    }
    return with_values.select(
        *keys,
        "is_upsert",
        *flags,
        *layout.cells,
        *present,
        *(own[name].alias(name) for name in layout.system),
    )


def rows_of_changes(rows: DataFrame, plan: Plan) -> DataFrame:
    """The rows that all changes of the table lead to, as a rebuild writes them.

    Args:
        rows: All row changes of the table, complete, with current column names.
        plan: The plan of a rebuild.

    Returns:
        c0… and the system columns, and further ones.
    """
    return _rows_and_facts(rows, plan, is_watched=False)[0]


def _rows_and_facts(rows: DataFrame, plan: Plan, *, is_watched: bool) -> tuple[DataFrame, Facts | None]:
    """The same, and what is seen of the changes on their way; None where nobody looks."""
    layout, policy = plan.layout, policy_of(plan.task, plan.profile)
    if not are_plain(plan, policy):
        states = newest_states(effects(rows, layout.key_columns), layout, plan.profile, policy)
        return typed_rows(states.where("is_upsert"), layout).drop("is_upsert"), None
    whole, facts = watched_rows(rows, plan, policy, is_watched=is_watched)
    return whole.where("is_upsert").drop("is_forced", "is_upsert"), facts


def rewrite(rows: DataFrame, path: str, plan: Plan, *, is_watched: bool) -> bool:
    """Rebuilds the replica from all its changes, in one commit.

    Args:
        rows: All row changes of the table, complete, with current column names.
        path: The replica.
        plan: The plan of a rebuild.
        is_watched: Whether anybody wants to know what is seen of the changes on their way.

    Returns:
        Whether every change surely fits its columns; False where nobody has looked.
    """
    whole, facts = _rows_and_facts(rows, plan, is_watched=is_watched)
    replace_table(whole, path, plan.layout)
    return facts is not None and facts.all_fit(whole, plan.batch_profile.rows)
