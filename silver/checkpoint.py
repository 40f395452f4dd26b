"""What is kept beside the stream's checkpoint, so that its loss is noticed and no message gets a second fate."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from framework.errors import MainstemError
from framework.notes import is_local, is_there, read_note, write_note
from framework.stream_files import check_files
from framework.tables import Lakehouse, sql_name
from silver import derived
from silver.desk import STRIDE
from silver.epochs import EPOCHS_TABLE

_NUMBERED = (derived.CHANGES_TABLE, derived.COUNTS_TABLE, derived.STATEMENTS_TABLE, EPOCHS_TABLE, "ops/tables")


MESSAGES_TABLE = "bronze/messages"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The stream's checkpoint. Its batches count from 0, silver's from `first_batch` on.

    `is_reset` says that it began when silver had changes already: messages that have a fate are left out.
    """

    path: str
    first_batch: int
    is_reset: bool


def open_checkpoint(spark: SparkSession, lake: Lakehouse) -> Checkpoint:
    """The checkpoint to go on with, or a new one; raises MainstemError when it, or the table that it belongs to, is gone.

    A lost checkpoint is begun anew only when the file `<checkpoint>.reset` says so.
    """
    path = f"{lake.checkpoints}/silver"
    note = json.loads(read_note(spark, f"{path}.generation") or "{}")
    check_files(path, f"the stream over {MESSAGES_TABLE}")
    has_begun, has_changes = _has_begun(spark, path), lake.exists(spark, derived.CHANGES_TABLE)
    if has_begun and note:
        if not has_changes and _has_finished(path) and lake.exists(spark, derived.COUNTS_TABLE):
            raise _gone(lake, path)
        return Checkpoint(path, note["first_batch"], note["is_reset"])
    if has_changes and not is_there(spark, f"{path}.reset"):
        raise _lost(path)
    first = _next_batch(spark, lake)
    counted = note.get("counted_from", 0) if has_changes else first
    if is_local(path):
        shutil.rmtree(path, ignore_errors=True)
    if not has_changes:
        _forget_derived(spark, lake)
    begun_at = lake.version(spark, MESSAGES_TABLE)
    note = {"first_batch": first, "is_reset": has_changes, "counted_from": counted, "begun_at": -1 if begun_at is None else begun_at}
    write_note(spark, f"{path}.generation", json.dumps(note))
    if is_local(path):
        Path(f"{path}.reset").unlink(missing_ok=True)
    return Checkpoint(path, first, has_changes)


def counted_from(spark: SparkSession, lake: Lakehouse) -> int:
    """The first batch that `silver/changes` holds; of those before it, which were lost with the table, only the counts are left."""
    note = json.loads(read_note(spark, f"{lake.checkpoints}/silver.generation") or "{}")
    return int(note.get("counted_from", 0)) * STRIDE


def _forget_derived(spark: SparkSession, lake: Lakehouse) -> None:
    """Empty what follows from changes that are gone."""
    for name in (derived.PENDING_TABLE, derived.QUARANTINE_TABLE):
        if lake.exists(spark, name):
            spark.sql(f"DELETE FROM {sql_name(lake.place(name))}")  # noqa: S608 - a name of ours


def _has_begun(spark: SparkSession, path: str) -> bool:
    if is_local(path):
        offsets = os.path.join(path, "offsets")
        return os.path.isdir(offsets) and any(n.isdigit() for n in os.listdir(offsets))
    return is_there(spark, f"{path}/offsets")


def _has_finished(path: str) -> bool:
    commits = os.path.join(path, "commits")
    return not is_local(path) or (os.path.isdir(commits) and any(name.isdigit() for name in os.listdir(commits)))


def _next_batch(spark: SparkSession, lake: Lakehouse) -> int:
    """One that no table has seen: what gold has applied, and what was counted, stays when changes are lost."""
    tops = [lake.read(spark, name).agg(F.max("batch")).first() for name in _NUMBERED if lake.exists(spark, name)]
    return max((int(row[0]) // STRIDE + 1 for row in tops if row is not None and row[0] is not None), default=0)


def _lost(path: str) -> MainstemError:
    return MainstemError(
        "CHECKPOINT_LOST",
        found=f"{derived.CHANGES_TABLE} has changes, but the checkpoint of its stream is gone or damaged",
        where=path,
        action=f"put it back from a backup; or create the empty file {path}.reset and run again: messages that have a fate are left out",
    )


def _gone(lake: Lakehouse, path: str) -> MainstemError:
    return MainstemError(
        "SILVER_REPLACED",
        found=f"the checkpoint has read messages into {derived.CHANGES_TABLE}, which is gone",
        where=lake.place(derived.CHANGES_TABLE),
        action=f"restore the table; or delete {path} to read all of bronze again",
    )
