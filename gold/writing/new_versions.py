"""The history, brought up to date from the new changes and the stored versions alone.

A round then reads what is new and the history, however many changes the table has had. Silver's past is read
only where it may tell more than the stored versions do (`gold.writing.history`).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from framework.config.tables import Deletes
from framework.contracts.events import Op
from framework.lakehouse.lakehouse import read_table
from framework.lakehouse.table_reader import in_utc
from framework.naming import quoted
from framework.text.times import micros_of
from gold.changes.effects import ORDER, effects, key_names
from gold.planning.plan import Plan
from gold.schema.layout import Layout
from gold.writing.history import marked, ordered_effects, stale_versions, version_rows, with_validity
from gold.writing.late_changes import is_late
from gold.writing.merge import merge_versions
from gold.writing.merge_rows import computed_once

_STORED = (
    "_cdc_sequence",
    "_cdc_change_id",
    "_cdc_op",
    "_cdc_valid_from",
    "_cdc_valid_to",
    "_cdc_is_current",
)


def can_continue(plan: Plan) -> bool:
    """Whether the new changes add to a history without changing what earlier changes mean.

    They come after all applied ones, have whole images, and keep the keys of their rows. Where only some
    columns are tracked, the texts of earlier changes decide what is a version.
    """
    applied, new = plan.task.state.sequence, plan.batch_profile
    return not (
        applied is None
        or is_late(plan)
        or new.has_partials
        or new.has_key_changes
        or plan.track is not None
        or plan.has_new_former_keys
        or any(sequence > applied for sequence, _ in plan.task.lineage.truncates)
    )


def merge_new_versions(new: DataFrame, plan: Plan, path: str, *, are_few: bool) -> bool:
    """Adds the versions of the new changes, and ends the ones before them.

    Versions of the new changes that an unfinished run has added are there already: they become what the
    changes say now.

    Args:
        new: The new changes, with current column names; `can_continue` is true of their plan.
        plan: The plan.
        path: The history.
        are_few: The keys fit into memory.

    Returns:
        False where the stored versions do not tell all that counts; then nothing is written.
    """
    stored = read_table(new.sparkSession, path)

    def merge(there: DataFrame, _: bool) -> bool:
        if not there.where("NOT is_certain").isEmpty():
            return False
        rows = changed_versions(there, new, stored, plan, are_few=are_few)
        computed_once(rows, lambda kept, _: merge_versions(kept, path, plan.history_layout))
        return True

    return computed_once(new_effects(new, stored, plan, are_few=are_few), merge)


def new_effects(new: DataFrame, stored: DataFrame, plan: Plan, *, are_few: bool) -> DataFrame:
    """The effects of the new changes with their validity.

    Args:
        new: The new changes, with current column names.
        stored: The history.
        plan: The plan.
        are_few: The keys fit into memory.

    Returns:
        What `with_validity` returns, with `before`, the newest applied version of the key, `is_first`, and
        `is_certain`: the stored versions tell all that counts for the effect.
    """
    layout, keys = plan.history_layout, key_names(len(plan.layout.keys))
    applied = stored.where(F.col("_cdc_sequence") <= F.lit(plan.task.state.sequence))
    before = _newest_versions(applied, _touched(new, plan), layout, are_few)
    truncates = None if plan.task.settings.deletes is Deletes.IGNORE else ()
    found = ordered_effects(new, layout, replace(plan.profile, has_partials=False), truncates)
    found = found.drop("before").join(F.broadcast(before) if are_few else before, _same(layout), "left")
    begins = F.when(F.col("before._cdc_is_current"), F.col("before._cdc_valid_from"))
    timed = with_validity(found, layout, begins)
    place = F.row_number().over(Window.partitionBy(*keys).orderBy(*ORDER))
    return timed.withColumns({"is_first": place == 1, "is_certain": _is_certain(_newest_time(plan))})


def changed_versions(
    timed: DataFrame, new: DataFrame, stored: DataFrame, plan: Plan, *, are_few: bool
) -> DataFrame:
    """The versions to write, for `merge_versions`.

    Args:
        timed: What `new_effects` returns for the other arguments.
        new: The new changes, with current column names.
        stored: The history.
        plan: The plan.
        are_few: The keys fit into memory.
    """
    layout, keys = plan.history_layout, key_names(len(plan.layout.keys))
    added = version_rows(timed, layout)
    ended = timed.where("is_first AND before._cdc_is_current").select(
        *keys,
        F.col("before._cdc_sequence").alias("_cdc_sequence"),
        F.col("_cdc_valid_from").alias("_cdc_valid_to"),
        F.lit(False).alias("_cdc_is_current"),
    )
    unpublished = stored.where(F.col("_cdc_sequence") > F.lit(plan.task.state.sequence))
    stale = stale_versions(added, _touched(new, plan), unpublished, layout, are_few=are_few)
    rows = marked(added).unionByName(marked(ended, is_ended=True), allowMissingColumns=True)
    return rows.unionByName(marked(stale, is_stale=True), allowMissingColumns=True)


def _touched(new: DataFrame, plan: Plan) -> DataFrame:
    keys = key_names(len(plan.layout.keys))
    return effects(new, plan.layout.key_columns).select(*keys).distinct()


def _newest_versions(stored: DataFrame, touched: DataFrame, layout: Layout, are_few: bool) -> DataFrame:
    """The newest of these versions of each touched key: _k0… and `before`."""
    names = layout.gold_names
    keys = [F.col(quoted(names[key])).alias(f"_k{i}") for i, key in enumerate(layout.keys)]
    have = stored.select(*keys, F.struct(*_STORED).alias("_version"))
    have = have.join(F.broadcast(touched) if are_few else touched, _same(layout), "left_semi")
    newest = F.max_by("_version", F.col("_version._cdc_sequence"))
    return have.groupBy(*(f"_k{i}" for i in range(len(keys)))).agg(newest.alias("before"))


def _same(layout: Layout) -> Column:
    same = F.lit(True)
    for i in range(len(layout.keys)):
        same = same & F.col(f"_k{i}").eqNullSafe(F.col(f"k{i}"))
    return same


def _is_certain(newest: Column | None) -> Column:
    """Whether the stored versions of the key tell all that earlier changes have to do with an effect.

    A current version is of the last change of its key. Without one there may be a delete or a truncate with
    a newer time, which no version shows; and an unfinished run may have ended the last version. Neither
    counts where the new changes are newer than all applied ones. A version of a snapshot's row is another one
    or none where an older change follows it.

    Args:
        newest: The newest event time of all applied changes; None where none has one.
    """
    before = F.col("before")
    is_new, is_ended = F.lit(True), F.lit(False)
    if newest is not None:
        is_new = F.col("_cdc_valid_from") >= newest
        is_ended = (F.col("event_time") > newest) & (before["_cdc_valid_to"] <= newest)
    is_other = before["_cdc_change_id"] != F.col("change_id")  # an update may complete its half
    is_read = before["_cdc_op"] == str(Op.READ)
    is_timely = ~F.coalesce(is_read & (F.col("event_time") < before["_cdc_valid_from"]), F.lit(False))
    is_last = before["_cdc_is_current"] | is_ended
    is_certain = F.when(before.isNull(), is_new).otherwise(is_other & is_timely & is_last)
    return F.coalesce(is_certain, F.lit(False))


def _newest_time(plan: Plan) -> Column | None:
    """The newest event time of all changes and truncates that the table has applied."""
    times = [plan.task.state.profile.event_time]
    times += [moment for moment, _ in plan.task.truncate_times.values()]
    known = [moment.replace(tzinfo=UTC) for moment in map(in_utc, times) if moment is not None]
    return F.timestamp_micros(F.lit(micros_of(max(known)))) if known else None
