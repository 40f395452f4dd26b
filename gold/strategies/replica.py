"""The replica: one current row a key."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from gold.changes import effects, key_names
from gold.latest import latest
from gold.merge import Layout, Rules, merge_latest, replace_table
from gold.profile import Profile


def whole(rows: DataFrame, layout: Layout, profile: Profile, truncated_at: str | None) -> DataFrame:
    """The replica that all changes of a table lead to, from nothing."""
    found = newest(rows, layout, profile, truncated_at)
    return typed_rows(found.where("is_put"), layout).drop("is_put")


def newest(rows: DataFrame, layout: Layout, profile: Profile, truncated_at: str | None) -> DataFrame:
    """The newest state of each key that the rows touch, after the newest truncate."""
    keys = key_names(len(layout.keys))
    found = effects(rows, layout.key_columns)
    if truncated_at is not None:
        found = found.where(F.col("sequence") >= truncated_at)
    return latest(found, keys, has_moves=profile.has_moves, has_partials=profile.has_partials)


def typed_rows(found: DataFrame, layout: Layout, *flags: str) -> DataFrame:
    """Newest states as rows for a merge or a rewrite: keys, cells, flags and our own columns."""
    present = [
        (F.coalesce(F.map_contains_key("after", F.lit(c.name)), F.lit(False)) | F.col("is_whole")).alias(f"p{i}")
        for i, c in enumerate(layout.columns)
    ]
    own = {
        "_cdc_sequence": F.col("sequence"),
        "_cdc_event_time": F.col("event_time"),
        "_cdc_change_id": F.col("change_id"),
        "_cdc_deleted": F.lit(False),
    }
    return found.select(
        *key_names(len(layout.keys)),
        "is_put",
        *flags,
        *layout.cells(),
        *(present if "is_forced" in flags else []),
        *(own[name].alias(name) for name in layout.own),
    )


def merge_rows(mine: DataFrame, path: str, layout: Layout, rules: Rules) -> None:
    """Merge newest states (with `is_forced`) into the replica."""
    merge_latest(typed_rows(mine, layout, "is_forced"), path, layout, rules)


def rewrite(rows: DataFrame, path: str, layout: Layout, profile: Profile, truncated_at: str | None) -> None:
    """Rebuild the replica from all its changes, in one commit."""
    replace_table(whole(rows, layout, profile, truncated_at), path, layout)
