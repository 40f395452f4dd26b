"""Dismissing messages in quarantine, and opening dismissed ones again: one commit to `silver/quarantine`."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from framework.contracts import dismissals
from framework.contracts.dismissals import Dismissal, DismissalRequest, DismissedGroup, Selection
from framework.contracts.table_names import QUARANTINE_TABLE
from framework.contracts.table_schemas import MESSAGE_ID, QUARANTINE
from framework.lakehouse.merge import Merge
from framework.pipeline.layer import Run
from silver.batches.landings import SAME_MESSAGE, is_of_earlier_release, upgrade_table
from silver.batches.run_state import RunState
from silver.changes.source_plans import source_plans
from silver.formats import FORMATS
from silver.stream.recovery import finish_interrupted

_GROUP = ("source", "topic", "partition", "reason")


def dismiss(run: Run, request: DismissalRequest) -> Dismissal:
    """Dismiss the selected messages, or open them again; a repeat changes nothing.

    A request that is not written only finds the messages.
    """
    if request.is_written:
        finish_interrupted(run.spark, RunState(run.lake, run.config, source_plans(run.config, FORMATS)))
    if not run.lake.exists(run.spark, QUARANTINE_TABLE):
        return Dismissal()
    if request.is_written and is_of_earlier_release(run.spark, run.lake, QUARANTINE_TABLE):
        upgrade_table(run.spark, run.lake, run.config, QUARANTINE_TABLE)
    rows = run.lake.rows(run.spark, QUARANTINE_TABLE, QUARANTINE).where(
        dismissals.IS_DISMISSED if request.is_undone else dismissals.IS_OPEN
    )
    selected = rows.where(_is_selected(request.selection))
    groups = _groups(selected)
    if not groups:
        return Dismissal(of=rows.count())
    if request.is_written:
        _write(run, selected, request)
    return Dismissal(groups, sum(group.messages for group in groups))


def _is_selected(selection: Selection) -> Column:
    given = {
        name: value
        for name in ("source", "reason", "topic", "partition")
        if (value := getattr(selection, name)) is not None
    }
    conditions = [F.col(f"`{name}`") == F.lit(value) for name, value in given.items()]
    if selection.offsets is not None:
        conditions.append(F.col("offset").between(*selection.offsets))
    return reduce(lambda a, b: a & b, conditions, F.lit(True))


def _groups(selected: DataFrame) -> tuple[DismissedGroup, ...]:
    counts = selected.groupBy(*_GROUP).agg(
        F.count("*").alias("messages"), F.min("offset").alias("first"), F.max("offset").alias("last")
    )
    rows = counts.orderBy(*(F.col(f"`{name}`").asc_nulls_first() for name in _GROUP)).collect()
    return tuple(DismissedGroup(*row) for row in rows)


def _write(run: Run, selected: DataFrame, request: DismissalRequest) -> None:
    """Write the three columns of the selected rows; who it is, Spark knows."""
    values = {"dismissed_at": "null", "dismissed_by": "null", "dismissed_because": "null"}
    if not request.is_undone:
        values = {
            "dismissed_at": "current_timestamp()",
            "dismissed_by": "current_user()",
            "dismissed_because": "s.because",
        }
    rows = selected.select(*MESSAGE_ID, "ordinal", F.lit(request.because).cast("string").alias("because"))
    at = f"{SAME_MESSAGE} AND t.ordinal <=> s.ordinal"
    Merge(run.lake.location(QUARANTINE_TABLE), rows, at).update(values).execute()
