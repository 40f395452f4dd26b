"""What becomes of decoded rows: which repeat a change, which halves meet, where a source stops."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from framework.config.quality import OnChange
from framework.contracts.table_names import CHANGES_TABLE, PENDING_TABLE
from framework.contracts.table_schemas import CHANGES
from framework.errors import MainstemError
from framework.lakehouse.small_files import is_there
from framework.spark.arrow_schemas import arrow_schema
from framework.spark.local_frame import arrow_frame, local_frame
from framework.text.formatting import quantity
from silver.batches import few_outcomes, outcomes, pending, quality_rules
from silver.batches.arrival import BatchExtent
from silver.batches.contents import Contents, Summary
from silver.batches.decoded_again import DecodedAgain, few_with_ended_waits
from silver.batches.earlier_changes import (
    EarlierChanges,
    earlier_changes,
    is_behind,
    outcomes_near,
    overdue_positions,
)
from silver.batches.few_suspects import suspects_among
from silver.batches.known_runs import EarlierOutcomes
from silver.batches.open_halves import OpenHalves, read_open_halves
from silver.batches.run_state import Progress, RunState, later
from silver.changes.staged_rows import STAGED_DDL
from silver.epochs import resets
from silver.epochs.event_clock import with_believable_times
from silver.formats import FORMATS


@dataclass(frozen=True, slots=True)
class Decided:
    """The outcomes of decoded rows.

    Attributes:
        rows: The outcomes (STAGED).
        stops: Where sources stop; rows behind a stop have no outcome yet.
        of_halves: Those of the rows that come from halves of updates, as a frame or as rows (STAGED) of this
            process; None where there are none.
        are_as_decoded: Whether all other outcomes are the decoded rows as they are.
        few: All outcomes (STAGED), where this process holds them.
    """

    rows: DataFrame
    stops: Sequence[resets.StopPoint]
    of_halves: DataFrame | pa.Table | None = None
    are_as_decoded: bool = False
    few: pa.Table | None = None


def decide_outcomes(
    staged: DataFrame,
    state: RunState,
    arrived: BatchExtent,
    contents: Contents,
    again: DecodedAgain | None = None,
) -> Decided:
    """Decide the outcome of each decoded row.

    Args:
        staged: Decoded rows.
        state: The state of the run.
        arrived: The extent of the batch.
        contents: The summary of the decoded rows.
        again: The messages, if they are decoded again: their old outcomes are then ignored, and no source
            stops.
    """
    decided = _pair_and_deduplicate(staged, state, arrived, contents, again)
    spark, lake = staged.sparkSession, state.lake
    if is_there(spark, f"{lake.checkpoints}/silver.forgotten"):
        emptied = outcomes.forgotten_ids(lake.rows(spark, CHANGES_TABLE, CHANGES))
        whole = decided.rows.where("kind = 'row'").select("change_id")
        if not whole.join(emptied, "change_id", "left_semi").isEmpty():
            decided = Decided(outcomes.exclude_forgotten(decided.rows, emptied), decided.stops)
    rules = quality_rules.change_rules(state.config.quality, OnChange.QUARANTINE)
    return Decided(quality_rules.quarantine_broken(decided.rows, rules), decided.stops) if rules else decided


def _pair_and_deduplicate(
    staged: DataFrame, state: RunState, arrived: BatchExtent, contents: Contents, again: DecodedAgain | None
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
    few = contents.rows_here(staged) if again is None or again.few is not None else None
    earlier = earlier_changes(spark, state, summaries, shown)
    changes, few_earlier = _changes_of(earlier, state, is_few=few is not None)
    if changes is not None and again is not None:
        changes = again.others(changes, state)
        few_earlier = again.few_others(few_earlier) if isinstance(few_earlier, pa.Table) else changes
    is_repair = again is not None or arrived.is_replay
    history = EarlierOutcomes(changes)
    if contents.ambiguous_positions:
        near = _outcomes_near(spark, state, earlier, summaries if is_repair else (), again)
        history = EarlierOutcomes(changes, near)
    few_whole = None if few is None else _few_whole_rows(few, few_earlier, contents)
    whole = _whole_rows(staged, history, contents) if few_whole is None else _frame_of(few_whole, few, staged)
    are_as_decoded = changes is None and not contents.may_hold_repeats
    stops = list(arrived.stops) if again is None else []
    if again is None and not arrived.is_cut:
        stops += _find_stops((whole, few_whole), arrived.landed_at, state, contents, shown)
    if stops and not arrived.is_cut:
        extents = state.extents(spark, [stop.source for stop in stops])
        stops = resets.spread_stop_points(with_believable_times(staged, arrived.landed_at), stops, extents)
        staged = resets.drop_behind_stops(staged, stops)
        # a row that repeats a dropped change is no duplicate
        whole = _whole_rows(staged, history, contents)
        are_as_decoded, few, few_whole = False, None, None
    if not any(FORMATS[state.config.sources[s.source].format].halves for s in summaries):
        return Decided(whole, stops, None, are_as_decoded, few_whole)
    if not contents.halves and (again is not None or not state.has_pending(spark)):
        return Decided(whole, stops, None, are_as_decoded, few_whole)
    overdue = pending.deadlines(newest_times(shown, summaries), state.config) if arrived.is_last else {}
    known = state.known_encodings(spark)
    in_files, few_waiting = None, None
    if again is not None:
        few_waiting = arrow_schema(CHANGES).empty_table()
        few = None if few is None or again.few is None else few_with_ended_waits(few, again.few)
    elif few_whole is not None:
        few_waiting = few_outcomes.waiting_halves(spark, state.lake)
    elif not stops:
        in_files = read_open_halves(spark, state.lake, contents)
        few_waiting = None if in_files is None else in_files.waiting
    if again is None:
        late = _late_positions(few_waiting, spark, state, overdue)
        if late:  # a half is not decided without the changes of its position
            earlier = earlier_changes(spark, state, summaries, shown, late)
            changes, few_earlier = _changes_of(earlier, state, is_few=few_whole is not None)
    if few is not None and few_whole is not None:
        few_paired = few_outcomes.pair_halves(few, few_waiting, few_earlier, overdue, known.shared)
        if few_paired is not None:
            every = pa.concat_tables([few_whole, few_paired])
            return Decided(arrow_frame(spark, every, STAGED_DDL), stops, few=every)
    if in_files is not None:
        of_halves = _pair_in_files(in_files, earlier, state, overdue, known.shared)
        if of_halves is not None:
            paired = arrow_frame(spark, of_halves, STAGED_DDL)
            return Decided(whole.unionByName(paired), stops, of_halves, are_as_decoded)
    waiting = (
        local_frame(spark, [], CHANGES)
        if again is not None
        else state.lake.rows(spark, PENDING_TABLE, CHANGES)
    )
    if again is not None:
        staged = again.with_ended_waits(staged, state)
    paired = outcomes.pair_halves(staged, waiting, changes, overdue, known.shared)
    return Decided(whole.unionByName(paired), stops, paired, are_as_decoded)


def _outcomes_near(
    spark: SparkSession,
    state: RunState,
    earlier: EarlierChanges | None,
    repaired: Sequence[Summary],
    again: DecodedAgain | None,
) -> DataFrame | None:
    """The outcomes of `EarlierOutcomes`; None where no record of the batch can have begun in earlier ones.

    Args:
        spark: The session.
        state: The state of the run.
        earlier: The earlier changes that matter to the batch.
        repaired: What the batch has of each source, if it decodes messages again: others may be between them
            even where no earlier change matters.
        again: The messages whose outcomes are replaced, or None.
    """
    if repaired:
        near = outcomes_near(spark, state, {each.source: each.min_sequence or "" for each in repaired})
    elif earlier is not None:
        near = outcomes_near(spark, state, earlier.lowest, earlier.since)
    else:
        return None
    if again is None:
        return near.withColumn("is_replaced", F.lit(False))
    return again.marked(near)


def _pair_in_files(
    found: OpenHalves,
    earlier: EarlierChanges | None,
    state: RunState,
    deadlines: Mapping[str, datetime | None],
    shared: Collection[str],
) -> pa.Table | None:
    """The outcomes of the few halves of a large batch; None where Spark must decide."""
    history = None if earlier is None else earlier.read_few(state)
    if earlier is not None and history is None:
        return None
    return found.outcomes(history, deadlines, shared)


def _changes_of(
    earlier: EarlierChanges | None, state: RunState, *, is_few: bool
) -> tuple[DataFrame | None, pa.Table | DataFrame | None]:
    """Earlier changes for Spark, and for this process where it decides: of its own, if they are few."""
    if earlier is None:
        return None, None
    here = earlier.read_few(state) if is_few else None
    return earlier.frame, earlier.frame if here is None else here


def _late_positions(
    few: pa.Table | None, spark: SparkSession, state: RunState, deadlines: Mapping[str, datetime | None]
) -> dict[str, str]:
    """By source, the lowest position of overdue halves among those that wait; `few` where they are here."""
    if few is not None:
        return overdue_positions(few, deadlines)
    if not deadlines or not state.has_pending(spark):
        return {}
    return overdue_positions(state.lake.rows(spark, PENDING_TABLE, CHANGES), deadlines)


def _frame_of(rows: pa.Table, decoded: pa.Table | None, staged: DataFrame) -> DataFrame:
    """Rows of this process for Spark; `staged` where they are the decoded rows."""
    return staged if rows is decoded else arrow_frame(staged.sparkSession, rows, STAGED_DDL)


def _few_whole_rows(
    few: pa.Table, history: pa.Table | DataFrame | None, contents: Contents
) -> pa.Table | None:
    """What `_whole_rows` gives, in this process; None where Spark must decide."""
    whole = few.filter(pc.is_null(few.column("half"))) if contents.halves else few
    if history is None and not contents.may_hold_repeats:
        return whole
    return few_outcomes.mark_duplicates(whole, history)


def _whole_rows(staged: DataFrame, history: EarlierOutcomes, contents: Contents) -> DataFrame:
    """The rows that are not halves, with duplicates marked."""
    whole = staged.where("half is null") if contents.halves else staged
    if history.changes is None and not contents.may_hold_repeats:
        return whole
    repeats = outcomes.duplicate_ids(staged, history.changes)
    number, in_partitions = contents.ambiguous_positions, bool(contents.in_partitions)
    return outcomes.resolve_duplicates(whole, repeats, history, number, in_partitions=in_partitions)


def _find_stops(
    rows: tuple[DataFrame, pa.Table | None],
    landed_at: datetime | None,
    state: RunState,
    contents: Contents,
    shown: Mapping[str, Progress],
) -> list[resets.StopPoint]:
    """The stops among outcomes that are not halves: a frame, and its rows where this process has them."""
    whole, few = with_believable_times(rows[0], landed_at), rows[1]
    waits, suspects = {}, set()
    for summary in contents.sources:
        if summary.source in state.in_order:
            continue
        source = state.config.sources[summary.source]
        span = (summary.min_event_time, summary.max_event_time)
        is_below = is_behind(summary, shown)
        wait, fall = source.pairing_timeout, contents.falls.get(summary.source)
        written_by = summary.servers | shown.get(summary.source, Progress()).servers
        # where all changes have a certain time, one server shows nothing that times and positions do not
        is_of_others = bool(summary.servers) and (fall is None or len(written_by) > 1)
        is_in_order = not is_below and not is_of_others and fall is not None and fall <= wait
        if not is_in_order and resets.may_show_reset(
            FORMATS[source.format], span, wait, is_below, bool(summary.servers)
        ):
            waits[summary.source] = wait
            if is_of_others:
                suspects.add(summary.source)
    quiet = {source: wait for source, wait in waits.items() if source not in suspects}
    if quiet and few is not None:
        suspects |= suspects_among(few, landed_at, state.extent_rows(whole.sparkSession, quiet), quiet)
    elif quiet:
        suspects |= resets.suspect_sources(whole, state.extents(whole.sparkSession, quiet), quiet)
    waits = {source: wait for source, wait in waits.items() if source in suspects}
    return state.stop_points(whole, waits) if waits else []


def newest_times(shown: Mapping[str, Progress], batch: Iterable[Summary | Row]) -> dict[str, datetime | None]:
    """The newest event time of each source, with those of a batch (its summaries, or its counts)."""
    newest = {source: extent.event_time for source, extent in shown.items()}
    for part in batch:
        newest[part.source] = later(newest.get(part.source), part.max_event_time)
    return newest
