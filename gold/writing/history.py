"""The history (SCD2): one row for each version of a key, with the time from and until which it was valid.

`_cdc_valid_from` is the running maximum of event time in the order of the source, so that no interval ends
before it starts. A change without an event time has the one before it. A delete, a truncate and leaving a
key close the version before. A row of a snapshot that is newer than the change behind it neither moves the
start of that change nor, where it has no position, is a version (`gold/changes/snapshot_times.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from framework.config.tables import Deletes
from framework.lakehouse.lakehouse import read_table
from framework.naming import quoted
from framework.spark.local_frame import local_frame
from gold.changes.effects import ORDER, by_key, effects, key_names
from gold.changes.folded_images import fold_images
from gold.changes.latest import drop_superseded_leaves
from gold.changes.profile import Profile
from gold.changes.snapshot_times import with_counted_times
from gold.planning.plan import Plan
from gold.schema.casting import typed
from gold.schema.layout import Layout
from gold.writing.cells import with_cells
from gold.writing.merge import merge_versions, replace_table
from gold.writing.merge_rows import computed_once


def versions(
    rows: DataFrame,
    layout: Layout,
    profile: Profile,
    truncates: Sequence[tuple[str, object]] | None,
    track: Sequence[str] | None,
) -> DataFrame:
    """All versions of the keys that the rows touch.

    Args:
        rows: Row changes, with current column names.
        layout: The history's columns.
        profile: The table's profile.
        truncates: The positions and event times of truncates; None where deletes and truncates have no
            effect.
        track: The columns whose changes make a new version; None for all.

    Returns:
        k0…, c0… and the system columns of a history.
    """
    all_effects = ordered_effects(rows, layout, profile, truncates)
    if track:
        all_effects = _drop_untracked(all_effects, layout, track)
    return version_rows(with_validity(all_effects, layout), layout)


def ordered_effects(
    rows: DataFrame, layout: Layout, profile: Profile, truncates: Sequence[tuple[str, object]] | None
) -> DataFrame:
    """The effects that begin or end versions, with complete images and `counted_time`.

    Arguments are as `versions` has them.
    """
    keys = key_names(len(layout.keys))
    all_effects = effects(rows, layout.key_columns)
    carried = [
        "sequence",
        "rank",
        "is_whole_change",
        "change_id",
        "event_time",
        "op",
        "is_upsert",
        "is_key_change",
        "partial",
        "transaction_id",
        "before",
        "after",
    ]
    all_effects = all_effects.select(*keys, *carried)
    if truncates:
        all_effects = all_effects.unionByName(_truncate_effects(all_effects, keys, truncates))
    # where deletes have no effect, a row that left its key at the position of a delete has left
    leaves = [F.desc(~F.col("is_upsert") & F.col("is_key_change"))] if truncates is None else []
    once = Window.partitionBy(*keys, "sequence", "is_upsert").orderBy(*leaves, *map(F.desc, ORDER))
    is_version, counts = F.row_number().over(once) == 1, F.col("_is_version")
    if profile.has_partials:  # another change at its position says what the newest one there leaves out
        counts = counts | (F.col("is_upsert") & (F.col("_newer") != F.col("change_id")))
    placed = all_effects.withColumns({"_is_version": is_version, "_newer": F.lag("change_id").over(once)})
    all_effects = placed.where(counts).drop("_newer")
    if profile.has_key_changes:
        all_effects = drop_superseded_leaves(all_effects, keys)
    if truncates is None:
        all_effects = all_effects.where("is_upsert OR is_key_change")
    folded = fold_images(all_effects, keys) if profile.has_partials else all_effects
    return with_counted_times(folded.where("_is_version").drop("_is_version"), keys)


def versions_of(rows: DataFrame, plan: Plan) -> DataFrame:
    """The versions of the keys that the rows touch, under the table's settings.

    Args:
        rows: Row changes, complete, with current column names.
        plan: The plan of the table.

    Returns:
        As `versions` returns them.
    """
    return versions(rows, plan.history_layout, plan.profile, _truncate_times(plan), plan.track)


def _truncate_times(plan: Plan) -> list[tuple[str, Any]] | None:
    """The positions and event times of truncates; None where the history keeps what is deleted."""
    if plan.task.settings.deletes is Deletes.IGNORE:
        return None
    times = plan.task.truncate_times
    return [
        (sequence, times[sequence][0] if sequence in times else None)
        for sequence, _ in plan.task.lineage.truncates
    ]


def _truncate_effects(
    all_effects: DataFrame, keys: Sequence[str], truncates: Sequence[tuple[str, object]]
) -> DataFrame:
    """One effect for each truncate and each key that has effects before it.

    A key needs no truncate after the first one that follows its last effect: later ones end no version. One
    join serves all truncates: a plan for each would contain all plans before it, twice.
    """
    ordered = sorted(dict(truncates).items())
    spans_of_truncates = [
        (sequence, before, moment)
        for (sequence, moment), before in zip(ordered, ["", *(s for s, _ in ordered)], strict=False)
    ]
    schema = "sequence string, previous string, event_time timestamp"
    emptying = F.broadcast(local_frame(all_effects.sparkSession, cast(Any, spans_of_truncates), schema))
    spans = all_effects.groupBy(*keys).agg(
        F.min("sequence").alias("_first"), F.max("sequence").alias("_last")
    )
    is_between = (F.col("sequence") > F.col("_first")) & (F.col("previous") <= F.col("_last"))
    values = {
        "rank": F.lit(3),
        "is_whole_change": F.lit(True),
        "change_id": F.lit(""),
        "op": F.lit("truncate"),
        "is_upsert": F.lit(False),
        "is_key_change": F.lit(False),
        "partial": F.lit(False),
    }
    blank = {field.name: F.lit(None).cast(field.dataType) for field in all_effects.schema.fields}
    mine = {*keys, "sequence", "event_time"}
    columns = [
        F.col(name) if name in mine else values.get(name, blank[name]).alias(name)
        for name in all_effects.columns
    ]
    return spans.join(emptying, is_between).select(*columns)


def with_validity(all_effects: DataFrame, layout: Layout, begins: Column | None = None) -> DataFrame:
    """Adds `_cdc_valid_from`, `_cdc_valid_to` and `_cdc_is_current`.

    Args:
        all_effects: What `ordered_effects` returns.
        layout: The history's columns.
        begins: The newest counted time of the effects on the key before these; None where there are none.
    """
    window = by_key(key_names(len(layout.keys)))
    running = F.max("counted_time").over(window.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    timed = all_effects.withColumn(
        "_cdc_valid_from", running if begins is None else F.greatest(running, begins)
    )
    timed = timed.withColumn("_cdc_valid_to", F.lead("_cdc_valid_from").over(window))
    return timed.withColumn("_cdc_is_current", F.lead("rank").over(window).isNull())


def version_rows(timed: DataFrame, layout: Layout) -> DataFrame:
    """The versions among effects with their validity, as `versions` returns them."""
    keys = key_names(len(layout.keys))
    sources = {
        "_cdc_sequence": "sequence",
        "_cdc_event_time": "event_time",
        "_cdc_change_id": "change_id",
        "_cdc_op": "op",
    }
    with_values = with_cells(
        timed.where("is_upsert").select(
            *keys, "after", *{sources.get(name, name): None for name in layout.system}
        ),
        layout,
    )
    return with_values.select(
        *keys, *layout.cells, *(F.col(sources.get(name, name)).alias(name) for name in layout.system)
    )


def _drop_untracked(all_effects: DataFrame, layout: Layout, track: Sequence[str]) -> DataFrame:
    """Drops changes after which the row has the same values in these columns as before.

    Texts are compared where a value does not fit its column, and in columns that the layout does not have.
    The first change of a key and one after a delete have nothing to be compared with: they stay.
    """
    kinds = {column.name: column.type for column in layout.columns}
    cells = F.struct(*(_watched(name, kinds.get(name)).alias(f"w{i}") for i, name in enumerate(track)))
    marked = all_effects.withColumn("_watched", F.when(F.col("is_upsert"), cells))
    was = F.lag("_watched").over(by_key(key_names(len(layout.keys))))
    is_same = F.coalesce(was == F.col("_watched"), F.lit(False))
    return marked.withColumn("_same", is_same).where("NOT _same").drop("_watched", "_same")


def _watched(name: str, kind: str | None) -> Column:
    """What is compared of a column: a struct, which equals another one where both have nulls."""
    text = F.try_element_at("after", F.lit(name))
    if kind is None:
        return F.struct(text)
    value = typed(text, kind)
    return F.struct(value, F.when(value.isNull(), text))


def rewrite(frame: DataFrame, path: str, layout: Layout) -> None:
    """Rebuilds the history from all versions, in one commit."""
    replace_table(frame, path, layout)


def merge_keys(frame: DataFrame, touched: DataFrame, path: str, layout: Layout, *, are_few: bool) -> None:
    """Makes the versions of the touched keys equal to `frame`; deletes versions that it lacks.

    `are_few`: the keys fit into memory.
    """

    def merge(there: DataFrame, _: bool) -> None:
        stale = stale_versions(there, touched, read_table(frame.sparkSession, path), layout, are_few=are_few)
        rows = marked(there).unionByName(marked(stale, is_stale=True), allowMissingColumns=True)
        computed_once(rows, lambda kept, _: merge_versions(kept, path, layout))

    computed_once(frame, merge)


def marked(rows: DataFrame, *, is_stale: bool = False, is_ended: bool = False) -> DataFrame:
    """Adds what `merge_versions` does with the rows."""
    return rows.withColumns({"is_stale": F.lit(is_stale), "is_ended": F.lit(is_ended)})


def stale_versions(
    frame: DataFrame, touched: DataFrame, stored: DataFrame, layout: Layout, *, are_few: bool
) -> DataFrame:
    """The stored versions (k0… and `_cdc_sequence`) of the touched keys that `frame` lacks."""
    names, keys = layout.gold_names, key_names(len(layout.keys))
    have = stored.select(
        *(F.col(quoted(names[k])).alias(f"k{i}") for i, k in enumerate(layout.keys)), "_cdc_sequence"
    )
    same = F.lit(True)
    for name in keys:
        same = same & have[name].eqNullSafe(touched[name])
    have = have.join(F.broadcast(touched) if are_few else touched, same, "left_semi")
    wanted = frame.select(*keys, "_cdc_sequence").alias("f")
    match = have["_cdc_sequence"] == F.col("f._cdc_sequence")
    for name in keys:
        match = match & have[name].eqNullSafe(F.col(f"f.{name}"))
    return have.join(wanted, match, "left_anti")
