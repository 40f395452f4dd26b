"""Rows that silver keeps without their images, decoded again.

They are excluded, in quarantine, or repeat forgotten changes.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from framework.contracts.ddl_actions import TableName
from framework.contracts.erasure import FORGOTTEN
from framework.contracts.table_names import CHANGES_TABLE, MESSAGES_TABLE
from framework.contracts.table_schemas import CHANGES, MESSAGE_AT, MESSAGE_ID
from framework.pipeline.layer import Run
from framework.spark.local_frame import local_frame
from silver.batches.decoding import decode
from silver.batches.landings import (
    HOLDS_COORDINATES,
    before_halves_of,
    identify_all,
    outcomes_in_epochs,
)
from silver.batches.run_state import RunState
from silver.changes.source_plans import source_plans
from silver.changes.staged_rows import OF_FIRST_LANDING
from silver.formats import FORMATS
from silver.operations.redecode import rows_of_tables

_ROW_AT = (*MESSAGE_ID, "ordinal")


def kept_out_rows(run: Run, source: str, tables: Collection[TableName]) -> DataFrame:
    """The rows of these tables that are excluded or refused, with the images that their messages have.

    So are the repeats of forgotten changes, which may land after `forget`: excluded ones, and halves that are
    duplicates. A message that cannot be decoded has no images here either.
    """
    state = RunState(run.lake, run.config, source_plans(run.config, FORMATS))
    plan = state.plans[source]
    state.plans = {**state.plans, source: replace(plan, is_excluded=_is_never_excluded)}
    known = state.source_epochs(run.spark)
    stored = run.lake.rows(run.spark, CHANGES_TABLE, CHANGES).where(F.col("source") == source)
    outcomes = outcomes_in_epochs(stored.withColumn("stored_epoch", F.col("epoch")), known)
    decided = outcomes.where("kind NOT IN ('quarantined', 'half', 'excluded')").where(OF_FIRST_LANDING)
    of_tables = rows_of_tables(outcomes, source, dict.fromkeys(tables, ""))
    kept_out = of_tables.where("kind IN ('quarantined', 'excluded') AND before IS NULL AND after IS NULL")
    kept_out = kept_out.join(decided.select(*_ROW_AT), list(_ROW_AT), "left_anti")
    forgotten = outcomes.where(F.col("reason").eqNullSafe(FORGOTTEN)).select("change_id").distinct()
    repeats = of_tables.where("kind = 'duplicate'").where(OF_FIRST_LANDING)
    mine = kept_out.unionByName(repeats.join(forgotten, "change_id", "left_semi").select(*kept_out.columns))
    if mine.isEmpty():
        return local_frame(run.spark, [], CHANGES)
    places = mine.select(*MESSAGE_ID).unionByName(before_halves_of(mine).select(*MESSAGE_ID)).distinct()
    landed = run.lake.read(run.spark, MESSAGES_TABLE).join(
        places.select(*MESSAGE_AT).distinct(), list(MESSAGE_AT), "left_semi"
    )
    messages = identify_all(landed, run.lake, known).where(HOLDS_COORDINATES)
    messages = messages.where("key IS NOT NULL OR value IS NOT NULL")  # `forget` leaves neither
    staged = decode(messages.join(places, list(MESSAGE_ID), "left_semi"), state)
    images = staged.select(
        *_ROW_AT,
        *(F.col(name).alias(f"its_{name}") for name in ("before", "after", "partial", "paired_with")),
    )
    shown = {
        "before": F.col("its_before"),
        "after": F.col("its_after"),
        "partial": F.col("its_partial"),
        "paired_with": F.coalesce("paired_with", "its_paired_with"),
        "epoch": F.col("stored_epoch"),
    }
    return mine.join(images, list(_ROW_AT)).select(
        *(shown[name].alias(name) if name in shown else F.col(f"`{name}`") for name in CHANGES.names)
    )


def _is_never_excluded(database: str | None, schema: str | None, table: str) -> bool:
    return False
