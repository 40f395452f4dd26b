"""Messages that the stream has passed over, because their source was stopped or not configured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.config.model import Source
from framework.contracts.epochs import Landing, PartitionStart
from framework.contracts.table_names import CHANGES_TABLE, MESSAGES_TABLE
from framework.contracts.table_schemas import CHANGES, MESSAGE_ID
from framework.errors import MainstemError, brief
from framework.lakehouse.newest_tables import newest_tables
from framework.lakehouse.session_size import tune_for_lakehouse
from framework.lakehouse.staging import materialize
from framework.lakehouse.table_reader import Query
from framework.pipeline.fault_injection import crash_point
from framework.spark.columns import with_one_of
from silver.batches import batch_counts
from silver.batches.arrival import reached_offsets
from silver.batches.decoding import decode
from silver.batches.landings import (
    find_restarts,
    identify,
    landings_of,
    offset_ranges,
    outcomes_in_epochs,
    overlapping_ranges,
)
from silver.batches.process import process_batch
from silver.batches.run_state import BATCH_ID_STEP, RunState
from silver.epochs import history as epochs
from silver.epochs import resets, starts
from silver.epochs.assignment import landing_order
from silver.epochs.resets import StopPoint
from silver.stream.chunks import portions

_LAST_BATCH = Query(CHANGES_TABLE, "SELECT max(`batch`) AS `batch` FROM {rows}")


def resume_sources(spark: SparkSession, state: RunState) -> dict[str, epochs.StoppedSource]:
    """Begin the epochs that the configuration sets, and process the messages that were passed over.

    Returns the sources that are still stopped; the messages of one that fails are passed over again, and the
    rounds of one command try it after pauses that grow. A run that died is repeated: an epoch is recorded
    before a message is decoded in it, and a source counts as resumed only afterwards. Raises what
    `begin_epochs` raises.
    """
    begin_epochs(spark, state)
    history = state.epoch_history(spark)
    sources = state.config.sources
    for name in filter(state.tries.is_due, history.passed_over(sources)):
        tune_for_lakehouse(spark, state.lake)
        state.raw = _messages(spark, state, [name])
        try:
            process_in_portions(without_outcome(state.raw, state), state)
        except Exception as error:
            newest = last_batch_id(spark, state)
            is_derived = newest < 0 or batch_counts.counts_of(spark, state.lake, newest)
            if len(sources) == 1 or not is_derived:  # the next run repeats what follows from the last batch
                raise
            state.forget_shown()
            state.tries.note(name)
            failed = epochs.failed_row(name, max(newest, history.last_batch(name)), brief(error))
            if history.failure(name) != failed.detail:
                state.append_epochs(spark, [failed])
            continue
        finally:
            state.raw = None
            state.in_order.discard(name)
        state.tries.forget(name)
        crash_point("silver.before_resumed")
        if name not in state.epoch_history(spark).stopped_sources():
            last = max(last_batch_id(spark, state), history.last_batch(name))
            state.append_epochs(spark, [epochs.resumed_row(name, sources[name].epoch, last)])
    return state.epoch_history(spark).stopped_sources()


def begin_epochs(spark: SparkSession, state: RunState) -> None:
    """Begin the epochs that the configuration sets, and judge again the stops that were undecided.

    Raises:
        MainstemError: SOURCE_RESET, if a source has an epoch that cannot help: it has stopped at messages of
            an older topic, or of one that nothing tells. ConfigurationError: EPOCH_LOWERED.
    """
    history = state.epoch_history(spark)
    sources = state.config.sources
    epochs.check_not_lowered(history, {name: source.epoch for name, source in sources.items()})
    _begin(spark, state, [s for s in sources.values() if (history.epochs(s.name) or [1])[-1] != s.epoch])
    for stopped in state.epoch_history(spark).stopped_sources().values():
        if stopped.is_undecided and stopped.source in sources:
            _reconsider(spark, state, stopped)


def _begin(spark: SparkSession, state: RunState, raised: Sequence[Source]) -> None:
    """Record where the epochs of these sources begin, in one commit."""
    if not raised:
        return
    history = state.epoch_history(spark)
    all_stopped = history.stopped_sources()
    stopped = {source.name: all_stopped[source.name] for source in raised if source.name in all_stopped}
    for found in stopped.values():
        if found.is_of_older_topic or found.is_of_unknown_topic:
            raise found.error()
    tune_for_lakehouse(spark, state.lake)
    unrecorded = state.source_epochs(spark).unrecorded
    before: dict[str, int] = {}
    for source in raised:
        known = history.epochs(source.name)
        last = known[-1] if known else unrecorded.get(source.name)
        if last not in (None, source.epoch):  # a release that did not record epochs began that one
            before[source.name] = last
    stopped = {name: found for name, found in stopped.items() if name in before}
    places = _places(spark, state, stopped, before) if before else {}
    rows = [
        row
        for source in raised
        for row in epochs.started_rows(
            epochs.EpochStart(
                source.name, source.epoch, before.get(source.name), places.get(source.name, ())
            ),
            history,
        )
    ]
    state.append_epochs(spark, rows)
    crash_point("silver.after_begun")


def _reconsider(spark: SparkSession, state: RunState, stopped: epochs.StoppedSource) -> None:
    """Withdraw the stops of a source if the messages that have landed since show that it is in order.

    If they show a reset, record that instead.
    """
    tune_for_lakehouse(spark, state.lake)
    unread = without_outcome_identified(_messages(spark, state, [stopped.source]), state)
    with materialize(unread, state.lake, "reconsidered") as new:
        staged = _decoded_only_here(new, state)
        found = starts.with_landings(new, _stops_in(staged, state, [stopped.source]))
    rows = [
        epochs.stopped_row(stop, stopped.epoch, stopped.batch)
        for stop in found
        if stop.reason != resets.UNDECIDED
    ]
    if not found:
        rows = [epochs.withdrawn_row(stopped)]
        state.in_order.add(stopped.source)
    if rows:
        state.append_epochs(spark, rows)


def _stops_in(staged: DataFrame, state: RunState, sources: Iterable[str]) -> list[StopPoint]:
    waits = {source: state.config.sources[source].pairing_timeout for source in sources}
    return state.stop_points(staged.where("half is null"), waits)


def _places(
    spark: SparkSession,
    state: RunState,
    stopped: Mapping[str, epochs.StoppedSource],
    before: Mapping[str, int],
) -> dict[str, list[PartitionStart]]:
    """The first message of the new epochs in each partition of bronze: the first unread one, or the end.

    Args:
        spark: The session.
        state: The state of the run.
        stopped: Those of the sources that are stopped.
        before: The epochs of the sources so far.

    Returns:
        The places by source; none where bronze has no message of the source: it was lost, and the epoch
        begins when messages have landed.
    """
    messages, history = _messages(spark, state, before), state.epoch_history(spark)
    unread = without_outcome_identified(messages, state)
    with materialize(unread, state.lake, "begins") as new:
        stops = (
            _first_of(new.where(~F.col("source").isin(*stopped))) if stopped.keys() < before.keys() else []
        )
        if stopped:
            stops += _starts(new.where(F.col("source").isin(*stopped)), state, stopped)
        present = starts.of_present_topics(messages, history, before)
        known = starts.epoch_starts(present, new, stops)
    return _of_all_partitions(messages, list(zip(stops, known, strict=True)), history)


def _of_all_partitions(
    messages: DataFrame, known: Sequence[tuple[StopPoint, PartitionStart]], history: epochs.History
) -> dict[str, list[PartitionStart]]:
    """The known starts, and the ends of the partitions that have no message of the new epochs."""
    end, landed = F.try_add(F.max("offset"), F.lit(1)), F.max(F.unix_micros("ingested_at"))
    ends = messages.groupBy("source", "topic", "partition").agg(end, landed).collect()
    last: dict[str, int] = {}
    for source, _, _, _, at in ends:
        if at is not None:
            last[source] = max(at, last.get(source, at))
    anew = {(stop.source, place.topic): place.since for stop, place in known if place.landing is not None}
    found = {(stop.source, place.topic, place.partition): place for stop, place in known}
    for source, topic, partition, behind, _ in ends:
        if source not in last or (source, topic, partition) in found:
            continue
        place = PartitionStart(topic, partition, behind)
        if (source, topic) in anew or behind is None:  # None: no offset is behind the highest one
            after_all: Landing = (last[source] + 1, "", 0)
            since = starts.of_no_message(anew.get((source, topic)))
            place = PartitionStart(topic, partition, 0, after_all, since)
        found[source, topic, partition] = place
    recorded, places = history.starts(), dict[str, list[PartitionStart]]()
    for at, place in found.items():
        if at[0] in last:
            places.setdefault(at[0], []).append(_after_earlier(place, recorded.get(at, {}).values()))
    return places


def _after_earlier(place: PartitionStart, earlier: Iterable[PartitionStart]) -> PartitionStart:
    """The place; one without a landing gets the last landing at which an earlier epoch began there."""
    landed = [start for start in earlier if start.landing is not None]
    if place.landing is not None or not landed:
        return place
    newest = max(landed, key=lambda start: start.landing or ())
    return place._replace(landing=newest.landing, since=newest.since)


def _first_of(new: DataFrame) -> list[StopPoint]:
    """The first unread message of each partition, which the configuration puts into a new epoch."""
    at, restart = ["source", "topic", "partition"], F.coalesce("restart", F.lit(0)).alias("restart")
    restarts = (
        new.where("relanding IS NULL")
        .groupBy(*at, restart)
        .agg(F.min("offset").alias("offset"), F.min(landing_order()).alias("landed"))
    )
    first = restarts.groupBy(*at).agg(F.min(F.struct("restart", "offset", "landed")).alias("first"))
    rows = first.select(*at, "first.*").collect()
    return [
        StopPoint(
            r["source"], r["topic"], r["partition"], r["offset"], "", "", r["restart"], tuple(r["landed"])
        )
        for r in rows
    ]


def _starts(new: DataFrame, state: RunState, stopped: Mapping[str, epochs.StoppedSource]) -> list[StopPoint]:
    """Where unread messages show the new epochs: at the stops, later signs, and messages after those."""
    staged = _decoded_only_here(new, state)
    more = _stops_in(staged, state, stopped)
    extents = state.extents(new.sparkSession, stopped.keys())
    recorded = starts.with_restarts(new, [stop for found in stopped.values() for stop in found.stops])
    return starts.with_landings(
        new, resets.spread_stop_points(staged, [*recorded, *find_restarts(new), *more], extents)
    )


def _decoded_only_here(new: DataFrame, state: RunState) -> DataFrame:
    """What unread messages say, but for those that are refused; the run learns nothing from them.

    They are decoded in the epoch before the one that may begin with them.
    """
    staged = decode(new, state).where("kind <> 'quarantined'")
    state.forget_shown()
    return staged


def _messages(spark: SparkSession, state: RunState, sources: Iterable[str]) -> DataFrame:
    return with_one_of(state.lake.read(spark, MESSAGES_TABLE), "source", sources)


def without_outcome(messages: DataFrame, state: RunState) -> DataFrame:
    """The messages that have no outcome yet."""
    return without_outcome_identified(messages, state).select(*messages.columns)


def without_outcome_identified(messages: DataFrame, state: RunState) -> DataFrame:
    """The messages that have no outcome yet, with the columns that `identify` adds."""
    changes = state.lake.rows(messages.sparkSession, CHANGES_TABLE, CHANGES)
    recorded = state.source_epochs(messages.sparkSession)
    outcomes = landings_of(outcomes_in_epochs(changes, recorded))
    ranges = offset_ranges(messages, state.config)
    # a message of another topic at the coordinates of an outcome has none, and a dump may hold messages again
    overlaps = overlapping_ranges(ranges, reached_offsets(messages.sparkSession, state))
    known = identify(messages, state.lake, recorded, overlaps)
    landed = known.withColumn("relanding_id", F.coalesce("relanding", F.lit("")))
    decided = outcomes.toDF(*(f"decided_{name}" for name in outcomes.columns))
    same = [landed[name].eqNullSafe(decided[f"decided_{name}"]) for name in MESSAGE_ID]
    is_it = landed["relanding_id"] == decided["decided_relanding"]
    marked = landed.join(decided.withColumn("has_outcome", F.lit(True)), [*same, is_it], "left")
    return marked.where("has_outcome IS NULL OR is_reused").select(*known.columns)


def process_in_portions(messages: DataFrame, state: RunState, *, is_replay: bool = False) -> None:
    """Process messages in batches of bounded size. A source that stops meanwhile is left where it stopped.

    If the run is killed, the next one processes the messages that have no outcome by then.
    """
    with materialize(messages, state.lake, "taken_up") as found:
        _take_up(found, state, is_replay=is_replay)


def _take_up(messages: DataFrame, state: RunState, *, is_replay: bool) -> None:
    spark = messages.sparkSession
    already_stopped = set(state.epoch_history(spark).stopped_sources())
    parts = portions(messages, _room(spark, state))
    for number, is_part in enumerate(parts, 1):
        stopped = set(state.epoch_history(spark).stopped_sources()) - already_stopped if number > 1 else set()
        part = (
            messages.where(is_part & ~F.col("source").isin(*stopped)) if stopped else messages.where(is_part)
        )
        process_batch(
            part, spare_batch_id(spark, state), state, is_replay=is_replay, is_last=number == len(parts)
        )


def _room(spark: SparkSession, state: RunState) -> int:
    """How many batches may be used: half of the numbers that are left before the stream's next batch."""
    return (BATCH_ID_STEP - 1 - max(last_batch_id(spark, state), 0) % BATCH_ID_STEP) // 2


def last_batch_id(spark: SparkSession, state: RunState) -> int:
    """The highest batch that silver holds, -1 if there is none."""
    last = [row["batch"] for row in newest_tables(spark, state.lake).rows(_LAST_BATCH)]
    return -1 if last in ([], [None]) else int(last[0])


def spare_batch_id(spark: SparkSession, state: RunState) -> int:
    """A number for messages that are decoded again: between the last batch and the stream's next."""
    batch = max(last_batch_id(spark, state), 0) + 1
    if batch % BATCH_ID_STEP == 0:
        raise MainstemError(
            "TOO_MANY_REPLAYS",
            found=f"{BATCH_ID_STEP - 1} batches were taken up again since the last new message",
            where="silver",
            action="land a message, run, and replay again",
        )
    return batch
