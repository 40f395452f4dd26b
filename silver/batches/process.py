"""One batch of messages: decode them once, commit all outcomes at once, derive what follows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from framework.config.model import Config
from framework.config.quality import OnChange
from framework.contracts.quarantine_reasons import Reason
from framework.contracts.table_names import CHANGES_TABLE, MESSAGES_TABLE, PENDING_TABLE
from framework.contracts.table_schemas import CHANGES, MESSAGE_AT, MESSAGE_ID, MESSAGES
from framework.errors import MainstemError
from framework.lakehouse.file_commits import Commit
from framework.lakehouse.small_files import is_there
from framework.lakehouse.staging import discard_staging, staging_folder
from framework.pipeline.fault_injection import crash_point
from framework.spark.local_frame import local_frame
from framework.spark.tuning import SMALL_ROWS, tune_for_rows
from framework.text.formatting import quantity
from silver.batches import (
    arrival,
    batch_counts,
    changes_table,
    encodings,
    outcomes,
    pending,
    quality_rules,
    quarantine,
)
from silver.batches.arrival import BatchExtent, batch_extent, overlaps_in_batch
from silver.batches.changes_table import is_committed
from silver.batches.contents import NOTHING_KNOWN, Committed, Contents, Summary
from silver.batches.decoding import decode_batch, file_outcomes, messages_decoded
from silver.batches.landings import (
    find_restarts,
    identify,
    identify_all,
    outcomes_in_epochs,
    repeatable_sources,
)
from silver.batches.partition_progress import order_by_partition
from silver.batches.run_state import BATCH_ID_STEP, Progress, RunState, later
from silver.changes.batch_summary import IDENTIFIED
from silver.epochs import history as epochs
from silver.epochs import resets, starts
from silver.epochs.event_clock import with_believable_times
from silver.formats import FORMATS

_STAGING = "silver"
_OF_HALVES = {Reason.UNPAIRED_BEFORE_IMAGE, Reason.AMBIGUOUS_PAIR, Reason.RULE_BROKEN}


def process_batch(
    messages: DataFrame, batch: int, state: RunState, *, is_replay: bool = False, is_last: bool = True
) -> int:
    """Commit the outcomes of these rows of `bronze/messages` once, and derive what follows.

    Returns how many messages there were. A replay of quarantined messages commits those that it can decode
    now, and stores the new reason of the others.
    """
    spark = messages.sparkSession
    found = batch_extent(messages, state.config, state.files)
    known = messages.where(F.col("source").isin(*state.plans)).select(
        *(F.col(f"`{n}`") for n in MESSAGES.names)
    )
    if found.others:
        rows = [epochs.left_out_row(source, batch) for source in found.others]
        state.append_epochs(spark, rows, state.transaction("left_out", batch))
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
        committed = _commit(
            known, batch, state, replace(found, stops=tuple(anew), is_last=is_last), is_replay
        )
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


def _commit(
    messages: DataFrame, batch: int, state: RunState, arrived: BatchExtent, is_replay: bool
) -> Committed:
    """Decode and commit."""
    spark, lake = messages.sparkSession, state.lake
    crash_point("silver.before_staging")
    staging = staging_folder(lake, _STAGING)
    staged, contents, shown = decode_batch(staging, messages, state, arrived, batch)
    shown += state.late_definitions(spark, batch)
    if shown:
        encodings.append_rows(spark, lake, shown, state.transaction("encodings", batch))
    ordered = order_by_partition(staged, state, contents)
    decided = decide_outcomes(ordered, state, arrived, contents)
    rows, stops = decided.rows, decided.stops
    if stops:
        state.reached = None  # the rows behind a stop are not committed
        stops = starts.with_landings(messages, stops)
        already_stopped = [
            epochs.stopped_row(stop, state.config.sources[stop.source].epoch, batch) for stop in stops
        ]
        state.append_epochs(spark, already_stopped, state.transaction("epochs", batch))
    state.append_schemas(staged, contents.schemas, batch)
    if repeatable_sources(state.config):
        arrival.write_high_offsets(spark, lake, batch, state.high_offsets or {})
    crash_point("silver.before_changes")
    if is_replay:
        quarantine.update_reasons(lake, rows)
        outcomes_before = outcomes_in_epochs(
            lake.rows(spark, CHANGES_TABLE, CHANGES), state.source_epochs(spark)
        )
        rows = outcomes.drop_already_decoded(rows.where("kind <> 'quarantined'"), outcomes_before, messages)
    user_metadata = json.dumps({"batch": batch, "messages": arrived.messages})
    once = state.transaction("changes", batch)
    counts: list[Row] = []
    is_filed, is_as_decoded = False, decided.are_as_decoded and ordered is staged and not is_replay
    if is_as_decoded and once and contents.files and arrived.messages >= SMALL_ROWS:
        files, counts = _files_of(f"{staging}/outcomes", decided, contents, arrived, batch)
        is_filed = changes_table.append_files(spark, lake, files, Commit(once, user_metadata))
    if not is_filed:
        changes = changes_table.changes_of(rows.withColumn("batch", F.lit(batch).cast("long")))
        if arrived.messages < SMALL_ROWS:
            changes = changes.coalesce(1)
        # tables of older releases lack `epoch`
        note = {"userMetadata": user_metadata, "mergeSchema": "true"}
        lake.append(changes, CHANGES_TABLE, once, changes_table.CHANGES_PROPERTIES | note)
    crash_point("silver.after_changes")
    if is_filed:
        return Committed(counts, contents.refused_files)
    return Committed(contents.counts_in(batch) if is_as_decoded and decided.of_halves is None else ())


def _files_of(
    place: str, decided: Decided, contents: Contents, arrived: BatchExtent, batch: int
) -> tuple[list[str], list[Row]]:
    """The files with all outcomes of a batch, of which only those of halves are written, and their counts."""
    if decided.of_halves is None:
        return list(contents.files), contents.counts_in(batch)
    others = file_outcomes(place, decided.of_halves, contents, arrived, batch)
    # what is released or refused is no open half any more
    files = [*contents.files, *others.files, *others.half_files]
    return files, contents.counts_in(batch, others)


@dataclass(frozen=True, slots=True)
class Decided:
    """The outcomes of decoded rows.

    Attributes:
        rows: The outcomes (STAGED).
        stops: Where sources stop; rows behind a stop have no outcome yet.
        of_halves: Those of the rows that come from halves of updates; None where there are none.
        are_as_decoded: Whether all other outcomes are the decoded rows as they are.
    """

    rows: DataFrame
    stops: Sequence[resets.StopPoint]
    of_halves: DataFrame | None = None
    are_as_decoded: bool = False


def decide_outcomes(
    staged: DataFrame,
    state: RunState,
    arrived: BatchExtent,
    contents: Contents,
    again: DataFrame | None = None,
) -> Decided:
    """Decide the outcome of each decoded row.

    Args:
        staged: Decoded rows.
        state: The state of the run.
        arrived: The extent of the batch.
        contents: The summary of the decoded rows.
        again: The messages (MESSAGE_ID), if they are decoded again: their old outcomes are then ignored, and
            no source stops.

    """
    decided = _pair_and_deduplicate(staged, state, arrived, contents, again)
    spark, lake = staged.sparkSession, state.lake
    if is_there(spark, f"{lake.checkpoints}/silver.forgotten"):
        rows = outcomes.exclude_forgotten(decided.rows, lake.rows(spark, CHANGES_TABLE, CHANGES))
        decided = Decided(rows, decided.stops)
    rules = quality_rules.change_rules(state.config.quality, OnChange.QUARANTINE)
    return Decided(quality_rules.quarantine_broken(decided.rows, rules), decided.stops) if rules else decided


def _pair_and_deduplicate(
    staged: DataFrame, state: RunState, arrived: BatchExtent, contents: Contents, again: DataFrame | None
) -> Decided:
    """Mark duplicates, pair the halves of updates, and leave out what is behind a stop."""
    summaries = contents.sources
    decoded = sum(s.messages for s in summaries)
    if decoded != arrived.messages:
        raise MainstemError(
            "MESSAGES_UNACCOUNTED",
            found=f"{quantity(arrived.messages, 'message')} in a batch, {quantity(decoded, 'outcome')}",
            where="silver",
            action="report this: nothing was written, bronze keeps every message",
        )
    spark = staged.sparkSession
    shown = state.source_progress(spark)
    history = _history(spark, state, summaries, shown)
    if history is not None and again is not None:
        history = (
            outcomes_in_epochs(history, state.source_epochs(spark))
            .join(again, list(MESSAGE_ID), "left_anti")
            .select(*history.columns)
        )
    whole = _whole_rows(staged, history, contents)
    are_as_decoded = history is None and not contents.may_hold_repeats
    stops = (
        [
            *arrived.stops,
            *_find_stops(with_believable_times(whole, arrived.landed_at), state, contents, shown),
        ]
        if again is None
        else []
    )
    if stops:
        extents = state.extents(spark, [stop.source for stop in stops])
        stops = resets.spread_stop_points(with_believable_times(staged, arrived.landed_at), stops, extents)
        staged = resets.drop_behind_stops(staged, stops)
        # a row that repeats a dropped change is no duplicate
        whole = _whole_rows(staged, history, contents)
        are_as_decoded = False
    if not any(FORMATS[state.config.sources[s.source].format].halves for s in summaries):
        return Decided(whole, stops, None, are_as_decoded)
    if not contents.halves and (again is not None or not state.has_pending(spark)):
        return Decided(whole, stops, None, are_as_decoded)
    waiting = (
        local_frame(spark, [], CHANGES)
        if again is not None
        else state.lake.rows(spark, PENDING_TABLE, CHANGES)
    )
    overdue = pending.deadlines(_newest_times(shown, summaries), state.config) if arrived.is_last else {}
    known = state.known_encodings(spark)
    paired = outcomes.pair_halves(staged, waiting, history, overdue, known.shared)
    return Decided(whole.unionByName(paired), stops, paired, are_as_decoded)


def _whole_rows(staged: DataFrame, history: DataFrame | None, contents: Contents) -> DataFrame:
    """The rows that are not halves, with duplicates marked."""
    whole = staged.where("half is null") if contents.halves else staged
    if history is None and not contents.may_hold_repeats:
        return whole
    return outcomes.resolve_duplicates(
        whole, outcomes.duplicate_ids(staged, history), history, contents.ambiguous_positions
    )


def _find_stops(
    whole: DataFrame, state: RunState, contents: Contents, shown: Mapping[str, Progress]
) -> list[resets.StopPoint]:
    waits, suspects = {}, set()
    for summary in contents.sources:
        if summary.source in state.in_order:
            continue
        source = state.config.sources[summary.source]
        span = (summary.min_event_time, summary.max_event_time)
        is_behind = _is_behind(summary, shown)
        wait, fall = source.pairing_timeout, contents.falls.get(summary.source)
        written_by = summary.servers | shown.get(summary.source, Progress()).servers
        # where all changes have a certain time, one server shows nothing that times and positions do not
        is_of_others = bool(summary.servers) and (fall is None or len(written_by) > 1)
        is_in_order = not is_behind and not is_of_others and fall is not None and fall <= wait
        if not is_in_order and resets.may_show_reset(
            FORMATS[source.format], span, wait, is_behind, bool(summary.servers)
        ):
            waits[summary.source] = wait
            if is_of_others:
                suspects.add(summary.source)
    quiet = {source: wait for source, wait in waits.items() if source not in suspects}
    if quiet:
        suspects |= resets.suspect_sources(whole, state.extents(whole.sparkSession, quiet), quiet)
    waits = {source: wait for source, wait in waits.items() if source in suspects}
    return state.stop_points(whole, waits) if waits else []


def _is_behind(summary: Summary, shown: Mapping[str, Progress]) -> bool:
    top = shown[summary.source].sequence if summary.source in shown else None
    return summary.min_sequence is not None and top is not None and summary.min_sequence <= top


def _history(
    spark: SparkSession, state: RunState, summaries: Sequence[Summary], shown: Mapping[str, Progress]
) -> DataFrame | None:
    """Earlier changes that this batch could duplicate; None if all its positions are higher."""
    lowest = {
        summary.source: summary.min_sequence or "" for summary in summaries if _is_behind(summary, shown)
    }
    if not lowest or not state.lake.exists(spark, CHANGES_TABLE):  # counts remain where changes are lost
        return None
    changes = state.lake.read(spark, CHANGES_TABLE).where(outcomes.is_from(lowest))
    return changes.where(F.col("kind").isin(*IDENTIFIED) | F.expr(outcomes.UNPAIRED))


def _newest_times(
    shown: Mapping[str, Progress], batch: Iterable[Summary | Row]
) -> dict[str, datetime | None]:
    """The newest event time of each source, with those of a batch (its summaries, or its counts)."""
    newest = {source: extent.event_time for source, extent in shown.items()}
    for part in batch:
        newest[part.source] = later(newest.get(part.source), part.max_event_time)
    return newest


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
        is_older = reasons & _OF_HALVES and _have_halves(counts, state.config)
        raw = messages
        if is_older:
            places = committed.where("kind = 'quarantined'").select(*MESSAGE_AT)
            near = lake.read(spark, MESSAGES_TABLE).join(places, list(MESSAGE_AT), "left_semi")
            raw = identify_all(near, lake, state.source_epochs(spark))
        refused = sum(row["rows"] for row in counts if row["kind"] == "quarantined")
        files = () if is_older else known.refused_files
        quarantine.merge_quarantine(lake, committed, raw, refused, files)
    if "row" in kinds and any(extent.has_unpaired for extent in state.table_progress(spark).values()):
        quarantine.resolve_unpaired(lake, committed)
    crash_point("silver.after_quarantine")
    if _has_waiting(counts, state.config) or state.has_pending(spark):
        times = _newest_times(state.source_progress(spark), counts)
        pending.merge_pending(lake, committed, landed_at, times)
        state.has_waiting = None
    crash_point("silver.after_pending")
    if kinds & {"ddl", "truncate"}:
        changes_table.append_statements(lake, committed, state.transaction("statements", batch))
    if batch % BATCH_ID_STEP:
        quarantine.resolve_replayed(lake, committed)
    state.save_partition_progress(spark, batch)
    batch_counts.append_counts(lake, spark, counts, landed_at, state.transaction("counts", batch))
    crash_point("silver.after_counts")
    return counts


def _has_waiting(counts: Sequence[Row], config: Config) -> bool:
    """Whether halves of the batch may wait; those of formats without halves never do."""
    return _have_halves([row for row in counts if row["kind"] == "half"], config)


def _have_halves(counts: Sequence[Row], config: Config) -> bool:
    """Whether some of the counted rows are of a source whose updates come in halves."""
    pairing = {name for name, source in config.sources.items() if FORMATS[source.format].halves}
    return any(row["source"] in pairing for row in counts)
