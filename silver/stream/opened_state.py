"""The state of a command that writes to silver: what is gone is restored, what a crash has left is done."""

from __future__ import annotations

from pyspark.sql import SparkSession

from framework.config.model import Config
from framework.contracts.table_names import CHANGES_TABLE, ENCODINGS_TABLE, PENDING_TABLE, QUARANTINE_TABLE
from framework.contracts.table_schemas import CHANGES, QUARANTINE
from framework.lakehouse.inventory import Inventory
from framework.lakehouse.lakehouse import Lakehouse
from silver.batches.landings import is_of_earlier_release, upgrade_table
from silver.batches.run_state import RunState
from silver.changes.readings import noted_readings
from silver.changes.source_plans import source_plans
from silver.epochs.history import History
from silver.formats import FORMATS
from silver.stream.checkpoint import copy_refused, counted_from, noted_checkpoint
from silver.stream.known_progress import lacks_changes, older_copy, older_derived
from silver.stream.lost_logs import restore_logs, restore_repairs
from silver.stream.lost_tables import (
    begin_restoring,
    complete_epochs,
    lost_derived,
    read_noted_tables,
    restore_derived,
    restore_epochs,
)
from silver.stream.recovery import finish_interrupted


def open_state(
    spark: SparkSession,
    lake: Lakehouse,
    config: Config,
    noted: Inventory | None = None,
    history: History | None = None,
) -> tuple[RunState, tuple[str, ...]]:
    """The state of the run, and notes on tables that were gone, or older copies, and are restored.

    `history` has the rows of `ops/epochs` where they are known.
    """
    readings = noted_readings(config.tables, None if noted is None else noted.facts)
    plans = source_plans(config, FORMATS, readings.former())
    state = RunState(lake, config, plans, history=history, counted_from=counted_from(spark, lake))
    state.readings = readings
    lost, older = lost_derived(spark, lake, noted), older_derived(spark, lake)
    older, older_logs = older - {ENCODINGS_TABLE}, older & {ENCODINGS_TABLE}
    repairs = restore_repairs(spark, lake, noted)
    begin_restoring(spark, lake, lost | older)
    lake.create(spark, PENDING_TABLE, CHANGES)
    lake.create(spark, QUARANTINE_TABLE, QUARANTINE)
    for name in (PENDING_TABLE, QUARANTINE_TABLE):
        if is_of_earlier_release(spark, lake, name):
            upgrade_table(spark, lake, config, name)
    derived = restore_derived(spark, state, lost, older)
    logs = restore_logs(spark, state, noted, older_logs)
    restored = (*derived, *repairs, *logs)
    finish_interrupted(spark, state)
    return state, restored


def open_repair(spark: SparkSession, lake: Lakehouse, config: Config) -> tuple[RunState, tuple[str, ...]]:
    """The state of a command that reads no new messages, and notes on tables that have been restored."""
    noted = read_noted_tables(spark, lake)
    begun = restore_epochs(spark, lake, noted, config.sources)
    history, completed = complete_epochs(spark, lake, noted)
    state, restored = open_state(spark, lake, config, noted, history)
    return state, (*begun, *completed, *restored)


def noted_older_copy(spark: SparkSession, lake: Lakehouse) -> str | None:
    """Which of bronze, the changes and the schemas was put back from an older copy; None if none."""
    checkpoint = noted_checkpoint(spark, lake)
    older = None if checkpoint is None else older_copy(spark, lake, checkpoint)
    if older is None and (checkpoint is None or checkpoint.is_new) and lacks_changes(spark, lake):
        return CHANGES_TABLE  # the run that begins the checkpoint completes it, but no repair
    return older


def check_copies(spark: SparkSession, lake: Lakehouse) -> None:
    """Refuse to repair tables that were put back from an older copy, as a run refuses to go on with them.

    Raises:
        MainstemError: OLDER_COPY.
    """
    older = noted_older_copy(spark, lake)
    if older is not None:
        raise copy_refused(spark, lake, older)
