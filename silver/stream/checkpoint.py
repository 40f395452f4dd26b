"""Notes beside the stream's checkpoint, so that its loss is noticed and no message is decoded twice."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Collection
from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from framework.contracts.batch_ids import BATCH_ID_STEP
from framework.contracts.table_names import (
    BATCHES_TABLE,
    CHANGES_TABLE,
    ENCODINGS_TABLE,
    EPOCHS_TABLE,
    MESSAGES_TABLE,
    PENDING_TABLE,
    QUARANTINE_TABLE,
    SCHEMAS_TABLE,
    STATEMENTS_TABLE,
    TABLES_TABLE,
)
from framework.errors import MainstemError
from framework.lakehouse.checkpoint_files import check_files
from framework.lakehouse.lakehouse import Lakehouse, sql_name
from framework.lakehouse.newest_tables import newest_tables
from framework.lakehouse.small_files import is_local, is_there, read_note, remove, write_note
from framework.pipeline.generation import first_counted
from silver.epochs.history import read_history

_NUMBERED = (
    CHANGES_TABLE,
    BATCHES_TABLE,
    STATEMENTS_TABLE,
    EPOCHS_TABLE,
    ENCODINGS_TABLE,
    TABLES_TABLE,
)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The stream's checkpoint. Its batches count from 0, those of silver from `first_batch`.

    `is_reset` says that silver had changes when the checkpoint began: messages with an outcome are left out.
    `is_new` says that its stream has not started a batch. `began` is when it began, in microseconds; None
    where a release has begun it that did not note that.
    """

    path: str
    first_batch: int
    is_reset: bool
    is_new: bool = False
    began: int | None = None


def open_checkpoint(spark: SparkSession, lake: Lakehouse, noted: Collection[str] = ()) -> Checkpoint:
    """The checkpoint of the stream, or a new one.

    A lost checkpoint begins again only if the file `<checkpoint>.reset` says so. `noted` are the tables that
    the last run has left.

    Raises:
        MainstemError: The checkpoint, or the table that it belongs to, is gone.
    """
    path = f"{lake.checkpoints}/silver"
    note = json.loads(read_note(spark, f"{path}.generation") or "{}")
    check_files(path, f"the stream over {MESSAGES_TABLE}")
    has_begun, has_changes = _has_begun(spark, path), lake.exists(spark, CHANGES_TABLE)
    if has_begun and note:
        if not has_changes and (CHANGES_TABLE in noted or _has_finished(spark, path)):
            raise _gone(lake, path)
        end_reset(spark, lake)
        return Checkpoint(path, note["first_batch"], note["is_reset"], began=note.get("began"))
    if has_changes and not is_there(spark, f"{path}.reset"):
        raise _lost(path)
    first = _next_batch(spark, lake)
    counted = first
    if has_changes:
        counted = note["counted_from"] if "counted_from" in note else _first_batch(spark, lake)
    if is_local(path):
        shutil.rmtree(path, ignore_errors=True)
    if not has_changes:
        _forget_derived(spark, lake)
    begun_at = lake.version(spark, MESSAGES_TABLE)
    began = time.time_ns() // 1_000
    note = {
        "first_batch": first,
        "began": began,
        "is_reset": has_changes,
        "counted_from": counted,
        "begun_at": -1 if begun_at is None else begun_at,
    }
    write_note(spark, f"{path}.generation", json.dumps(note))
    return Checkpoint(path, first, has_changes, is_new=True, began=began)


def noted_checkpoint(spark: SparkSession, lake: Lakehouse) -> Checkpoint | None:
    """The checkpoint of the last run as its note has it; None where no run has noted one."""
    path = f"{lake.checkpoints}/silver"
    note = json.loads(read_note(spark, f"{path}.generation") or "{}")
    if not note:
        return None
    is_new, began = not _has_begun(spark, path), note.get("began")
    return Checkpoint(path, note["first_batch"], note["is_reset"], is_new=is_new, began=began)


def end_reset(spark: SparkSession, lake: Lakehouse) -> None:
    """Remove the file that allows a lost checkpoint to begin again, once it has.

    A run that ends before its stream has started a batch leaves the file to the next run.
    """
    path = f"{lake.checkpoints}/silver"
    if _has_begun(spark, path):
        remove(spark, f"{path}.reset")


def counted_from(spark: SparkSession, lake: Lakehouse) -> int:
    """The first batch that `silver/changes` holds.

    Of earlier batches, lost with the table, only the counts remain.
    """
    return first_counted(newest_tables(spark, lake), lake)


def has_checkpoint(spark: SparkSession, lake: Lakehouse) -> bool:
    """Whether the stream has a checkpoint that looks complete."""
    path = f"{lake.checkpoints}/silver"
    return bool(read_note(spark, f"{path}.generation")) and _has_begun(spark, path)


def _forget_derived(spark: SparkSession, lake: Lakehouse) -> None:
    """Empty the tables that follow from changes that are gone."""
    for name in (PENDING_TABLE, QUARANTINE_TABLE):
        if lake.exists(spark, name):
            spark.sql(f"DELETE FROM {sql_name(lake.location(name))}")  # noqa: S608 - a name of ours


def _has_begun(spark: SparkSession, path: str) -> bool:
    if is_local(path):
        offsets = os.path.join(path, "offsets")
        return os.path.isdir(offsets) and any(n.isdigit() for n in os.listdir(offsets))
    return is_there(spark, f"{path}/offsets")


def _has_finished(spark: SparkSession, path: str) -> bool:
    """Whether a batch has ended, and so created the table: the first is marked, or the second has begun."""
    commits, second = os.path.join(path, "commits"), os.path.join(path, "offsets", "1")
    if not is_local(path):
        return is_there(spark, commits)
    return os.path.exists(second) or (
        os.path.isdir(commits) and any(name.isdigit() for name in os.listdir(commits))
    )


def _first_batch(spark: SparkSession, lake: Lakehouse) -> int:
    """The first of the stream's batches in `silver/changes`, for a checkpoint whose note is gone."""
    row = lake.read(spark, CHANGES_TABLE).agg(F.min("batch")).first()
    return 0 if row is None or row[0] is None else int(row[0]) // BATCH_ID_STEP


def _next_batch(spark: SparkSession, lake: Lakehouse) -> int:
    """A number above all batches of all tables: gold's progress and counts remain when changes are lost."""
    tops = [
        lake.read(spark, name).agg(F.max("batch")).first() for name in _NUMBERED if lake.exists(spark, name)
    ]
    return max(
        (int(row[0]) // BATCH_ID_STEP + 1 for row in tops if row is not None and row[0] is not None),
        default=0,
    )


def _lost(path: str) -> MainstemError:
    return MainstemError(
        "CHECKPOINT_LOST",
        found=f"{CHANGES_TABLE} has changes, but the checkpoint of its stream is gone or damaged",
        where=path,
        action=f"put it back from a backup; or create the empty file {path}.reset and run again:"
        " messages that have an outcome are left out",
    )


def _gone(lake: Lakehouse, path: str) -> MainstemError:
    return MainstemError(
        "SILVER_REPLACED",
        found=f"the checkpoint has read messages into {CHANGES_TABLE}, which is gone",
        where=lake.location(CHANGES_TABLE),
        action=f"restore the newest state of the table; or delete {path} to read all of bronze again",
    )


def bronze_replaced(spark: SparkSession, lake: Lakehouse) -> MainstemError:
    """The error of a run whose messages are gone, or are those of another table than silver has read.

    Where an epoch begins at offsets that start again, messages that land again do not show their epoch.
    """
    return MainstemError(
        "BRONZE_REPLACED",
        found=f"{MESSAGES_TABLE} is gone, or is not the table that {CHANGES_TABLE} was read from",
        where=lake.location(MESSAGES_TABLE),
        action=_bronze_again(spark, lake),
    )


def copy_refused(spark: SparkSession, lake: Lakehouse, name: str) -> MainstemError:
    """The error of a run whose messages, changes or schemas were put back from a copy without the last runs.

    Counts of the changes that are gone would stay; they are derived again where their table is gone.
    """
    path = f"{lake.checkpoints}/silver"
    if name == MESSAGES_TABLE:
        action = _bronze_again(spark, lake)
    elif name == SCHEMAS_TABLE:
        action = (
            "put its newest state back; or, where bronze still has all messages, delete"
            f" {lake.location(CHANGES_TABLE)} and {path} and run again: all messages are read again"
        )
    else:
        action = (
            f"put its newest state back; or, where there is none, delete {path} and"
            f" {lake.location(BATCHES_TABLE)}, create the empty file {path}.reset and run again: messages"
            " without an outcome are decoded again"
        )
    return MainstemError(
        "OLDER_COPY",
        found=f"{name} is an older copy: it lacks what earlier runs have written to it since",
        where=lake.location(name),
        action=action,
    )


def _bronze_again(spark: SparkSession, lake: Lakehouse) -> str:
    path = f"{lake.checkpoints}/silver"
    again = read_history(spark, lake).sources_by_landing()
    if again:
        return (
            f"put the newest state of the table back from a backup: the offsets of {', '.join(again)} have"
            " started again, and only the times at which messages landed tell their epochs. Without a"
            f" backup delete all tables of the lakehouse and {lake.checkpoints}, and begin again"
        )
    return (
        f"restore the newest state of the table; or land its messages again, delete {path}, create the empty"
        f" file {path}.reset and run again: messages that have an outcome are left out"
    )
