"""Tables that are gone: those that follow from other tables are derived again before a run.

Others are reported. `ops/epochs` has a copy beside the checkpoints, and is restored from it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.config.model import Layout
from framework.config.sources import Source
from framework.contracts import seed
from framework.contracts.epochs import EpochRow, PartitionStart
from framework.contracts.erasure import ERASED, FORGOTTEN
from framework.contracts.table_names import (
    BATCHES_TABLE,
    CHANGES_TABLE,
    EPOCHS_TABLE,
    MESSAGES_TABLE,
    PENDING_TABLE,
    QUARANTINE_TABLE,
    REPAIRS_TABLE,
    SCHEMAS_TABLE,
    STATEMENTS_TABLE,
    TABLES_TABLE,
)
from framework.contracts.table_schemas import CHANGES, MESSAGE_AT, MESSAGES
from framework.errors import MainstemError
from framework.lakehouse.commits import newest_commits
from framework.lakehouse.inventory import Inventory, read_inventory, those_there, write_inventory
from framework.lakehouse.lakehouse import ALL_COMMITS, Lakehouse
from framework.lakehouse.small_files import is_there, write_note
from silver.batches import batch_counts
from silver.batches.run_state import RunState
from silver.epochs import history as epochs
from silver.stream import lost_logs, repair_log
from silver.stream.recovery import finish_repair
from silver.values.sequence import epoch_sql

_OF_CHANGES = (
    CHANGES_TABLE,
    SCHEMAS_TABLE,
    PENDING_TABLE,
    QUARANTINE_TABLE,
    BATCHES_TABLE,
    STATEMENTS_TABLE,
)
TABLES = (*_OF_CHANGES, EPOCHS_TABLE, *lost_logs.TABLES)
_LAYER = "silver"


def read_noted_tables(spark: SparkSession, lake: Lakehouse) -> Inventory | None:
    """The tables of silver that the last run has noted."""
    return read_inventory(spark, lake, _LAYER)


def note_tables(spark: SparkSession, state: RunState, noted: Inventory | None) -> None:
    """Note which tables exist, how columns were read, and a copy of `ops/epochs`.

    No other table says where each epoch begins, or by which settings rows were read.
    """
    rows = [asdict(row) for row in state.epoch_history(spark).rows]
    facts = {"epochs": rows, "readings": state.readings.facts()}
    now = Inventory(those_there(spark, state.lake, TABLES), facts)
    if now != noted:
        write_inventory(spark, state.lake, _LAYER, now)


def lost_tables(spark: SparkSession, lake: Lakehouse) -> frozenset[str]:
    """The tables of silver that an earlier run has left and that are gone."""
    noted = read_noted_tables(spark, lake)
    lost = (
        frozenset()
        if noted is None
        else frozenset(noted.tables) - set(those_there(spark, lake, noted.tables))
    )
    return lost | ({REPAIRS_TABLE} if repair_log.is_lost(spark, lake) else frozenset())


def restore_epochs(
    spark: SparkSession, lake: Lakehouse, noted: Inventory | None, sources: Mapping[str, Source]
) -> tuple[str, ...]:
    """Write `ops/epochs` again if it is gone: from its copy, or from the changes.

    Returns a note for people if it did.

    Raises:
        MainstemError: EPOCHS_LOST, if neither is there and a source is configured with a later epoch.
    """
    if lake.exists(spark, EPOCHS_TABLE):
        return ()
    origin = "its copy" if noted is not None else CHANGES_TABLE
    rows = _copied_epochs(noted)
    if noted is None:
        later = sorted(name for name, source in sources.items() if source.epoch > 1)
        if later and not lake.exists(spark, CHANGES_TABLE):
            _check_is_new(spark, lake, later)
        rows = [row for name in later for row in _epochs_in_changes(spark, lake, sources[name])]
    if rows:
        epochs.append_rows(spark, lake, rows)
    return (f"{EPOCHS_TABLE} was gone: it has been written again from {origin}",) if rows else ()


def complete_epochs(
    spark: SparkSession, lake: Lakehouse, noted: Inventory | None
) -> tuple[epochs.History | None, tuple[str, ...]]:
    """Add the rows that `ops/epochs` lacks of its copy: it was put back from an older one.

    Only where silver's tables are no older copies: with the checkpoints of the same time, an older one is
    right. Returns its rows where they are known by now, and a note for people if some were added.
    """
    copied = _copied_epochs(noted)
    if not copied or not lake.exists(spark, EPOCHS_TABLE):
        return None, ()
    history = epochs.read_history(spark, lake)
    known = set(history.rows)
    missing = [row for row in copied if row not in known]
    if not missing:
        return history, ()
    epochs.append_rows(spark, lake, missing)
    return None, (f"{EPOCHS_TABLE} was an older copy: what it lacked has been added from the newer one",)


def _copied_epochs(noted: Inventory | None) -> list[EpochRow]:
    return [] if noted is None else [EpochRow(**row) for row in noted.facts["epochs"]]


def restore_markers(spark: SparkSession, lake: Lakehouse, noted: Inventory | None) -> None:
    """Write the markers of forgotten and seeded rows again, if all notes of silver are gone."""
    if noted is not None or not those_there(spark, lake, (CHANGES_TABLE, BATCHES_TABLE, TABLES_TABLE)):
        return
    forgotten, seeded = f"{lake.checkpoints}/silver.forgotten", f"{lake.checkpoints}/{seed.NOTE}"
    if not is_there(spark, forgotten):
        emptied = lake.rows(spark, CHANGES_TABLE, CHANGES).where(F.col("reason") == FORGOTTEN)
        commits = lake.history(spark, MESSAGES_TABLE, ALL_COMMITS).where(
            F.col("userMetadata").contains(FORGOTTEN)
            | F.col("operationParameters")["properties"].contains(ERASED)
        )
        if not emptied.isEmpty() or not commits.isEmpty():
            write_note(spark, forgotten, json.dumps({"by": FORGOTTEN}))
    if (
        not is_there(spark, seeded)
        and not lake.read(spark, MESSAGES_TABLE).where(F.col("topic").startswith(seed.TOPIC)).isEmpty()
    ):
        write_note(spark, seeded, json.dumps({"by": seed.SEED}))


def lost_derived(spark: SparkSession, lake: Lakehouse, noted: Inventory | None) -> frozenset[str]:
    """The tables that follow from `silver/changes` and are gone.

    Raises:
        MainstemError: SCHEMAS_LOST, because schemas do not follow from changes.
    """
    there = those_there(spark, lake, TABLES)
    lost = frozenset(_OF_CHANGES).intersection(TABLES if noted is None else noted.tables) - {*there}
    if CHANGES_TABLE not in there or not lost:
        return frozenset()
    changes = lake.read(spark, CHANGES_TABLE)
    if SCHEMAS_TABLE in lost and not changes.where("schema_id IS NOT NULL").isEmpty():
        raise _schemas_lost(lake)
    if STATEMENTS_TABLE in lost and changes.where("kind IN ('ddl', 'truncate')").isEmpty():
        lost -= {STATEMENTS_TABLE}
    return lost - {SCHEMAS_TABLE}


def begin_restoring(spark: SparkSession, lake: Lakehouse, lost: frozenset[str]) -> None:
    """Record that these tables are about to be derived again, before one of them is there again, empty.

    If the run is killed, the next command derives them as after a repair.
    """
    for source in _sources(spark, lake) if lost else ():
        repair_log.begin(spark, lake, source, ())


def restore_derived(
    spark: SparkSession, state: RunState, lost: frozenset[str], older: frozenset[str]
) -> tuple[str, ...]:
    """Derive these tables again from `silver/changes`. Returns a note for people on each.

    `lost` tables are gone; `older` ones are there, and are older copies.
    """
    if not lost | older:
        return ()
    if BATCHES_TABLE in lost | older:
        changes = state.lake.read(spark, CHANGES_TABLE)
        if BATCHES_TABLE in older:  # what it has is compared with the changes afterwards
            counted = state.lake.read(spark, BATCHES_TABLE).select("batch").distinct()
            changes = changes.join(F.broadcast(counted), "batch", "left_anti")
        _derive_counts(spark, state.lake, changes)
    for source in _sources(spark, state.lake):
        finish_repair(spark, state, source)
    texts = dict.fromkeys(lost, "was gone") | dict.fromkeys(older, "was an older copy")
    return tuple(
        f"{name} {what}: it has been derived again from {CHANGES_TABLE}"
        + ("; messages that were dismissed are open again" if name == QUARANTINE_TABLE else "")
        for name, what in sorted(texts.items())
    )


def _sources(spark: SparkSession, lake: Lakehouse) -> Sequence[str]:
    changes = lake.read(spark, CHANGES_TABLE)
    return sorted(row[0] for row in changes.select("source").distinct().collect())


def _clocks(spark: SparkSession, lake: Lakehouse, changes: DataFrame) -> DataFrame:
    """When the newest message of each batch landed, as far as bronze has the messages."""
    landed = (
        lake.rows(spark, MESSAGES_TABLE, MESSAGES)
        .groupBy(*MESSAGE_AT)
        .agg(F.max("ingested_at").alias("landed_at"))
    )
    partners = changes.where("paired_with IS NOT NULL").select("source", "paired_with.*", "batch")
    messages = changes.select(*MESSAGE_AT, "batch").unionByName(partners)
    return messages.join(landed, list(MESSAGE_AT)).groupBy("batch").agg(F.max("landed_at").alias("landed_at"))


def _derive_counts(spark: SparkSession, lake: Lakehouse, changes: DataFrame) -> None:
    rows = changes.join(F.broadcast(_clocks(spark, lake, changes)), "batch", "left")
    counted = rows.groupBy(*batch_counts.COUNTED_BY, "landed_at").agg(
        *batch_counts.counting(F.col("landed_at"))
    )
    lake.create(spark, BATCHES_TABLE, batch_counts.COUNTS_SCHEMA)
    columns = (
        *(F.col(f"`{name}`") for name in batch_counts.COUNTED),
        F.col("landed_at").alias("max_ingested_at"),
    )
    lake.append(counted.select(*columns).coalesce(1), BATCHES_TABLE)


def _epochs_in_changes(spark: SparkSession, lake: Lakehouse, source: Source) -> Sequence[EpochRow]:
    """Where each epoch of a source begins according to its changes: sequences begin with their epoch."""
    changes = lake.rows(spark, CHANGES_TABLE, CHANGES).where(F.col("source") == source.name)
    rows = changes.select("topic", "partition", "offset", _epoch().alias("epoch"))
    known = [
        row[0]
        for row in rows.where("epoch IS NOT NULL").select("epoch").distinct().orderBy("epoch").collect()
    ]
    if len(known) > 1 and (source.files is None or source.layout is Layout.KCAT):
        _check_is_new(
            spark, lake, [source.name]
        )  # offsets may have started again, and changes do not say where
    found: list[EpochRow] = []
    for epoch in known:
        first, last = F.min(F.when(F.col("epoch") >= epoch, F.col("offset"))), F.max("offset")
        ends = (
            rows.groupBy("topic", "partition")
            .agg(F.coalesce(first, F.try_add(last, F.lit(1)), last))
            .collect()
            if epoch > known[0]
            else []
        )
        beginning = epochs.EpochStart(
            source.name, epoch, known[0], [PartitionStart(*row[:3]) for row in ends]
        )
        found += epochs.started_rows(beginning, epochs.History(tuple(found)))
    return found


def _epoch() -> Column:
    return F.expr(epoch_sql("sequence"))


def _check_is_new(spark: SparkSession, lake: Lakehouse, sources: Sequence[str]) -> None:
    """Refuse to decode messages of earlier runs in one epoch alone."""
    path = f"{lake.checkpoints}/silver"
    evidence = (CHANGES_TABLE, BATCHES_TABLE, STATEMENTS_TABLE, TABLES_TABLE)
    has_begun = those_there(spark, lake, evidence) or _has_landed_again(spark, lake)
    if not has_begun or is_there(spark, f"{path}.reset"):
        return
    raise MainstemError(
        "EPOCHS_LOST",
        found=f"{EPOCHS_TABLE} is gone, and nothing else says where the epochs of {', '.join(sources)} begin",
        where=lake.location(EPOCHS_TABLE),
        action=f"put {EPOCHS_TABLE} back from a backup; or, if all messages in bronze belong to the"
        f" configured epochs, create the empty file {path}.reset and run again",
    )


def _has_landed_again(spark: SparkSession, lake: Lakehouse) -> bool:
    """Whether several runs have landed messages, as far as the commits of bronze say."""
    commits = newest_commits(spark, lake.location(MESSAGES_TABLE))
    notes = (json.loads(commit.get("userMetadata") or "{}") for commit in commits)
    runs = (note["run_id"] for note in notes if note.get("run_id") is not None)
    newest = next(runs, None)
    return any(run != newest for run in runs)


def _schemas_lost(lake: Lakehouse) -> MainstemError:
    changes = lake.location(CHANGES_TABLE)
    return MainstemError(
        "SCHEMAS_LOST",
        found=f"{SCHEMAS_TABLE} is gone: the types of the columns in {CHANGES_TABLE} are not known",
        where=lake.location(SCHEMAS_TABLE),
        action=f"put it back from a backup; or, where bronze still has all messages, delete {changes}"
        f" and {lake.checkpoints}/silver and run again: all messages are read again",
    )
