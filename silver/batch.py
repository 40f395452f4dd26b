"""One batch of messages: decoded once, every fate in one commit, and what follows from that commit."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from framework.config import Config
from framework.config_quality import OnChange
from framework.contracts.reasons import Reason
from framework.contracts.tables import CHANGES, MESSAGES
from framework.crash import crash_point
from framework.errors import MainstemError
from framework.notes import is_there
from framework.pace import SMALL_ROWS, set_pace
from silver import change_rules, derived, epochs, fates, resets
from silver.clock import with_believable_times
from silver.desk import STRIDE, Desk, Shown, later
from silver.formats import FORMATS
from silver.normalize import normalizer
from silver.rows import STAGED_DDL
from silver.seeds import plans_with_seeds
from silver.summary import Contents, Summary, contents_of

MESSAGES_TABLE = "bronze/messages"


@dataclass(frozen=True, slots=True)
class Arrived:
    """How many messages a batch has, and when the newest of them landed: the batch's clock, the same whenever it is run."""

    messages: int
    landed_at: datetime | None


def normalize_batch(messages: DataFrame, batch: int, desk: Desk, *, is_replay: bool = False) -> int:
    """Commit the fates of these rows of `bronze/messages`, once, and what follows from them. Returns how many there were.

    A replay of quarantined messages commits those that leave quarantine, and notes the new reason of those that stay.
    """
    spark = messages.sparkSession
    is_known = F.col("source").isin(*desk.plans)
    known = messages.where(is_known).select(*(F.col(f"`{n}`") for n in MESSAGES.names))
    unknown = F.collect_set(F.when(~is_known, F.col("source")))
    landed_at = F.max(F.when(is_known, F.col("ingested_at")))
    received, clock, others = messages.agg(F.count_if(is_known), landed_at, unknown).first() or (0, None, [])
    if others:
        rows = [epochs.left_out(source, batch) for source in sorted(others)]
        epochs.append_rows(spark, desk.lake, rows, desk.transaction("left_out", batch))
    if not received:  # a stream that has batches has its table
        desk.lake.create(spark, derived.CHANGES_TABLE, CHANGES, derived.CHANGES_PROPERTIES)
        return 0
    set_pace(spark, received)
    counts: list[Row] = []
    counts_to_be: list[Row] = []
    if _is_committed(spark, desk, batch):
        counts = derived.counts_of(spark, desk.lake, batch)
    else:
        counts_to_be = _commit(known, batch, desk, Arrived(received, clock), is_replay)
    # What was derived is not derived again: batches between may have paired the halves that this one left waiting.
    desk.note(counts or derive(known, batch, desk, clock, counts_to_be), received)
    return int(received)


def _is_committed(spark: SparkSession, desk: Desk, batch: int) -> bool:
    if not desk.lake.exists(spark, derived.CHANGES_TABLE):
        return False
    return not desk.lake.read(spark, derived.CHANGES_TABLE).where(F.col("batch") == batch).isEmpty()


def _commit(messages: DataFrame, batch: int, desk: Desk, arrived: Arrived, is_replay: bool) -> list[Row]:
    """Decode and commit. Returns the counts of what is committed where they are known before, else none."""
    spark, lake = messages.sparkSession, desk.lake
    crash_point("silver.before_staging")
    staging = f"{lake.checkpoints}/staging/silver"
    decoded(messages, desk).write.mode("overwrite").parquet(staging)
    staged = spark.read.schema(STAGED_DDL).parquet(staging)
    contents = contents_of(staged, arrived.landed_at)
    rows, stops = judged(staged, desk, arrived, contents)
    is_as_decoded = rows is staged and not is_replay
    if stops:
        halted = [epochs.stopped(stop, desk.config.sources[stop.source].epoch, batch) for stop in stops]
        epochs.append_rows(spark, lake, halted, desk.transaction("epochs", batch))
    if is_there(spark, f"{lake.checkpoints}/silver.forgotten"):
        rows, is_as_decoded = fates.without_forgotten(rows, lake.rows(spark, derived.CHANGES_TABLE, CHANGES)), False
    rules = change_rules.entries(desk.config.quality, OnChange.QUARANTINE)
    if rules:
        rows, is_as_decoded = change_rules.quarantined(rows, rules), False
    derived.append_schemas(spark, lake, contents.schemas, batch, desk.known_schemas(spark))
    crash_point("silver.before_changes")
    if is_replay:
        derived.note_refused_again(lake, rows)
        rows = derived.without_told(lake, rows.where("kind <> 'quarantined'"), messages)
    changes = rows.withColumn("batch", F.lit(batch).cast("long")).select(*(F.col(f"`{n}`") for n in CHANGES.names))
    if arrived.messages < SMALL_ROWS:
        changes = changes.coalesce(1)
    note = {"userMetadata": json.dumps({"batch": batch, "messages": arrived.messages})}
    lake.append(changes, derived.CHANGES_TABLE, desk.transaction("changes", batch), derived.CHANGES_PROPERTIES | note)
    crash_point("silver.after_changes")
    if lake.local_root is not None:
        shutil.rmtree(staging, ignore_errors=True)
    return contents.counts_in(batch) if is_as_decoded else []


def decoded(messages: DataFrame, desk: Desk, newest: Mapping[str, int] | None = None) -> DataFrame:
    """What the messages say, each in the epoch of its place. `newest`: the last epochs of sources that begin another one."""
    configured = {name: source.epoch for name, source in desk.config.sources.items()} | dict(newest or {})
    in_epochs = epochs.placed(messages, epochs.read_history(messages.sparkSession, desk.lake), configured)
    plans = plans_with_seeds(messages, desk.plans_for(messages), desk.lake)
    return in_epochs.mapInArrow(normalizer(plans), STAGED_DDL)


def judged(staged: DataFrame, desk: Desk, arrived: Arrived, contents: Contents) -> tuple[DataFrame, list[resets.Stop]]:
    """The fate of everything that was decoded, and where sources stop: what is behind that has no fate yet.

    The rows are `staged` itself where decoding has told every fate.
    """
    summaries = contents.sources
    decoded = sum(s.messages for s in summaries)
    if decoded != arrived.messages:
        raise MainstemError(
            "MESSAGES_UNACCOUNTED",
            found=f"{arrived.messages} messages in a batch, {decoded} fates",
            where="silver",
            action="report this: nothing was written, bronze keeps every message",
        )
    spark = staged.sparkSession
    shown = desk.shown_sources(spark)
    history = _history(spark, desk, summaries, shown)
    whole = staged.where("half is null") if contents.halves else staged
    repeats = fates.repeated_ids(staged, history)
    if not repeats.isEmpty():
        whole = without_repeats(whole, repeats, history, contents.open_to_repeats)
    stops = _stops(with_believable_times(whole, arrived.landed_at), desk, summaries, shown)
    if stops:
        stops = resets.spread(with_believable_times(staged, arrived.landed_at), stops)
        whole, staged = resets.without_held(whole, stops), resets.without_held(staged, stops)
    if not any(FORMATS[desk.config.sources[s.source].format].halves for s in summaries):
        return whole, stops
    if not contents.halves and not desk.has_pending(spark):
        return whole, stops
    pending = desk.lake.rows(spark, derived.PENDING_TABLE, CHANGES)
    overdue = deadlines(shown, desk.config, summaries)
    return whole.unionByName(fates.paired(staged, pending, history, overdue, contents.halves)), stops


def without_repeats(whole: DataFrame, repeats: DataFrame, history: DataFrame | None, open_rows: int) -> DataFrame:
    """The rows, those that repeat another told so; so many of them are `fates.is_open_to_repeats`."""
    if not open_rows:
        return fates.without_repeats(whole, repeats)
    is_open = fates.is_open_to_repeats()
    rest, settled = fates.settled_repeats(whole.where(is_open), repeats, history, open_rows)
    return fates.without_repeats(whole.where(~is_open), repeats).unionByName(rest).unionByName(settled)


def _stops(whole: DataFrame, desk: Desk, summaries: Sequence[Summary], shown: Mapping[str, Shown]) -> list[resets.Stop]:
    waits = {}
    for summary in summaries:
        source = desk.config.sources[summary.source]
        span = (summary.min_event_time, summary.max_event_time)
        is_behind = _is_behind(summary, shown)
        if resets.concerns(FORMATS[source.format], span, source.pairing_timeout, is_behind, summary.servers):
            waits[summary.source] = source.pairing_timeout
    servers = {summary.source for summary in summaries if summary.servers}
    extents = desk.extents(whole.sparkSession, list(waits), resets.EXTENTS)
    quiet = {source: wait for source, wait in waits.items() if source not in servers}
    suspects = servers | (resets.suspects(whole, extents, quiet) if quiet else set())
    waits = {source: wait for source, wait in waits.items() if source in suspects}
    return resets.found(whole, extents, waits) if waits else []


def _is_behind(summary: Summary, shown: Mapping[str, Shown]) -> bool:
    top = shown[summary.source].sequence if summary.source in shown else None
    return summary.min_sequence is not None and top is not None and summary.min_sequence <= top


def _history(spark: SparkSession, desk: Desk, summaries: Sequence[Summary], shown: Mapping[str, Shown]) -> DataFrame | None:
    """Earlier changes that this batch could repeat; None where all its positions are beyond what each source has shown."""
    found = None
    for summary in summaries:
        if _is_behind(summary, shown):
            mine = (F.col("source") == summary.source) & (F.col("sequence") >= F.lit(summary.min_sequence))
            found = mine if found is None else found | mine
    if found is None or not desk.lake.exists(spark, derived.CHANGES_TABLE):  # the counts of lost changes remain
        return None
    return desk.lake.read(spark, derived.CHANGES_TABLE).where(found & (F.col("kind").isin(*fates.IDENTIFIED) | F.expr(fates.UNPAIRED)))


def deadlines(shown: Mapping[str, Shown], config: Config, summaries: Sequence[Summary]) -> dict[str, datetime | None]:
    """Per source the event time before which a waiting half is released: the source's newest less its `pairing_timeout`."""
    newest = {source: extent.event_time for source, extent in shown.items()}
    for summary in summaries:
        newest[summary.source] = later(newest.get(summary.source), summary.max_event_time)
    deadlines: dict[str, datetime | None] = {}
    for name, source in config.sources.items():
        top = newest.get(name)
        try:
            deadlines[name] = None if top is None else top - source.pairing_timeout
        except OverflowError:
            deadlines[name] = None
    return deadlines


def derive(messages: DataFrame, batch: int, desk: Desk, landed_at: datetime | None, counts: Sequence[Row] = ()) -> list[Row]:
    """What follows from a committed batch; a repeat changes nothing. Returns its counts, which may be known (`counts`)."""
    spark, lake = messages.sparkSession, desk.lake
    committed = lake.read(spark, derived.CHANGES_TABLE).where(F.col("batch") == batch)
    counts = list(counts) or derived.count_rows(committed, landed_at)
    kinds = {row["kind"] for row in counts}
    if "quarantined" in kinds:
        reasons = {row["reason"] for row in counts}
        is_older = reasons & {Reason.UNPAIRED_BEFORE_IMAGE, Reason.AMBIGUOUS_PAIR}
        derived.merge_quarantine(lake, committed, lake.read(spark, MESSAGES_TABLE) if is_older else messages)
    if "row" in kinds and any(extent.has_unpaired for extent in desk.shown_tables(spark).values()):
        derived.resolve_unpaired(lake, committed)
    crash_point("silver.after_quarantine")
    if _has_waiting(counts, desk.config) or desk.has_pending(spark):
        times = {source: extent.event_time for source, extent in desk.shown_sources(spark).items()}
        for row in counts:
            times[row["source"]] = later(times.get(row["source"]), row["max_event_time"])
        derived.merge_pending(lake, committed, landed_at, times)
        desk.has_waiting = None
    crash_point("silver.after_pending")
    if kinds & {"ddl", "truncate"}:
        derived.append_statements(lake, committed, desk.transaction("statements", batch))
    if batch % STRIDE:
        derived.resolve_replayed(lake, committed)
    derived.append_counts(lake, spark, counts, landed_at, desk.transaction("counts", batch))
    crash_point("silver.after_counts")
    return counts


def _has_waiting(counts: Sequence[Row], config: Config) -> bool:
    """Whether halves of the batch may wait; those of formats without halves wait for nothing."""
    pairing = {name for name, source in config.sources.items() if FORMATS[source.format].halves}
    return any(row["kind"] == "half" and row["source"] in pairing for row in counts)
