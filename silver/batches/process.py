"""One batch of messages: decode them once, commit all outcomes at once, derive what follows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from framework.config.model import Config
from framework.contracts.table_names import CHANGES_TABLE, MESSAGES_TABLE
from framework.contracts.table_schemas import CHANGES, MESSAGE_AT, MESSAGES
from framework.lakehouse.file_commits import Commit
from framework.lakehouse.staging import discard_staging, staging_folder
from framework.lakehouse.task_files import is_shared
from framework.pipeline.fault_injection import crash_point
from framework.spark.tuning import SMALL_ROWS, tune_for_rows
from silver.batches import (
    arrival,
    batch_counts,
    changes_table,
    encodings,
    pending,
    quarantine,
    replays,
)
from silver.batches.arrival import BatchExtent, batch_extent, overlaps_in_batch
from silver.batches.changes_table import is_committed
from silver.batches.contents import NOTHING_KNOWN, Committed, Contents
from silver.batches.decided_batch import decide_batch
from silver.batches.decisions import Decided, newest_times
from silver.batches.decoding import file_few, file_outcomes, messages_decoded
from silver.batches.few_pending import replace_pending
from silver.batches.landings import (
    find_restarts,
    identify,
    identify_all,
    outcomes_in_epochs,
    repeatable_sources,
)
from silver.batches.run_state import BATCH_ID_STEP, RunState
from silver.batches.staged_files import rows_of_batch
from silver.changes.staged_rows import SETTLED_KINDS
from silver.epochs import history as epochs
from silver.epochs import starts
from silver.formats import FORMATS

_STAGING = "silver"


def process_batch(
    messages: DataFrame, batch: int, state: RunState, *, is_replay: bool = False, is_last: bool = True
) -> int:
    """Commit the outcomes of these rows of `bronze/messages` once, and derive what follows.

    Returns how many messages there were. A replay of quarantined messages commits those that it can decode
    now, and those of their rows that it refuses for the first time. It stores the new reason of the others.
    """
    spark = messages.sparkSession
    found = batch_extent(messages, state.config, state.files)
    known = messages.where(F.col("source").isin(*state.plans)).select(
        *(F.col(f"`{n}`") for n in MESSAGES.names)
    )
    if found.others:
        state.append_epochs(spark, [epochs.left_out_row(source, batch) for source in found.others])
    if not found.messages:  # once the stream has batches, the table must exist
        state.lake.create(spark, CHANGES_TABLE, CHANGES, changes_table.CHANGES_PROPERTIES)
        return 0
    tune_for_rows(spark, found.messages)
    looked_at = overlaps_in_batch(spark, state, found)
    if looked_at:  # then what a message is depends on others
        found = replace(found, groups=())
    known = identify(known, state.lake, state.source_epochs(spark), looked_at)
    anew = find_restarts(known, state.lake, state.source_epochs(spark)) if looked_at else []
    counts: list[Row] = []
    committed = Committed()
    is_new = state.newest is not None and batch > state.newest
    if not is_new and is_committed(spark, state.lake, batch):
        counts = batch_counts.counts_of(spark, state.lake, batch)
        state.reached = None
    else:
        found = replace(found, stops=tuple(anew), is_last=is_last, is_replay=is_replay)
        committed = _commit(known, batch, state, found)
    # A batch that was derived is not derived again: later batches may have paired the halves it left waiting.
    raw = (
        known
        if state.raw is None
        else identify(state.raw.select(*MESSAGES.names), state.lake, state.source_epochs(spark), looked_at)
    )
    state.note(counts or derive(raw, batch, state, found.landed_at, committed), found.messages)
    discard_staging(state.lake, _STAGING)
    return found.messages


def messages_at_work(state: RunState) -> int:
    """How many messages of the batch at work are decoded, about; 0 where no task of this machine decodes."""
    return messages_decoded(staging_folder(state.lake, _STAGING))


def _commit(messages: DataFrame, batch: int, state: RunState, arrived: BatchExtent) -> Committed:
    """Decode and commit."""
    spark, lake, is_replay = messages.sparkSession, state.lake, arrived.is_replay
    crash_point("silver.before_staging")
    staging = staging_folder(lake, _STAGING)
    found = decide_batch(staging, messages, state, arrived, batch)
    contents, decided = found.contents, found.decided
    shown = [*found.shown, *state.late_definitions(spark, batch)]
    if shown:
        encodings.append_rows(spark, lake, shown)
    rows, stops = decided.rows, decided.stops
    if stops:
        state.reached = None  # the rows behind a stop are not committed
        stops = starts.with_landings(messages, stops)
        already_stopped = [
            epochs.stopped_row(stop, state.config.sources[stop.source].epoch, batch) for stop in stops
        ]
        state.append_epochs(spark, already_stopped)
    state.append_definitions(spark, batch)
    state.append_schemas(found.staged, contents.schemas, batch)
    if repeatable_sources(state.config):
        arrival.write_high_offsets(spark, lake, batch, state.high_offsets or {})
    crash_point("silver.before_changes")
    if is_replay:
        quarantine.update_reasons(lake, rows)
        outcomes_before = outcomes_in_epochs(
            lake.rows(spark, CHANGES_TABLE, CHANGES), state.source_epochs(spark)
        )
        rows = replays.drop_already_decoded(rows, outcomes_before, messages)
    user_metadata = json.dumps({"batch": batch, "messages": arrived.messages})
    once = state.transaction("changes", batch)
    decided = replace(decided, are_as_decoded=decided.are_as_decoded and not is_replay)
    if once and not is_replay:
        files, filed = _files_of(f"{staging}/outcomes", decided, contents, arrived, batch)
        if files and changes_table.append_files(spark, lake, files, Commit(once, user_metadata)):
            crash_point("silver.after_changes")
            return filed
    changes = changes_table.changes_of(rows.withColumn("batch", F.lit(batch).cast("long")))
    if arrived.messages < SMALL_ROWS:
        changes = changes.coalesce(1)
    # tables of older releases lack `epoch`
    note = {"userMetadata": user_metadata, "mergeSchema": "true"}
    lake.append(changes, CHANGES_TABLE, once, changes_table.CHANGES_PROPERTIES | note)
    crash_point("silver.after_changes")
    is_counted = decided.are_as_decoded and decided.of_halves is None
    return Committed(contents.counts_in(batch)) if is_counted else NOTHING_KNOWN


def _files_of(
    place: str, decided: Decided, contents: Contents, arrived: BatchExtent, batch: int
) -> tuple[Sequence[str], Committed]:
    """Files with all outcomes of a batch, and what is known of them; no files where Spark must write them.

    Of a large batch only the outcomes of halves are written: the tasks that decoded it have written the rest.
    """
    if decided.few is not None and contents.few is not None and is_shared(decided.rows.sparkSession, place):
        few = file_few(place, contents.few, decided.few, arrived, batch)
        return few.files, Committed(few.counts_in(batch), few.refused_files, decided.few)
    if not decided.are_as_decoded or not contents.files or arrived.messages < SMALL_ROWS:
        return (), NOTHING_KNOWN
    if decided.of_halves is None:
        return contents.files, Committed(contents.counts_in(batch), contents.refused_files)
    others = file_outcomes(place, decided.of_halves, contents, arrived, batch)
    # what is released or refused is no open half any more
    files = [*contents.files, *others.files, *others.half_files]
    return files, Committed(contents.counts_in(batch, others), contents.refused_files)


def derive(
    messages: DataFrame,
    batch: int,
    state: RunState,
    landed_at: datetime | None,
    known: Committed = NOTHING_KNOWN,
) -> list[Row]:
    """Derive what follows from a committed batch. Repeating it changes nothing.

    Args:
        messages: The messages of the batch, from `identify`.
        batch: The number of the batch.
        state: The state of the run.
        landed_at: When the newest message of the batch landed.
        known: What is known of the batch.

    Returns:
        The counts of the batch.
    """
    spark, lake = messages.sparkSession, state.lake
    committed = changes_table.changes_since(spark, lake, batch).where(F.col("batch") == batch)
    counts = list(known.counts) or batch_counts.count_rows(committed, landed_at)
    kinds = {row["kind"] for row in counts}
    if "quarantined" in kinds:
        reasons = {row["reason"] for row in counts}
        # they may belong to halves that waited, whose messages came in earlier batches
        is_older = reasons.intersection(pending.REASONS_OF_HALVES) and _have_halves(counts, state.config)
        raw = messages
        if is_older:
            places = committed.where("kind = 'quarantined'").select(*MESSAGE_AT)
            near = lake.read(spark, MESSAGES_TABLE).join(places, list(MESSAGE_AT), "left_semi")
            raw = identify_all(near, lake, state.source_epochs(spark))
        refused = sum(row["rows"] for row in counts if row["kind"] == "quarantined")
        files = () if is_older else known.refused_files
        quarantine.merge_quarantine(lake, committed, raw, refused, files)
    is_replay = bool(batch % BATCH_ID_STEP)
    may_meet = kinds.intersection(SETTLED_KINDS) and _have_halves(counts, state.config)
    if may_meet and (is_replay or _has_unpaired(spark, state)):
        quarantine.resolve_met(lake, committed)
    crash_point("silver.after_quarantine")
    if _has_waiting(counts, state.config) or state.has_pending(spark):
        times = newest_times(state.source_progress(spark), counts)
        few = None if known.outcomes is None else rows_of_batch(known.outcomes, batch)
        if few is None or not replace_pending(spark, lake, few, landed_at, times):
            pending.merge_pending(lake, committed, landed_at, times)
        state.has_waiting = None
    crash_point("silver.after_pending")
    if kinds & {"ddl", "truncate"}:
        changes_table.append_statements(lake, committed, state.transaction("statements", batch))
    if is_replay:
        quarantine.resolve_replayed(lake, committed)
    state.save_partition_progress(spark, batch)
    batch_counts.append_counts(lake, spark, counts, landed_at, state.transaction("counts", batch))
    crash_point("silver.after_counts")
    return counts


def _has_waiting(counts: Sequence[Row], config: Config) -> bool:
    """Whether halves of the batch may wait; those of formats without halves never do."""
    return _have_halves([row for row in counts if row["kind"] == "half"], config)


def _has_unpaired(spark: SparkSession, state: RunState) -> bool:
    """Whether a BEFORE half was refused because its other half did not come."""
    return any(extent.has_unpaired for extent in state.table_progress(spark).values())


def _have_halves(counts: Sequence[Row], config: Config) -> bool:
    """Whether some of the counted rows are of a source whose updates come in halves."""
    pairing = {name for name, source in config.sources.items() if FORMATS[source.format].halves}
    return any(row["source"] in pairing for row in counts)
